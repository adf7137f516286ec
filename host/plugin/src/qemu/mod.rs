//! QEMU's plugin interface, and the internals that the plugin uses.

pub(crate) mod counters;
pub(crate) mod interface;
pub(crate) mod internals;
pub(crate) mod symbols;
pub(crate) mod version;
