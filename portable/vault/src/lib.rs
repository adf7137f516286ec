//! The vault: data that only machine mode can reach.
//!
//! NOR flash that is closed to the OS holds the sealing [`Key`] and the machine's count
//! of sleeps. The store uses the count through [`RollbackCounter`]. [`Vault`] keeps both
//! through a power cut at any instant, and erases a key completely.
//! `docs/image-format.md` has the layout and the rules, in its section "The vault".
#![cfg_attr(not(any(test, feature = "std")), no_std)]
#![forbid(unsafe_code)]

mod append;
mod cut_counter;
mod error;
#[cfg(feature = "fake")]
pub mod fake;
#[cfg(feature = "std")]
mod file;
mod half;
mod items;
mod key;
mod keys;
mod place;
mod ready;
mod rollback_counter;
mod slice;
mod vault;

pub use cut_counter::CutCounter;
pub use error::{FlashFault, VaultError};
#[cfg(feature = "std")]
pub use file::{FileFlash, FileFlashError};
pub use items::{OLDEST_VAULT_VERSION, VAULT_VERSION};
pub use key::{KEY_BYTES, Key, KeyState};
pub use keys::{CutVault, KeyVault};
pub use place::{BLOCKS, block_starts, range_in_bank, vault_bytes};
pub use rollback_counter::RollbackCounter;
pub use slice::SliceFlash;
pub use vault::{MAX_ITEMS, Vault};
