//! Domains of a machine: partitions of harts, memory and devices, each with an OS of its own. The
//! five parts share only data:
//!
//! - [`Domain`]: plain data;
//! - [`FwDynamic`]: a previous boot stage's information about the next stage;
//! - *claims*: an address or a hart in an SBI call is a claim until a method of its domain has
//!   checked it. The method returns a value that nothing else makes ([`CodeAddress`],
//!   [`ClaimedBytes`], [`HartSelection`], [`FenceRange`]), or a [`ClaimError`];
//! - [`check`]: whether the domains of a partition can be fenced from each other on their machine;
//! - [`pmp`], the *PMP plan*: the entries of physical memory protection that keep a domain within
//!   its bounds. It is computed and counted before any entry is written.
//!
//! Nothing here touches hardware: host tests compare all of it with naive models, also at the
//! limits of 64-bit arithmetic.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![deny(clippy::let_underscore_must_use)]

pub mod check;
mod claims;
mod division;
mod domain;
mod fence_range;
mod fw_dynamic;
mod harts;
mod kept;
mod linux_image;
mod partition;
pub mod pmp;
mod whole;

pub use claims::{ClaimError, ClaimedBytes, CodeAddress};
pub use division::{DivideError, Loaded};
pub use domain::{
    Domain, MAX_DEVICES, MAX_FLASH, MAX_FOREIGN, NextStage, Request, Rights, StageTree,
};
pub use fence_range::{FencePages, FenceRange, MANY_PAGES};
pub use fw_dynamic::{FwDynamic, FwDynamicError, TREE_GROWTH};
pub use harts::{HartSelection, HartSet, HartSetError, MAX_DOMAIN_HARTS};
pub use kept::KeptRanges;
pub use linux_image::LinuxImage;
pub use partition::{DomainError, LoadedStage, Surroundings, has_everything, memory_of};
pub use whole::{ALL_DEVICES, Fence, closed};
