//! When which sleep mode saves energy: arithmetic ([`model`]) on the powers of a
//! machine's phases ([`profile`], with the built-in ones in [`builtin`]) and on
//! times that are given or measured ([`measured`]).
//!
//! Energy is *modelled*, always: what an emulator measures is time and bytes. The
//! arithmetic itself is held against the published numbers in [`thesis`].

pub mod account;
pub mod builtin;
pub mod measured;
pub mod model;
pub mod profile;
pub mod rounding;
pub mod thesis;
pub mod times;
