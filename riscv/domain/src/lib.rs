//! Domains of a machine: partitions of harts, memory and devices, each with an
//! OS of its own. Four parts that know nothing of one another but data:
//!
//! - what a domain *is*: [`Domain`], plain data;
//! - what a previous boot stage says of its next one ([`FwDynamic`]);
//! - its *claims*: an address or a hart that an SBI caller names is a claim until
//!   a method of its domain has found it true. Such a method gives a value that
//!   nothing else makes ([`CodeAddress`], [`ClaimedBytes`], [`HartSelection`],
//!   [`FenceRange`]), or a [`ClaimError`];
//! - the *PMP plan* ([`pmp`]): the entries of physical memory protection that keep
//!   a domain within its bounds, computed and counted before any is written.
//!
//! Nothing here touches hardware, so all of it is tested on the host against
//! naive models, at the edges of 64-bit arithmetic too.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![deny(clippy::let_underscore_must_use)]

mod claims;
mod domain;
mod fence_range;
mod fw_dynamic;
mod harts;
mod linux_image;
pub mod pmp;

pub use claims::{ClaimError, ClaimedBytes, CodeAddress};
pub use domain::{Domain, MAX_DEVICES, MAX_FLASH, NextStage, Request, Rights};
pub use fence_range::{FencePages, FenceRange, MANY_PAGES};
pub use fw_dynamic::{FwDynamic, FwDynamicError, TREE_GROWTH};
pub use harts::{HartSelection, HartSet, HartSetError, MAX_DOMAIN_HARTS};
pub use linux_image::LinuxImage;
