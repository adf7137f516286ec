//! Computes which sleep mode saves energy: arithmetic ([`model`]) on the powers of a machine's
//! phases ([`profile`], with the built-in ones in [`builtin`]) and on given or measured times
//! ([`measured`]).
//!
//! Energy is always *modelled*: an emulator measures only time and bytes. [`thesis`] compares the
//! arithmetic with published numbers.

pub mod account;
pub mod builtin;
pub mod measured;
pub mod model;
pub mod profile;
pub mod rounding;
pub mod thesis;
pub mod times;
