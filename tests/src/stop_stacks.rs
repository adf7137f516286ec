//! Measures how much of the stacks for Stop was used, in the machine's memory file. The machine
//! itself cannot report it after a cut.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, ensure};
use poorwill_machine::cut::look;
use poorwill_memory::{PAGE_BYTES, Page};
use poorwill_sleep::cut::Layout;

/// Bytes of a stack. The stacks follow the record (`riscv/firmware/src/cut/record.rs`).
const STACK: usize = 10 * size_of::<Page>();

/// Bytes that must stay free, for a rarer path through Stop.
const LEFT: usize = 4 << 10;

/// The most bytes of a stack that a hart has used since the memory was new; `None`: there is no cut
/// in memory. With a vault, the lowest 8 KiB are not measured: a key is used there, and they are
/// cleared after it.
///
/// # Errors
///
/// Fewer bytes are free than must be.
pub(crate) fn check(memory: &Path) -> anyhow::Result<Option<usize>> {
    let records = look(memory)?;
    let Some(record) = records.iter().find(|record| record.is_committed()) else {
        return Ok(None);
    };
    let harts = record.machine_harts.context("a cut of no harts")?;
    let pages = Layout::new(harts, Layout::TREE_PAGES).pages();
    let first = record.offset + pages as u64 * PAGE_BYTES;
    let file = File::open(memory)?;
    let mut most = 0;
    for place in 0..harts {
        let mut stack = vec![0; STACK];
        file.read_exact_at(&mut stack, first + (place * STACK) as u64)?;
        most = most.max(used(&stack));
    }
    ensure!(
        most + LEFT <= STACK,
        "Stop took {most} bytes of a stack of {STACK}"
    );
    Ok(Some(most))
}

/// Bytes of a stack that were written to, from its top. The stack was all zeros.
fn used(stack: &[u8]) -> usize {
    let untouched = stack.iter().take_while(|byte| **byte == 0).count();
    stack.len() - untouched
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_used_from_its_end() {
        let mut stack = [0; 64];
        assert_eq!(used(&stack), 0);
        (stack[40], stack[63]) = (1, 1);
        assert_eq!(used(&stack), 24);
        stack[0] = 1;
        assert_eq!(used(&stack), 64);
    }
}
