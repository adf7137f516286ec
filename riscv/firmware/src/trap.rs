//! Traps into machine mode: calls and interrupts from the OS, and the firmware's own faults.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use poorwill_arch::{LastTrap, csr, hart_id, irqs_off};
use poorwill_hart::emulation::{OsTrap, cause};
use poorwill_sleep::cut::CutReason;

use crate::cut;
use crate::domain::dma;
use crate::entry::{self, TrapFrame};
use crate::executor;
use crate::hart::{ThisHart, domain_state, exception, this_hart};
use crate::platform::console::say;
use crate::platform::{platform, power, power_fail};
use crate::sbi;

/// Entry point from entry.S for all traps from the OS.
#[unsafe(no_mangle)]
extern "C" fn handle_trap(frame: &mut TrapFrame) {
    irqs_off::begin();
    let hart = this_hart();
    let cause = csr::read::<{ csr::MCAUSE }>();
    // First, as a hart that lacks a counter has many of these. None of the rest depends on them.
    if cause == cause::ILLEGAL_INSTRUCTION {
        exception::illegal_instruction(frame, hart);
    } else {
        handle_other(frame, hart, cause);
    }
    irqs_off::end();
}

#[inline(never)]
fn handle_other(frame: &mut TrapFrame, hart: ThisHart, cause: u64) {
    let fires = executor::fires(hart, frame, cause);
    if !fires {
        handle(frame, hart, OsTrap::of(cause));
    }
    sbi::console::print_waiting(hart, &platform().time);
    if power_fail::noticed() {
        cut::stop(Some(frame));
    }
    domain_state::leave_if_ended(hart);
    executor::end_trap(hart, frame, fires);
    #[cfg(feature = "hand-back")]
    executor::lend_again(hart, frame);
}

fn handle(frame: &mut TrapFrame, hart: ThisHart, trap: OsTrap) {
    match trap {
        OsTrap::Call => {
            frame.mepc = frame.mepc.wrapping_add(sbi::CALL_BYTES);
            let caller = sbi::Caller {
                hart,
                domain: hart.domain(),
                time: &platform().time,
            };
            sbi::call(frame, caller);
            dma::look_for_faults(hart.domain());
        }
        OsTrap::IllegalInstruction => exception::illegal_instruction(frame, hart),
        OsTrap::OtherHart => hart.handle_ipi(),
        OsTrap::Timer => hart.timer().forward(),
        OsTrap::Access => exception::access_fault(frame, hart, hart.domain()),
        OsTrap::Exception => exception::exception(frame, hart),
        OsTrap::DoubleTrap => end_os(frame, hart),
        OsTrap::Unknown(interrupt) => disable(interrupt, hart),
    }
}

/// Ends the hart's domain: the OS trapped in its own trap handler and cannot continue.
fn end_os(frame: &TrapFrame, hart: ThisHart) -> ! {
    let reason = format_args!(
        "the OS on hart {} trapped in its trap handler and cannot continue: cause {:#x} at {:#x}",
        hart.id(),
        csr::try_read::<{ csr::MTVAL2 }>().unwrap_or(0),
        frame.mepc,
    );
    domain_state::end(hart, reason)
}

/// Disables an interrupt without a handler in machine mode, on this hart.
fn disable(interrupt: u32, hart: ThisHart) {
    let bit = 1_u64.checked_shl(interrupt).unwrap_or(0);
    // SAFETY: machine mode does not wait for this interrupt.
    unsafe { csr::clear::<{ csr::MIE }>(bit) };
    (hart.domain()).say(format_args!(
        "hart {}: unknown interrupt {interrupt} is now off",
        hart.id()
    ));
}

/// Entry point from entry.S for interrupts of work in machine mode (`arch::interruptible`).
#[unsafe(no_mangle)]
extern "C" fn machine_interrupt(cause: u64) {
    match OsTrap::of(cause) {
        OsTrap::OtherHart => this_hart().handle_ipi(),
        OsTrap::Timer => this_hart().timer().forward(),
        other => panic!("unexpected interrupt of machine mode: {cause:#x}, {other:?}"),
    }
}

/// Entry point from entry.S for the firmware's own faults.
#[unsafe(no_mangle)]
extern "C" fn machine_fault(cause: u64, address: u64, value: u64) -> ! {
    panic!("fault in machine mode: cause {cause:#x} at {address:#x}, value {value:#x}")
}

/// The panics so far.
struct Panics {
    /// The first hart that panicked, plus one.
    first: AtomicU64,
    /// The same hart has panicked a second time.
    is_second: AtomicBool,
}

static PANICS: Panics = Panics {
    first: AtomicU64::new(0),
    is_second: AtomicBool::new(false),
};

/// Prints the panic's message and place, then resets or powers off. A second panic, for example
/// because of a faulting console, prints nothing; after a third the hart halts. Other harts halt,
/// too.
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    let own = hart_id().wrapping_add(1);
    match PANICS
        .first
        .compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed)
    {
        Ok(_) => {}
        Err(first) if first == own && !PANICS.is_second.swap(true, Ordering::Relaxed) => {
            power::fatal()
        }
        Err(_) => entry::halt(),
    }
    // SAFETY: this hart does not return.
    unsafe { crate::platform::console::seize() };
    say!("panic on hart {}: {}", hart_id(), info.message());
    if let Some(place) = info.location() {
        say!("panic at {place}");
    }
    say!("panic: last trap {}", LastTrap::read());
    if csr::read::<{ csr::MCAUSE }>() == cause::HARDWARE_ERROR {
        // The next start must not read this memory again, in another Go.
        cut::note(CutReason::MemoryError);
    }
    power::fatal()
}
