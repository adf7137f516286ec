//! The two flashes of QEMU's `virt` board. The second holds the vault: a machine's sealing key and
//! its count of sleeps. The first holds the loader for machines that load their kernel from flash.

mod file;
mod loader;
mod vault;

pub use file::{FLASH_BYTES, FlashError, check_unused, make_blank};
pub use loader::make_loader;
pub use vault::{Flash, FlashReport, KeyStatus, new_salt};
