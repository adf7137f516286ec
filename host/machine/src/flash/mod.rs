//! The flash of QEMU's `virt` board that keeps a machine's sealing key and its
//! count of sleeps: the file behind it, and the vault in it; and the one in which a
//! machine starts its next stage.

mod file;
mod loader;
mod vault;

pub use file::{FLASH_BYTES, FlashError, check_unused, make_blank};
pub use loader::make_loader;
pub use vault::{Flash, FlashReport, KeyStatus, new_salt};
