//! Traps into machine mode: calls and interrupts from the OS, and our own faults.

use crate::arch::csr::{self, interrupt};
use crate::arch::{self, TrapFrame};
use crate::hart::{Hart, this_hart};
use crate::platform::console::say;
use crate::platform::{domain, platform, time};
use crate::sbi;

/// Exceptions that go to the OS at once: all but its calls, which are ours
/// (privileged specification, table 3.6; H extension, table 8.6).
const DELEGATED_EXCEPTIONS: u64 = 0x00f0_b5ff;

/// Bits of `menvcfg`.
mod environment {
    /// CBO.INVAL executes as a flush; CBO.CLEAN, FLUSH and ZERO are allowed.
    pub(super) const CACHE_BLOCKS: u64 = 0b11 << 4 | 1 << 6 | 1 << 7;
    /// Hardware may set A and D bits.
    pub(super) const ADUE: u64 = 1 << 61;
    /// Page-based memory types.
    pub(super) const PBMTE: u64 = 1 << 62;
    /// S-mode has its own timer.
    pub(super) const STCE: u64 = 1 << 63;
}

/// `mstateen0`: all state that S-mode may reach (Smstateen; AIA, 2.5).
const STATE_ENABLES: u64 = 1 << 63 | 1 << 62 | 1 << 60 | 1 << 59 | 1 << 58 | 1 << 57;

/// Bits of `mseccfg`.
mod security {
    /// S-mode may read the seed CSR (Zkr).
    pub(super) const SSEED: u64 = 1 << 9;
}

/// CYCLE, TIME and INSTRET for S-mode.
const COUNTERS: u64 = 0b111;

mod cause {
    pub(super) const INTERRUPT: u64 = 1 << 63;
    pub(super) const SUPERVISOR_CALL: u64 = 9;
    pub(super) const MACHINE_SOFTWARE: u64 = INTERRUPT | 3;
    pub(super) const MACHINE_TIMER: u64 = INTERRUPT | 7;
    pub(super) const MACHINE_EXTERNAL: u64 = INTERRUPT | 11;
}

/// Gives the calling hart the machine-mode CSRs that an OS on it needs; also
/// the S-mode ones that it must find at a start (interrupts off).
pub(crate) fn start_hart(hart: &Hart) {
    let extensions = hart.description.extensions;
    let bit = |there: bool, bits: u64| if there { bits } else { 0 };
    let environment = bit(extensions.sstc, environment::STCE)
        | bit(extensions.svadu, environment::ADUE)
        | bit(extensions.svpbmt, environment::PBMTE)
        | bit(
            extensions.zicbom || extensions.zicboz,
            environment::CACHE_BLOCKS,
        );
    // SAFETY: these are the settings that the trap handler below relies on;
    // CSRs that the hart may lack are skipped.
    unsafe {
        csr::write::<{ csr::MTVEC }>(arch::trap_entry as *const () as u64);
        csr::write::<{ csr::MEDELEG }>(DELEGATED_EXCEPTIONS);
        csr::write::<{ csr::MIDELEG }>(
            interrupt::SSI | interrupt::STI | interrupt::SEI | interrupt::LCOFI,
        );
        csr::write::<{ csr::MCOUNTEREN }>(COUNTERS);
        csr::try_write::<{ csr::MENVCFG }>(environment);
        if extensions.smstateen {
            csr::try_write::<{ csr::MSTATEEN0 }>(STATE_ENABLES);
        }
        if extensions.zkr
            && let Some(security) = csr::try_read::<{ csr::MSECCFG }>()
        {
            // Not all entropy is to come from us.
            csr::try_write::<{ csr::MSECCFG }>(security | security::SSEED);
        }
        if extensions.sstc {
            // No timer is set.
            csr::write::<{ csr::STIMECMP }>(u64::MAX);
        }
        csr::write::<{ csr::SIE }>(0);
        csr::write::<{ csr::SCOUNTEREN }>(COUNTERS);
        csr::write::<{ csr::MIE }>(interrupt::MSI | interrupt::MEI);
    }
    time::stop_machine_timer(hart);
}

/// Where entry.S brings every trap from the OS.
#[unsafe(no_mangle)]
extern "C" fn handle_trap(frame: &mut TrapFrame) {
    match csr::read::<{ csr::MCAUSE }>() {
        cause::SUPERVISOR_CALL => {
            frame.mepc += 4;
            let hart = this_hart();
            let caller = sbi::Caller {
                hart,
                domain: domain::of(hart),
                time: &platform().time,
            };
            sbi::call(frame, caller);
        }
        cause::MACHINE_SOFTWARE | cause::MACHINE_EXTERNAL => this_hart().answer(),
        cause::MACHINE_TIMER => time::forward_timer(),
        other => panic!(
            "unexpected trap from the OS: cause {other:#x} at {:#x}, value {:#x}",
            frame.mepc,
            csr::read::<{ csr::MTVAL }>(),
        ),
    }
}

/// Where entry.S brings a fault of the firmware's own.
#[unsafe(no_mangle)]
extern "C" fn machine_fault(cause: u64, address: u64, value: u64) -> ! {
    panic!("fault in machine mode: cause {cause:#x} at {address:#x}, value {value:#x}")
}

/// Says what and where, then resets or powers off.
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: this hart will not return.
    unsafe { crate::platform::console::seize() };
    say!("panic on hart {}: {}", arch::hart_id(), info.message());
    if let Some(place) = info.location() {
        say!("panic at {place}");
    }
    crate::platform::power::give_up()
}
