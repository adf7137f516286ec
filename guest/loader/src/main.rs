//! The loader's program. It runs in S-mode, from flash, with its stack in memory.
//!
//! If the flash is bootable, QEMU loads only the firmware and the device tree into memory. The
//! kernel and the initramfs stay in its configuration device. So persistent memory keeps its
//! contents until the firmware starts this program.
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

/// The entry code calls this function.
#[unsafe(no_mangle)]
extern "C" fn main(hart: usize, tree: usize) -> ! {
    match load(tree as u64) {
        // SAFETY: `load` has loaded a kernel there.
        Ok(kernel) => unsafe { entry::start_kernel(to_usize(kernel), hart, tree) },
        Err(error) => {
            say!("cannot start a kernel: {error}");
            console::fail()
        }
    }
}

/// Loads the kernel, its initramfs and its command line. Returns the kernel's entry point.
fn load(tree: u64) -> Result<u64, LoadError> {
    // SAFETY: the firmware passed the address, and reads from memory have no side effects.
    let read = |address: u64, into: &mut [u8]| unsafe { read_memory(address, into) };
    let tree = FwDynamic::find_tree(tree, read).map_err(|_| LoadError::NoTree(tree))?;
    let stack_end = tree.start & !(entry::STACK_ALIGN - 1);
    let stack = PhysRange::new(stack_end.saturating_sub(STACK_BYTES), STACK_BYTES);
    // SAFETY: a device tree of this length is there, and no other code uses it.
    let machine = Machine::read(unsafe { memory(tree) })?;
    let device = machine.fw_cfg.first().ok_or(LoadError::NoDevice)?;
    // SAFETY: the device tree gives the device's address.
    let mut items = unsafe { FwCfg::new(device.start) }?;
    let plan = Plan::make(&mut items, &machine, &Taken { tree, stack })?;
    for piece in [plan.kernel].iter().chain(&plan.initrd) {
        // SAFETY: the plan assigns free memory only.
        unsafe { items.load(piece) }?;
    }
    let line = command_line(&mut items)?;
    let initrd = plan.initrd.map(|piece| piece.place);
    if initrd.is_some() || line.is_some() {
        let room = PhysRange::new(tree.start, tree.length() + TREE_GROWTH);
        // SAFETY: the range is the device tree, and memory after it that the plan keeps free.
        tell(unsafe { memory(room) }, initrd, line.as_deref())?;
    }
    let entry = plan.kernel.place.start;
    say!("kernel at {entry:#x}");
    Ok(entry)
}

/// Fills `into` with the memory from `address` on.
///
/// # Safety
///
/// Reads of this memory must have no side effects.
unsafe fn read_memory(address: u64, into: &mut [u8]) {
    let from = core::ptr::with_exposed_provenance::<u8>(to_usize(address));
    // SAFETY: as the caller says; the buffer is an object of its own.
    unsafe { from.copy_to(into.as_mut_ptr(), into.len()) }
}

/// The bytes of a range of memory.
///
/// # Safety
///
/// The range must be memory that no other code uses while the slice is in use.
unsafe fn memory(range: PhysRange) -> &'static mut [u8] {
    let start = core::ptr::with_exposed_provenance_mut(to_usize(range.start));
    // SAFETY: as the caller says.
    unsafe { slice::from_raw_parts_mut(start, to_usize(range.length())) }
}

/// The entry code calls this function after a trap.
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
