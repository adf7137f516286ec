//! The entry from the firmware, and the end at an unexpected trap.

use crate::machine::MAX_HARTS;

unsafe extern "C" {
    safe fn fatal_vector();
    static __worker_stacks: u8;
    static __image_start: u8;
    static __image_end: u8;
}

/// What `stvec` holds unless somebody waits for a trap.
pub(super) fn fatal_vector_address() -> usize {
    fatal_vector as *const () as usize
}

/// The first and the first-beyond-the-last address of the running image,
/// stacks included.
pub(crate) fn image() -> core::ops::Range<usize> {
    (&raw const __image_start).addr()..(&raw const __image_end).addr()
}

/// The top of the stack for the hart at `index` in the device tree's order.
pub(crate) fn worker_stack_top(index: usize) -> usize {
    assert!(
        index < MAX_HARTS,
        "the linker script has stacks for {MAX_HARTS} harts"
    );
    (&raw const __worker_stacks).addr() + (index + 1) * STACK_SIZE
}

/// Must be as in `kernel.ld`.
pub(crate) const STACK_SIZE: usize = 64 * 1024;
