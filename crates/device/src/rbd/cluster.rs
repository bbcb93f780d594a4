//! The way to an image: the connection to a cluster, and a pool of it.
#![expect(unsafe_code, reason = "librados is a library of C")]

use super::library::{Handle, Library};
use std::ffi::{CString, c_int};
use std::io;
use std::ptr;

/// Bytes of the buffer for a short text.
pub(super) const TEXT_BYTES: usize = 256;

/// The error that a call returned as a negative number.
pub(super) fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(result) }
}

/// A text for C.
pub(super) fn text(text: &str) -> io::Result<CString> {
    CString::new(text).map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a name has a zero byte"))
}

/// A connection to a cluster.
pub(super) struct Cluster {
    library: &'static Library,
    handle: Handle,
}

impl Cluster {
    /// A connection that is not made yet, of a user (`client.ID`; `None`: `client.admin`).
    pub(super) fn new(library: &'static Library, id: Option<&str>) -> io::Result<Self> {
        let id = id.map(text).transpose()?;
        let mut handle = ptr::null_mut();
        // SAFETY: the id is null or ends with a zero byte; the handle is written only if the call succeeds.
        check(unsafe { (library.rados.rados_create)(&mut handle, id.as_ref().map_or(ptr::null(), |id| id.as_ptr())) })?;
        Ok(Self { library, handle })
    }

    /// Reads a configuration file; `None`: `$CEPH_CONF` or the usual places.
    pub(super) fn read_configuration(&self, path: Option<&str>) -> io::Result<()> {
        let path = path.map(text).transpose()?;
        let path = path.as_ref().map_or(ptr::null(), |path| path.as_ptr());
        // SAFETY: the handle is valid and not connected; the path is null or ends with a zero byte.
        check(unsafe { (self.library.rados.rados_conf_read_file)(self.handle, path) }).map(drop)
    }

    /// Sets an option. One that this version of the library does not have is an error.
    pub(super) fn set(&self, option: &str, value: &str) -> io::Result<()> {
        let (option, value) = (text(option)?, text(value)?);
        // SAFETY: the handle is valid and not connected; both texts end with a zero byte.
        check(unsafe { (self.library.rados.rados_conf_set)(self.handle, option.as_ptr(), value.as_ptr()) }).map(drop)
    }

    pub(super) const fn library(&self) -> &'static Library {
        self.library
    }

    pub(super) fn connect(&self) -> io::Result<()> {
        // SAFETY: the handle is valid and not connected.
        check(unsafe { (self.library.rados.rados_connect)(self.handle) }).map(drop)
    }

    /// The cluster's UUID.
    pub(super) fn fsid(&self) -> io::Result<String> {
        let mut buffer = vec![0_u8; TEXT_BYTES];
        // SAFETY: the handle is connected; at most the buffer's length is written, with a zero byte at its end.
        check(unsafe {
            (self.library.rados.rados_cluster_fsid)(self.handle, buffer.as_mut_ptr().cast(), buffer.len())
        })?;
        Ok(until_zero(&buffer))
    }

    /// Sends a command to the monitors, in JSON.
    pub(super) fn command(&self, command: &str) -> io::Result<()> {
        let command = text(command)?;
        let commands = [command.as_ptr()];
        let (mut out, mut out_len, mut said, mut said_len) = (ptr::null_mut(), 0, ptr::null_mut(), 0);
        // SAFETY: the handle is connected; there is one command, which ends with a zero byte, and no input; the four places for the
        // answer are valid.
        let result = unsafe {
            (self.library.rados.rados_mon_command)(
                self.handle,
                commands.as_ptr(),
                1,
                c"".as_ptr(),
                0,
                &mut out,
                &mut out_len,
                &mut said,
                &mut said_len,
            )
        };
        for buffer in [out, said] {
            if !buffer.is_null() {
                // SAFETY: librados has allocated it for the answer, and it is freed once.
                unsafe { (self.library.rados.rados_buffer_free)(buffer) };
            }
        }
        check(result).map(drop)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // SAFETY: the handle is valid, also if it is not connected; what was opened with it is closed already.
        unsafe { (self.library.rados.rados_shutdown)(self.handle) };
    }
}

/// A pool, or a namespace of it.
pub(super) struct Pool {
    cluster: Cluster,
    handle: Handle,
}

impl Pool {
    pub(super) fn open(cluster: Cluster, name: &str, namespace: Option<&str>) -> io::Result<Self> {
        let name = text(name)?;
        let namespace = namespace.map(text).transpose()?;
        let (library, mut handle) = (cluster.library, ptr::null_mut());
        // SAFETY: the cluster is connected; the name ends with a zero byte.
        check(unsafe { (library.rados.rados_ioctx_create)(cluster.handle, name.as_ptr(), &mut handle) })?;
        if let Some(namespace) = namespace {
            // SAFETY: the pool is open; the name ends with a zero byte, and is copied.
            unsafe { (library.rados.rados_ioctx_set_namespace)(handle, namespace.as_ptr()) };
        }
        Ok(Self { cluster, handle })
    }

    /// Its number in the cluster.
    pub(super) fn id(&self) -> i64 {
        // SAFETY: the pool is open.
        unsafe { (self.cluster.library.rados.rados_ioctx_get_id)(self.handle) }
    }

    pub(super) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Opens an image of it, or a snapshot of the image.
    pub(super) fn open_handle(&self, name: &str, snapshot: Option<&str>, writable: bool) -> io::Result<Handle> {
        let name = text(name)?;
        let snapshot = snapshot.map(text).transpose()?;
        let snapshot = snapshot.as_ref().map_or(ptr::null(), |snapshot| snapshot.as_ptr());
        let rbd = &self.cluster.library.rbd;
        let open = if writable { rbd.rbd_open } else { rbd.rbd_open_read_only };
        let mut handle = ptr::null_mut();
        // SAFETY: the pool is open; the names end with a zero byte, or the snapshot's is null.
        check(unsafe { open(self.handle, name.as_ptr(), &mut handle, snapshot) })?;
        Ok(handle)
    }

    /// Whether there is an image of that name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.open_handle(name, None, false).is_ok_and(|handle| {
            // SAFETY: the image was opened just now, and is used by nothing.
            unsafe { (self.cluster.library.rbd.rbd_close)(handle) };
            true
        })
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: the pool is open, and its image closed; the cluster is dropped after it.
        unsafe { (self.cluster.library.rados.rados_ioctx_destroy)(self.handle) };
    }
}

/// The text before the first zero byte.
pub(super) fn until_zero(bytes: &[u8]) -> String {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}
