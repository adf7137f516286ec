//! Traps into machine mode: calls and interrupts from the OS, and our own faults.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use poorwill_arch::{LastTrap, csr, hart_id, irqs_off};
use poorwill_hart::emulation::cause::{LOAD_ACCESS, STORE_ACCESS};

use crate::cut;
use crate::entry::{self, TrapFrame};
use crate::hart::this_hart;
use crate::mediate;
use crate::platform::console::say;
use crate::platform::{domain, platform, power, power_fail};
use crate::sbi;

mod cause {
    pub(super) const INTERRUPT: u64 = 1 << 63;
    pub(super) const SUPERVISOR_CALL: u64 = 9;
    pub(super) const MACHINE_SOFTWARE: u64 = INTERRUPT | 3;
    pub(super) const MACHINE_TIMER: u64 = INTERRUPT | 7;
    pub(super) const MACHINE_EXTERNAL: u64 = INTERRUPT | 11;
}

/// Where entry.S brings every trap from the OS.
#[unsafe(no_mangle)]
extern "C" fn handle_trap(frame: &mut TrapFrame) {
    irqs_off::begin();
    handle(frame);
    if power_fail::is_failing() {
        cut::stop(Some(frame));
    }
    irqs_off::end();
}

fn handle(frame: &mut TrapFrame) {
    match csr::read::<{ csr::MCAUSE }>() {
        cause::SUPERVISOR_CALL => {
            frame.mepc += sbi::CALL_BYTES;
            let hart = this_hart();
            let caller = sbi::Caller {
                hart,
                domain: domain::of(hart.id()),
                time: &platform().time,
            };
            sbi::call(frame, caller);
        }
        cause::MACHINE_SOFTWARE | cause::MACHINE_EXTERNAL => this_hart().handle_ipi(),
        LOAD_ACCESS | STORE_ACCESS => {
            let hart = this_hart();
            mediate::access_fault(frame, hart, domain::of(hart.id()));
        }
        cause::MACHINE_TIMER => this_hart().timer().forward(),
        other => panic!(
            "unexpected trap from the OS: cause {other:#x} at {:#x}, value {:#x}",
            frame.mepc,
            csr::read::<{ csr::MTVAL }>(),
        ),
    }
}

/// Where entry.S brings an interrupt of work in machine mode that lets itself be
/// interrupted (`arch::interruptible`).
#[unsafe(no_mangle)]
extern "C" fn machine_interrupt(cause: u64) {
    match cause {
        cause::MACHINE_SOFTWARE | cause::MACHINE_EXTERNAL => this_hart().handle_ipi(),
        cause::MACHINE_TIMER => this_hart().timer().forward(),
        other => panic!("unexpected interrupt of machine mode: {other:#x}"),
    }
}

/// Where entry.S brings a fault of the firmware's own.
#[unsafe(no_mangle)]
extern "C" fn machine_fault(cause: u64, address: u64, value: u64) -> ! {
    panic!("fault in machine mode: cause {cause:#x} at {address:#x}, value {value:#x}")
}

/// The hart that has panicked first, plus one.
static PANICKED: AtomicU64 = AtomicU64::new(0);

/// It has panicked within that, too.
static PANICKED_TWICE: AtomicBool = AtomicBool::new(false);

/// Says what and where, then resets or powers off. A panic within that, as of a console
/// that faults, does without words; one within that one has nothing left to try. Other
/// harts leave it to the first.
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    let own = hart_id().wrapping_add(1);
    match PANICKED.compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => {}
        Err(first) if first == own && !PANICKED_TWICE.swap(true, Ordering::Relaxed) => {
            power::fatal()
        }
        Err(_) => entry::park(),
    }
    // SAFETY: this hart will not return.
    unsafe { crate::platform::console::seize() };
    say!("panic on hart {}: {}", hart_id(), info.message());
    if let Some(place) = info.location() {
        say!("panic at {place}");
    }
    say!("panic: last trap {}", LastTrap::read());
    power::fatal()
}
