//! The plugin in a real QEMU, with guests of a few instructions. Without QEMU or an
//! assembler these tests are passed over, or fail with `POORWILL_STRICT=1`.

mod caches;
mod machine;
mod signals;
mod traces;
