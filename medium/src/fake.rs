//! A medium in memory that fails on demand, for tests.

extern crate std;
