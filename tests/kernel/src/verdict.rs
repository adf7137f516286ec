//! Checks, their count, and the verdict.
//!
//! A case's verdict is QEMU's exit status: 42 for success and 1 for failure, both written to the
//! test device. A machine that its firmware powers off exits with 0, so the three are distinct.
//!
//! On a board without a test device the verdict is a line, [`PASSED`] or [`BAD`], and a reset, which
//! ends QEMU.

use crate::{arch, machine::Machine, mmio};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use sbi_spec::binary::{Error, SbiRet};

/// QEMU's exit status when every check held.
pub(crate) const SUCCESS: u32 = 42;
/// QEMU's exit status when a check failed.
pub(crate) const FAILURE: u32 = 1;

/// What the test device takes for "exit with the status in the upper half".
const FINISHER_FAIL: u32 = 0x3333;

/// Five seconds at the 10 MHz that QEMU's machines tick with.
const PATIENCE_TICKS: u64 = 50_000_000;

/// The verdict's line where there is no test device.
const PASSED: &str = "passed";
const BAD: &str = "failed";

static HELD: AtomicU32 = AtomicU32::new(0);
static FAILED: AtomicU32 = AtomicU32::new(0);
/// The test device's address, [`NO_DEVICE`] on a board without one, [`UNKNOWN`] before that is known.
static TEST_DEVICE: AtomicUsize = AtomicUsize::new(UNKNOWN);
const UNKNOWN: usize = 0;
const NO_DEVICE: usize = 1;

/// A machine whose checks held is switched off by a call, for what the firmware does then.
static ENDS_OFF: AtomicBool = AtomicBool::new(false);

/// The same, by the legacy call.
static ENDS_BY_LEGACY: AtomicBool = AtomicBool::new(false);

/// Learns whether and where there is a test device. Before this, no verdict can be given.
pub(crate) fn set_up(machine: &Machine) {
    ENDS_OFF.store(machine.option("end") == Some("off"), Ordering::Relaxed);
    ENDS_BY_LEGACY.store(machine.option("end") == Some("legacy"), Ordering::Relaxed);
    TEST_DEVICE.store(machine.test_device.unwrap_or(NO_DEVICE), Ordering::Relaxed);
}

/// Counts a check, and prints it if it failed.
pub(crate) fn count(held: bool, what: core::fmt::Arguments) {
    if held {
        HELD.fetch_add(1, Ordering::Relaxed);
    } else {
        FAILED.fetch_add(1, Ordering::Relaxed);
        crate::say!("FAIL: {what}");
    }
}

/// Checks that a condition holds; the rest says what was expected.
macro_rules! check {
    ($held:expr, $($what:tt)+) => {
        $crate::verdict::count($held, format_args!($($what)+))
    };
}
pub(crate) use check;

/// Checks that a call was answered by one of `wanted`, and prints the answer.
pub(crate) fn check_error(what: &str, answer: SbiRet, wanted: &[Error]) {
    let got = answer.into_result();
    let held = matches!(&got, Err(error) if wanted.contains(error));
    crate::say!("{what}: {got:?}");
    count(held, format_args!("{what}: {got:?}, wanted {wanted:?}"));
}

/// Checks that a call succeeded.
pub(crate) fn check_success(what: &str, answer: SbiRet) {
    let got = answer.into_result();
    count(got.is_ok(), format_args!("{what}: {got:?}, wanted success"));
}

/// Whether a check has failed so far.
pub(crate) fn failed() -> bool {
    FAILED.load(Ordering::Relaxed) != 0
}

/// Sums up and ends the machine.
pub(crate) fn finish(case: &str) -> ! {
    let (held, failed) = (HELD.load(Ordering::Relaxed), FAILED.load(Ordering::Relaxed));
    crate::say!("case {case}: {held} checks held, {failed} failed");
    // A case that checked nothing has shown nothing.
    if failed != 0 || held == 0 {
        exit(FAILURE)
    }
    if ENDS_BY_LEGACY.load(Ordering::Relaxed) {
        let mut x = [0; 32];
        x[17] = sbi_spec::legacy::LEGACY_SHUTDOWN;
        let returned = arch::registers::call(&x);
        crate::say!("FAIL: legacy shutdown returned {:#x}", returned.x[10]);
        exit(FAILURE)
    }
    if ENDS_OFF.load(Ordering::Relaxed) {
        let answer = sbi_rt::system_reset(sbi_rt::Shutdown, sbi_rt::NoReason);
        crate::say!("FAIL: the machine cannot be switched off: {answer:?}");
        exit(FAILURE)
    }
    exit(SUCCESS)
}

/// Ends the machine with QEMU's exit status `status`.
pub(crate) fn exit(status: u32) -> ! {
    match TEST_DEVICE.load(Ordering::Relaxed) {
        UNKNOWN => crate::say!("the machine is not known yet: powering off"),
        NO_DEVICE => {
            let passed = status == SUCCESS;
            crate::say!("{}", if passed { PASSED } else { BAD });
            let _ = sbi_rt::system_reset(sbi_rt::ColdReboot, sbi_rt::NoReason);
            crate::say!("FAIL: the machine cannot be reset");
        }
        device => {
            mmio::write32(device, FINISHER_FAIL | status << 16);
            // QEMU stops the harts a moment later.
            let end = arch::time().saturating_add(PATIENCE_TICKS);
            while arch::time() < end {
                core::hint::spin_loop();
            }
            crate::say!("the test device at {device:#x} did not end the machine: powering off");
        }
    }
    let _ = sbi_rt::system_reset(sbi_rt::Shutdown, sbi_rt::SystemFailure);
    poorwill_bare::hart::halt()
}
