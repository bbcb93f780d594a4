//! librados and librbd (Ceph, LGPL), loaded when the first image is opened: a program that has no such origin does not need them.
//!
//! The functions are those of Ceph 15 and later, as `rados/librados.h` and `rbd/librbd.h` declare them.
#![expect(unsafe_code, reason = "functions of a library that is loaded at run time are known by name alone")]

use parking_lot::Mutex;
use std::ffi::{CStr, c_char, c_int, c_void};

/// `rados_t`, `rados_ioctx_t`, `rbd_image_t` and `rbd_completion_t`.
pub(super) type Handle = *mut c_void;
/// `rbd_callback_t`.
pub(super) type Callback = unsafe extern "C" fn(completion: Handle, argument: *mut c_void);

/// `rbd_image_watcher_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Watcher {
    pub(super) address: *mut c_char,
    pub(super) id: i64,
    pub(super) cookie: u64,
}

/// A library, or one of its functions, that is not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{library} cannot be used: {why}")]
pub struct Missing {
    /// The name of its file.
    pub library: &'static str,
    /// What the system says.
    pub why: String,
}

/// The functions of one library: a structure with a field for each.
macro_rules! functions {
    ($name:ident of $library:expr; $($function:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        pub(super) struct $name {
            $(pub(super) $function: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl $name {
            fn load() -> Result<Self, Missing> {
                let library = Loaded::open($library)?;
                Ok(Self {
                    $($function: {
                        let symbol = library.symbol(concat!(stringify!($function), "\0"))?;
                        // SAFETY: the symbol is the function of that name, which the library's header declares with these types;
                        // the library is never unloaded.
                        unsafe {
                            std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>(symbol)
                        }
                    },)*
                })
            }
        }
    };
}

functions! { Rados of c"librados.so.2";
    rados_create(*mut Handle, *const c_char) -> c_int;
    rados_conf_read_file(Handle, *const c_char) -> c_int;
    rados_conf_set(Handle, *const c_char, *const c_char) -> c_int;
    rados_connect(Handle) -> c_int;
    rados_shutdown(Handle);
    rados_cluster_fsid(Handle, *mut c_char, usize) -> c_int;
    rados_mon_command(
        Handle, *const *const c_char, usize, *const c_char, usize,
        *mut *mut c_char, *mut usize, *mut *mut c_char, *mut usize
    ) -> c_int;
    rados_buffer_free(*mut c_char);
    rados_ioctx_create(Handle, *const c_char, *mut Handle) -> c_int;
    rados_ioctx_destroy(Handle);
    rados_ioctx_set_namespace(Handle, *const c_char);
    rados_ioctx_get_id(Handle) -> i64;
}

functions! { Rbd of c"librbd.so.1";
    rbd_open(Handle, *const c_char, *mut Handle, *const c_char) -> c_int;
    rbd_open_read_only(Handle, *const c_char, *mut Handle, *const c_char) -> c_int;
    rbd_close(Handle) -> c_int;
    rbd_get_size(Handle, *mut u64) -> c_int;
    rbd_get_id(Handle, *mut c_char, usize) -> c_int;
    rbd_snap_get_id(Handle, *const c_char, *mut u64) -> c_int;
    rbd_lock_acquire(Handle, c_int) -> c_int;
    rbd_lock_break(Handle, c_int, *const c_char) -> c_int;
    rbd_lock_get_owners(Handle, *mut c_int, *mut *mut c_char, *mut usize) -> c_int;
    rbd_lock_get_owners_cleanup(*mut *mut c_char, usize);
    rbd_list_lockers(
        Handle, *mut c_int, *mut c_char, *mut usize, *mut c_char, *mut usize, *mut c_char, *mut usize, *mut c_char, *mut usize
    ) -> isize;
    rbd_is_exclusive_lock_owner(Handle, *mut c_int) -> c_int;
    rbd_watchers_list(Handle, *mut Watcher, *mut usize) -> c_int;
    rbd_watchers_list_cleanup(*mut Watcher, usize);
    rbd_metadata_get(Handle, *const c_char, *mut c_char, *mut usize) -> c_int;
    rbd_metadata_set(Handle, *const c_char, *const c_char) -> c_int;
    rbd_metadata_remove(Handle, *const c_char) -> c_int;
    rbd_aio_create_completion(*mut c_void, Callback, *mut Handle) -> c_int;
    rbd_aio_get_return_value(Handle) -> isize;
    rbd_aio_release(Handle);
    rbd_aio_read(Handle, u64, usize, *mut c_char, Handle) -> c_int;
    rbd_aio_write(Handle, u64, usize, *const c_char, Handle) -> c_int;
    rbd_aio_discard(Handle, u64, u64, Handle) -> c_int;
    rbd_aio_write_zeroes(Handle, u64, usize, Handle, c_int, c_int) -> c_int;
    rbd_aio_flush(Handle, Handle) -> c_int;
}

/// Both libraries.
pub(super) struct Library {
    pub(super) rados: Rados,
    pub(super) rbd: Rbd,
}

/// The libraries, once they could be loaded.
static LIBRARY: Mutex<Option<&'static Library>> = Mutex::new(None);

/// The libraries, which stay loaded until the process ends. May block.
pub(super) fn library() -> Result<&'static Library, Missing> {
    let mut library = LIBRARY.lock();
    if let Some(library) = *library {
        return Ok(library);
    }
    let loaded = Library { rados: Rados::load()?, rbd: Rbd::load()? };
    Ok(library.insert(Box::leak(Box::new(loaded))))
}

/// From now on, the process ends without the libraries' own ends, which must not run while their threads still use them.
pub(super) fn end_without_them() {
    unsafe extern "C" {
        fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
    }
    extern "C" fn leave(code: c_int, _: *mut c_void) {
        // SAFETY: the call does not return.
        unsafe { libc::_exit(code) }
    }
    // SAFETY: the function is that of glibc (on_exit(3)); the one that it is given needs no argument, and is never unloaded. What was
    // registered last is called first.
    unsafe { on_exit(leave, std::ptr::null_mut()) };
}

/// A library that is loaded.
struct Loaded {
    name: &'static CStr,
    handle: Handle,
}

impl Loaded {
    fn open(name: &'static CStr) -> Result<Self, Missing> {
        // SAFETY: the name ends with a zero byte. Ceph's libraries may be loaded at any time and by any thread; what they do then
        // is to initialise themselves.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_NODELETE) };
        if handle.is_null() { Err(missing(name)) } else { Ok(Self { name, handle }) }
    }

    /// The address of a function, whose name ends with a zero byte.
    fn symbol(&self, name: &'static str) -> Result<*mut c_void, Missing> {
        // SAFETY: the handle is that of an open library, and the name ends with a zero byte.
        let symbol = unsafe { libc::dlsym(self.handle, name.as_ptr().cast()) };
        if symbol.is_null() { Err(missing(self.name)) } else { Ok(symbol) }
    }
}

/// Why the last call to the loader failed.
fn missing(name: &'static CStr) -> Missing {
    // SAFETY: the result is null or a text that stays valid until the next call of this thread; it is copied here.
    let why = unsafe {
        let text = libc::dlerror();
        if text.is_null() { None } else { Some(CStr::from_ptr(text).to_string_lossy().into_owned()) }
    };
    Missing { library: name.to_str().unwrap_or_default(), why: why.unwrap_or_else(|| "no reason is known".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let error = Loaded::open(c"libnitro-nowhere.so.7").err().unwrap();
        assert!(error.library == "libnitro-nowhere.so.7" && error.why.contains("No such file"), "{error}");
        let c = Loaded::open(c"libc.so.6").unwrap();
        assert!(c.symbol("malloc\0").is_ok());
        let error = c.symbol("rbd_no_such_function\0").unwrap_err();
        assert!(error.library == "libc.so.6" && error.why.contains("rbd_no_such_function"), "{error}");
    }
}
