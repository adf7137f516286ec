use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The point at which a hart enters the OS.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct EntryPoint {
    /// Physical address of the first instruction.
    pub address: u64,
    /// Value of a1: the caller's `opaque` (SBI 3.0, chapters 9 and 13).
    pub argument: u64,
}
