//! Atomics that harts share. tests/loom compiles the modules that use them again with loom's
//! atomics.

pub(crate) use core::sync::atomic::{AtomicU8, Ordering, fence};
