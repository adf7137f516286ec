//! Memory that several processes share.

use core::ffi::CStr;
use core::ptr;
use core::slice;
use core::sync::atomic::{AtomicU32, AtomicU64};

use rustix::fs::{Mode, OFlags, ftruncate, open};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap};

/// Words in a file that each process of a program maps.
#[derive(Clone, Copy, Debug)]
pub struct Shared {
    /// Words of 64 bits.
    pub wide: &'static [AtomicU64],
    /// Words of 32 bits.
    pub narrow: &'static [AtomicU32],
}

impl Shared {
    /// Maps the file, with this number of words of each kind. A new file's words are zero. It takes
    /// memory only where they are used.
    ///
    /// # Errors
    ///
    /// Linux's error.
    pub fn map(file: &CStr, wide: usize, narrow: usize) -> Result<Self, Errno> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let file = open(file, flags, Mode::RUSR | Mode::WUSR)?;
        let of_wide = wide * size_of::<AtomicU64>();
        let bytes = of_wide + narrow * size_of::<AtomicU32>();
        ftruncate(&file, bytes as u64)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses addresses that nothing uses. The mapping is never undone.
        let start = unsafe { mmap(ptr::null_mut(), bytes, access, MapFlags::SHARED, &file, 0) }?;
        // SAFETY: both slices lie in the mapping, which begins at a page and is never undone. Any
        // bytes are words, and all accesses to them are atomic.
        unsafe {
            Ok(Shared {
                wide: slice::from_raw_parts(start.cast(), wide),
                narrow: slice::from_raw_parts(start.byte_add(of_wide).cast(), narrow),
            })
        }
    }
}
