//! QEMU: its plugin interface, and what of its insides is reached into.

pub(crate) mod counters;
pub(crate) mod interface;
pub(crate) mod internals;
pub(crate) mod symbols;
pub(crate) mod version;
