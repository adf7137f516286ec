//! Raw disks: creates them, checks whether another process uses them, and reads them as a
//! [`Medium`](poorwill_medium::Medium).

mod create;
mod file_medium;
mod gpt;
mod in_use;
mod kind;

use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read};
use std::path::Path;

pub(crate) use create::PRIVATE;
pub use create::{DiskError, NewDisk, copy_sparse, temporary_beside};
pub use file_medium::FileMedium;
pub(crate) use in_use::open_locked;
pub use in_use::{Holder, InUse, check_unused, holders};
pub use kind::{Kind, KindError, look_at};

/// A hash of a disk file's contents, equal only for the same build of this program.
///
/// # Errors
///
/// The system's error.
pub fn fingerprint(file: &Path) -> io::Result<u64> {
    let mut file = File::open(file)?;
    let mut hasher = DefaultHasher::new();
    let mut chunk = vec![0; 1 << 20];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(hasher.finish()),
            length => hasher.write(&chunk[..length]),
        }
    }
}
