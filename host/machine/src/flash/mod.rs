//! The flash of QEMU's `virt` board that keeps a machine's sealing key and its
//! count of sleeps: the file behind it, and the vault in it.

mod file;
mod vault;

pub use file::{FLASH_BYTES, FlashError, check_unused, make_blank};
pub use vault::{Flash, FlashReport, KeyStatus, new_salt};
