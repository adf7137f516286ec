//! The atomics that harts share. The tests compile the modules that use them a
//! second time, with loom's in their place (tests/loom).

pub(crate) use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
