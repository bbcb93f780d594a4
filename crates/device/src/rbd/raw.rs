//! An open image of librbd: the calls that wait, and the requests that do not.
//!
//! A request and its memory are in a box that belongs to librbd until it calls back. The callback takes the box, releases the completion
//! and answers; it touches nothing else, since librbd's own thread runs it.
#![expect(unsafe_code, reason = "librbd is a library of C")]

use super::calls::{Calls, Done, Request};
use super::cluster::{Pool, TEXT_BYTES, check, text, until_zero};
use super::library::{Handle, Library, Watcher};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// `RBD_LOCK_MODE_EXCLUSIVE`.
const EXCLUSIVE: c_int = 0;
/// `RBD_WRITE_ZEROES_FLAG_THICK_PROVISION`.
const THICK: c_int = 1;
/// The most owners of a lock, or watchers of an image, that are listed.
const LISTED_MAX: usize = 64;
/// Bytes for what is told of a lock's owners.
const LOCKERS_BYTES: usize = 2048;
/// Bytes of the longest text.
const TEXT_BYTES_MAX: usize = 64 << 10;
/// Pauses of an image that is closed while requests are under way.
const CLOSE_TURN: Duration = Duration::from_millis(5);

/// An open image or snapshot. Dropping it waits for its requests, and closes it: both may block.
pub(super) struct RawImage {
    pool: Pool,
    handle: Handle,
    /// Requests that are not answered.
    under_way: Arc<AtomicUsize>,
}

// SAFETY: an image of librbd, and what it was opened with, may be used by any thread, and by several at once.
unsafe impl Send for RawImage {}
// SAFETY: see above.
unsafe impl Sync for RawImage {}

impl RawImage {
    pub(super) fn open(
        pool: Pool,
        name: &str,
        snapshot: Option<&str>,
        writable: bool,
    ) -> Result<Self, (Pool, io::Error)> {
        match pool.open_handle(name, snapshot, writable) {
            Ok(handle) => Ok(Self { pool, handle, under_way: Arc::default() }),
            Err(error) => Err((pool, error)),
        }
    }

