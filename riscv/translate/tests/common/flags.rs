//! Bits of an entry of page tables, as the privileged specification has them (12.3.1). They are not
//! the interpreter's own, which these tests check.

pub(crate) const V: u64 = 1;
pub(crate) const R: u64 = 1 << 1;
pub(crate) const W: u64 = 1 << 2;
pub(crate) const X: u64 = 1 << 3;
pub(crate) const U: u64 = 1 << 4;
pub(crate) const G: u64 = 1 << 5;
pub(crate) const A: u64 = 1 << 6;
pub(crate) const D: u64 = 1 << 7;
pub(crate) const PBMT: u64 = 3 << 61;
pub(crate) const N: u64 = 1 << 63;
