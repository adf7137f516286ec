//! Address translation as Linux has it (Sv39): large pages map memory and image, small ones a stack. All
//! are global.

use super::translated::{self, ACCESSED_DIRTY, EXECUTE, GLOBAL, READ, Table, VALID, WRITE};
use core::arch::asm;
use core::cell::UnsafeCell;
use core::sync::atomic::Ordering;

/// Start of the memory's map.
const LINEAR: usize = 0xffff_ffd6_0000_0000;
/// Start of the image's map. Its distance from memory is another one.
const IMAGE: usize = 0xffff_ffff_8000_0000;
/// Start of the stack.
const STACK: usize = 0xffff_ffc6_0000_0000;

/// Where memory begins.
const MEMORY: usize = 2 << GIBIBYTE;
const GIBIBYTE: usize = 30;

/// Pages of a kernel's stack.
const STACK_PAGES: usize = 4;
/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;
/// Bytes of a stack, and what its address is a multiple of.
pub(crate) const STACK_BYTES: usize = STACK_PAGES * PAGE;

static ROOT: Table = Table::empty();
static MIDDLE: Table = Table::empty();
static LOW: Table = Table::empty();

#[repr(C, align(4096))]
struct Stack(UnsafeCell<[u8; STACK_BYTES]>);

// SAFETY: [`KernelSpace::call`] alone uses it, on the boot hart.
unsafe impl Sync for Stack {}

static THE_STACK: Stack = Stack(UnsafeCell::new([0; STACK_BYTES]));

/// The address space, while it is on.
#[derive(Debug)]
pub(crate) struct KernelSpace(());

/// The order in which the stack's pages lie in memory.
pub(crate) type StackOrder = [usize; STACK_PAGES];

/// A stack in one piece.
pub(crate) const IN_ORDER: StackOrder = [0, 1, 2, 3];

/// Runs `job` with the address space on. `job` itself runs at the image's physical addresses.
pub(crate) fn with<T>(stack: StackOrder, job: impl FnOnce(&KernelSpace) -> T) -> T {
    translated::set_satp(prepare(stack));
    let answer = job(&KernelSpace(()));
    translated::set_satp(0);
    answer
}

/// Fills the tables, and returns their value of `satp`.
fn prepare(stack: StackOrder) -> usize {
    let put = |table: &Table, address: usize, level: usize, physical: usize, flags: usize| {
        let entry = &table.0[address >> level & 511];
        entry.store(physical >> 2 | flags | VALID, Ordering::Relaxed);
    };
    let data = READ | WRITE | GLOBAL | ACCESSED_DIRTY;
    for gibibyte in 0..4 {
        let physical = gibibyte << GIBIBYTE;
        let flags = READ | WRITE | EXECUTE | ACCESSED_DIRTY;
        put(&ROOT, physical, GIBIBYTE, physical, flags);
    }
    put(&ROOT, LINEAR, GIBIBYTE, MEMORY, data);
    put(&ROOT, IMAGE, GIBIBYTE, MEMORY, data | EXECUTE);
    put(&ROOT, STACK, GIBIBYTE, address_of(&MIDDLE), 0);
    put(&MIDDLE, STACK, 21, address_of(&LOW), 0);
    for (page, place) in stack.into_iter().enumerate() {
        let physical = THE_STACK.0.get().addr() + place * PAGE;
        put(&LOW, STACK + page * PAGE, 12, physical, data);
    }
    translated::satp_of(&ROOT)
}

fn address_of(table: &Table) -> usize {
    core::ptr::from_ref(table).addr()
}

impl KernelSpace {
    /// A function at its address in the image.
    pub(crate) fn in_image<F: Copy>(&self, function: F) -> F {
        const { assert!(size_of::<F>() == size_of::<usize>()) };
        // SAFETY: a pointer to a function; the image is mapped at both addresses.
        unsafe {
            let physical: usize = core::mem::transmute_copy(&function);
            core::mem::transmute_copy(&(physical - MEMORY + IMAGE))
        }
    }

    /// Calls a function at its address in the image, on the stack. It gets `data` at its address in the
    /// memory's map.
    pub(crate) fn call<T>(
        &self,
        function: extern "C" fn(&mut T, usize) -> u64,
        data: &mut T,
        argument: usize,
    ) -> u64 {
        let function = self.in_image(function);
        let data = (&raw mut *data).expose_provenance() - MEMORY + LINEAR;
        let answer;
        // SAFETY: the function finds a C function's state: its stack is not in use, and `data` is lent to
        // it alone.
        unsafe {
            asm!(
                "mv    s2, sp",
                "mv    sp, {stack}",
                "jalr  {function}",
                "mv    sp, s2",
                stack = in(reg) STACK + STACK_BYTES,
                function = in(reg) function,
                inlateout("a0") data => answer,
                inlateout("a1") argument => _,
                out("s2") _,
                clobber_abi("C"),
            );
        }
        answer
    }
}