    fn library(&self) -> &'static Library {
        self.pool.cluster().library()
    }

    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Its size in bytes.
    pub(super) fn size(&self) -> io::Result<u64> {
        let mut size = 0;
        // SAFETY: the image is open.
        check(unsafe { (self.library().rbd.rbd_get_size)(self.handle, &mut size) })?;
        Ok(size)
    }

    /// Its id, which it keeps when it is renamed.
    pub(super) fn id(&self) -> io::Result<String> {
        let mut buffer = vec![0_u8; TEXT_BYTES];
        // SAFETY: the image is open; at most the buffer's length is written, with a zero byte at its end.
        check(unsafe { (self.library().rbd.rbd_get_id)(self.handle, buffer.as_mut_ptr().cast(), buffer.len()) })?;
        Ok(until_zero(&buffer))
    }

    /// The number of a snapshot.
    pub(super) fn snapshot_id(&self, name: &str) -> io::Result<u64> {
        let (name, mut id) = (text(name)?, 0);
        // SAFETY: the image is open; the name ends with a zero byte.
        check(unsafe { (self.library().rbd.rbd_snap_get_id)(self.handle, name.as_ptr(), &mut id) })?;
        Ok(id)
    }

    /// The address of the client that has the lock. Of an image that is not open for writing: that had it when it was opened.
    pub(super) fn owner(&self) -> io::Result<Option<String>> {
        let (mut mode, mut owners, mut count) = (0, [ptr::null_mut::<c_char>(); LISTED_MAX], LISTED_MAX);
        let rbd = &self.library().rbd;
        // SAFETY: the image is open; at most `count` pointers are written.
        let listed =
            check(unsafe { (rbd.rbd_lock_get_owners)(self.handle, &mut mode, owners.as_mut_ptr(), &mut count) });
        match listed {
            Ok(_) => {
                let count = count.min(LISTED_MAX);
                // SAFETY: the first `count` are texts with a zero byte at their ends.
                let owner = owners[..count].first().map(|owner| unsafe { copied(*owner) });
                // SAFETY: they are those that were listed, and are freed once.
                unsafe { (rbd.rbd_lock_get_owners_cleanup)(owners.as_mut_ptr(), count) };
                Ok(owner)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            // It is not open for writing, or has no such feature.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => self.noted_owner(),
            Err(error) => Err(error),
        }
    }

    /// The address of the client that had the lock when the image was opened, or its header was last read.
    fn noted_owner(&self) -> io::Result<Option<String>> {
        let mut is_exclusive = 0;
        let mut buffers = [const { [0_u8; LOCKERS_BYTES] }; 4];
        let mut lens = [LOCKERS_BYTES; 4];
        let [tag, clients, cookies, addresses] = buffers.each_mut().map(|buffer| buffer.as_mut_ptr().cast());
        let [tag_len, clients_len, cookies_len, addresses_len] = lens.each_mut().map(ptr::from_mut);
        // SAFETY: the image is open; at most the length of each buffer is written, with a zero byte at the end of each text.
        let count = unsafe {
            (self.library().rbd.rbd_list_lockers)(
                self.handle,
                &mut is_exclusive,
                tag,
                tag_len,
                clients,
                clients_len,
                cookies,
                cookies_len,
                addresses,
                addresses_len,
            )
        };
        let count = check(c_int::try_from(count).unwrap_or(-libc::EIO))?;
        Ok((count > 0).then(|| until_zero(&buffers[3])))
    }

    /// The addresses of the clients that have the image open for writing, and were heard of lately.
    pub(super) fn watchers(&self) -> io::Result<Vec<String>> {
        let nobody = Watcher { address: ptr::null_mut(), id: 0, cookie: 0 };
        let (mut watchers, mut count) = ([nobody; LISTED_MAX], LISTED_MAX);
        let rbd = &self.library().rbd;
        // SAFETY: the image is open; at most `count` watchers are written.
        check(unsafe { (rbd.rbd_watchers_list)(self.handle, watchers.as_mut_ptr(), &mut count) })?;
        let count = count.min(LISTED_MAX);
        // SAFETY: the addresses of the first `count` are texts with a zero byte at their ends.
        let addresses = watchers[..count].iter().map(|watcher| unsafe { copied(watcher.address) }).collect();
        // SAFETY: they are those that were listed, and are freed once.
        unsafe { (rbd.rbd_watchers_list_cleanup)(watchers.as_mut_ptr(), count) };
        Ok(addresses)
    }

    /// Takes the exclusive lock, and does not give it to those who ask for it. Waits for the present owner.
    pub(super) fn acquire(&self) -> io::Result<()> {
        // SAFETY: the image is open.
        check(unsafe { (self.library().rbd.rbd_lock_acquire)(self.handle, EXCLUSIVE) }).map(drop)
    }

    /// Takes the lock from its owner, which gets nothing written any more: the cluster refuses it.
    pub(super) fn break_lock(&self, owner: &str) -> io::Result<()> {
        let owner = text(owner)?;
        // SAFETY: the image is open; the address ends with a zero byte.
        check(unsafe { (self.library().rbd.rbd_lock_break)(self.handle, EXCLUSIVE, owner.as_ptr()) }).map(drop)
    }

    /// Lets the cluster refuse a client for some time.
    pub(super) fn blocklist(&self, client: &str, time: Duration) -> io::Result<()> {
        let is_address = client.bytes().all(|b| b.is_ascii_hexdigit() || b".:/[]".contains(&b));
        if !is_address {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it has no address"));
        }
        self.pool.cluster().command(&format!(
            "{{\"prefix\": \"osd blocklist\", \"blocklistop\": \"add\", \"addr\": \"{client}\", \"expire\": {}.0}}",
            time.as_secs()
        ))
    }

    /// Whether this client has the lock; asks the cluster.
    ///
    /// # Errors
    /// `ESHUTDOWN`: the cluster refuses this client, since another one has broken its lock.
    pub(super) fn is_owner(&self) -> io::Result<bool> {
        let mut is_owner = 0;
        // SAFETY: the image is open.
        check(unsafe { (self.library().rbd.rbd_is_exclusive_lock_owner)(self.handle, &mut is_owner) })?;
        Ok(is_owner != 0)
    }

    /// A text of the image's metadata.
    pub(super) fn metadata(&self, key: &str) -> io::Result<Option<String>> {
        let key = text(key)?;
        let mut len = TEXT_BYTES;
        loop {
            let mut buffer = vec![0_u8; len];
            // SAFETY: the image is open, the key ends with a zero byte; at most `len` bytes are written, with a zero byte at the end.
            let got = check(unsafe {
                (self.library().rbd.rbd_metadata_get)(self.handle, key.as_ptr(), buffer.as_mut_ptr().cast(), &mut len)
            });
            match got {
                Ok(_) => return Ok(Some(until_zero(&buffer))),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                // The length that is said to be needed may lack the zero byte.
                Err(error) if error.raw_os_error() == Some(libc::ERANGE) && buffer.len() < TEXT_BYTES_MAX => {
                    len = len.max(buffer.len()).saturating_mul(2).min(TEXT_BYTES_MAX);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Sets a text of the image's metadata, durably.
    pub(super) fn set_metadata(&self, key: &str, value: &str) -> io::Result<()> {
        let (key, value) = (text(key)?, text(value)?);
        // SAFETY: the image is open; both texts end with a zero byte.
        check(unsafe { (self.library().rbd.rbd_metadata_set)(self.handle, key.as_ptr(), value.as_ptr()) }).map(drop)
    }

    /// Removes a text from the image's metadata, durably.
    pub(super) fn remove_metadata(&self, key: &str) -> io::Result<()> {
        let key = text(key)?;
        // SAFETY: the image is open; the key ends with a zero byte.
        match check(unsafe { (self.library().rbd.rbd_metadata_remove)(self.handle, key.as_ptr()) }) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for RawImage {
    fn drop(&mut self) {
        while self.under_way.load(Ordering::Acquire) > 0 {
            std::thread::sleep(CLOSE_TURN);
        }
        // SAFETY: the image is open, and no request is under way; pool and cluster are dropped after it.
        unsafe { (self.library().rbd.rbd_close)(self.handle) };
    }
}

/// A request that librbd has.
struct UnderWay {
    library: &'static Library,
    request: Request,
    done: Done,
    under_way: Arc<AtomicUsize>,
}

impl UnderWay {
    fn end(self, result: i64) {
        self.done.end(result, self.request);
        self.under_way.fetch_sub(1, Ordering::Release);
    }
}

/// librbd calls this once for each request that it has accepted.
unsafe extern "C" fn completed(completion: Handle, argument: *mut c_void) {
    // SAFETY: the argument is the box that `begin` made for this completion, and librbd calls back once.
    let request = unsafe { Box::from_raw(argument.cast::<UnderWay>()) };
    let rbd = &request.library.rbd;
    // SAFETY: the completion is complete.
    let result = unsafe { (rbd.rbd_aio_get_return_value)(completion) };
    // SAFETY: nobody else uses the completion, and it is released once.
    unsafe { (rbd.rbd_aio_release)(completion) };
    request.end(result as i64);
}

impl Calls for RawImage {
    fn begin(&self, request: Request, done: Done) {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        let (library, under_way) = (self.library(), Arc::clone(&self.under_way));
        let rbd = &library.rbd;
        let boxed = Box::into_raw(Box::new(UnderWay { library, request, done, under_way }));
        let mut completion = ptr::null_mut();
        // SAFETY: the argument stays valid until the callback takes it.
        let made = unsafe { (rbd.rbd_aio_create_completion)(boxed.cast(), completed, &mut completion) };
        if made < 0 {
            // SAFETY: there is no completion, and thus no callback: the box is still owned here.
            unsafe { Box::from_raw(boxed) }.end(made.into());
            return;
        }
        // SAFETY: the image is open. The request's memory is in the box, or on the heap behind it, and stays there until the callback;
        // nothing else uses it meanwhile. Its length is that of the memory. What librbd may complete at once is not used after the call.
        let begun = unsafe {
            match &mut (*boxed).request {
                Request::Read { offset, into } => {
                    (rbd.rbd_aio_read)(self.handle, *offset, into.len(), into.as_mut_ptr().cast(), completion)
                }
                Request::Write { offset, data } => {
                    (rbd.rbd_aio_write)(self.handle, *offset, data.len(), data.as_ptr().cast(), completion)
                }
                Request::Discard { offset, len } => (rbd.rbd_aio_discard)(self.handle, *offset, *len, completion),
                Request::WriteZeroes { offset, len, may_unmap } => {
                    let flags = if *may_unmap { 0 } else { THICK };
                    (rbd.rbd_aio_write_zeroes)(self.handle, *offset, *len as usize, completion, flags, 0)
                }
                Request::Flush => (rbd.rbd_aio_flush)(self.handle, completion),
            }
        };
        if begun < 0 {
            // SAFETY: librbd has refused the request, and will not call back: completion and box are still owned here.
            unsafe {
                (rbd.rbd_aio_release)(completion);
                Box::from_raw(boxed).end(begun.into());
            }
        }
    }
}

/// A copy of a text of C; empty for null.
///
/// # Safety
/// The pointer is null, or that of a text with a zero byte at its end.
unsafe fn copied(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller promises it.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
