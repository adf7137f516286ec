//! The program: it runs in S-mode where it lies, in flash, with its stack in memory.
//!
//! With a bootable flash QEMU leaves memory alone but for the firmware and the device
//! tree, and hands kernel and initramfs over by its configuration device. So memory that
//! outlives the power keeps what it holds, until the firmware starts this.
#![no_std]
#![no_main]

mod console;
mod entry;
mod fw_cfg;

use core::slice;

use poorwill_devicetree::Machine;
use poorwill_domain::FwDynamic;
use poorwill_loader::{LoadError, Plan, TREE_GROWTH, Taken, command_line, tell};
use poorwill_memory::{PhysRange, to_usize};

use crate::console::say;
use crate::entry::STACK_BYTES;
use crate::fw_cfg::FwCfg;

/// Where the entry code goes to.
#[unsafe(no_mangle)]
extern "C" fn main(hart: usize, tree: usize) -> ! {
    match load(tree as u64) {
        // SAFETY: a kernel was loaded there.
        Ok(kernel) => unsafe { entry::start_kernel(to_usize(kernel), hart, tree) },
        Err(error) => {
            say!("cannot start a kernel: {error}");
            console::fail()
        }
    }
}

/// Loads the kernel and what comes with it; returns where it starts.
fn load(tree: u64) -> Result<u64, LoadError> {
    // SAFETY: the firmware passed the address, and reading there has no side effects.
    let read = |address: u64, into: &mut [u8]| unsafe { read_memory(address, into) };
    let tree = FwDynamic::find_tree(tree, read).map_err(|_| LoadError::NoTree(tree))?;
    let stack_end = tree.start & !(entry::STACK_ALIGN - 1);
    let stack = PhysRange::new(stack_end.saturating_sub(STACK_BYTES), STACK_BYTES);
    // SAFETY: a device tree of this length lies there, which nobody else uses.
    let machine = Machine::read(unsafe { memory(tree) })?;
    let device = machine.fw_cfg.first().ok_or(LoadError::NoDevice)?;
    // SAFETY: the device tree says so.
    let mut items = unsafe { FwCfg::new(device.start) }?;
    let plan = Plan::make(&mut items, &machine, &Taken { tree, stack })?;
    for piece in &plan.pieces {
        // SAFETY: memory that nobody uses, says the plan.
        unsafe { items.load(piece) }?;
    }
    let line = command_line(&mut items)?;
    if plan.initrd.is_some() || line.is_some() {
        let room = PhysRange::new(tree.start, tree.length() + TREE_GROWTH);
        // SAFETY: the device tree, and memory that the plan keeps free behind it.
        tell(unsafe { memory(room) }, plan.initrd, line.as_deref())?;
    }
    say!("kernel at {:#x}", plan.entry);
    Ok(plan.entry)
}

/// Fills `into` with what memory holds from `address` on.
///
/// # Safety
///
/// Reading there has no side effects.
unsafe fn read_memory(address: u64, into: &mut [u8]) {
    let from = core::ptr::with_exposed_provenance::<u8>(to_usize(address));
    // SAFETY: as the caller says; the buffer is an object of its own.
    unsafe { from.copy_to(into.as_mut_ptr(), into.len()) }
}

/// The bytes of a range of memory.
///
/// # Safety
///
/// It is memory, and nobody else uses it while the slice is used.
unsafe fn memory(range: PhysRange) -> &'static mut [u8] {
    let start = core::ptr::with_exposed_provenance_mut(to_usize(range.start));
    // SAFETY: as the caller says.
    unsafe { slice::from_raw_parts_mut(start, to_usize(range.length())) }
}

/// Where the entry code goes to at a trap.
#[unsafe(no_mangle)]
extern "C" fn trapped(cause: usize, pc: usize, value: usize) -> ! {
    say!("unexpected trap: scause {cause:#x}, sepc {pc:#x}, stval {value:#x}");
    console::fail()
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    say!("panic: {info}");
    console::fail()
}
