//! Computes which sleep mode saves energy. [`model`] is the arithmetic. [`profile`] has the power
//! of each phase of a machine's sleep; [`builtin`] contains some profiles. Times are a profile's,
//! or measured ones ([`measured`]).
//!
//! Energy is always *modelled*: an emulator measures only time and bytes. [`thesis`] compares the
//! arithmetic with published numbers.

pub mod account;
pub mod builtin;
pub mod day;
pub mod measured;
pub mod model;
pub mod profile;
pub mod rounding;
pub mod thesis;
pub mod times;
