//! Poorwill: RISC-V machine-mode firmware that lets machines sleep with the power off.
//! docs/architecture.md describes its structure.
#![no_std]
#![no_main]
#![deny(clippy::let_underscore_must_use)]
#![allow(
    clippy::cast_possible_truncation,
    reason = "usize has 64 bits on every supported machine; values are cut to narrower registers intentionally"
)]

mod cut;
mod domain;
mod entry;
mod executor;
mod hart;
mod manifest;
mod platform;
mod sbi;
mod sleep;
mod start;
mod stopped;
mod trap;
