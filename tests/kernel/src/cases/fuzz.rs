//! Random calls from all harts at once, with random arguments and with values at the edges of valid
//! ranges. Each call must return soon, with a code of SBI. Afterwards the checks of a hostile stage
//! must still pass. A call must leave all registers unchanged except those of its result; a legacy
//! call whose mask cannot be read must fault at the call.
//!
//! On the command line: `seconds=N`, and `seed=N` for other calls.
//!
//! Calls that would end the run are left out: a valid system reset, a sleep, a hart's stop and its
//! suspension. Rows of their own make those.

use super::{
    calls::EXTENSIONS,
    legacy::{self, LOAD_PAGE_FAULT, MASKED},
    wild,
};
use crate::{
    arch::{
        self,
        guard::LOAD_FAULT,
        registers::{self, Registers, Returned},
        translated::{self, EXECUTE, READ, USER, WRITE},
    },
    check,
    machine::Machine,
    memory::mix,
    random::Random,
    say, workers,
};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use sbi_spec::legacy::{
    LEGACY_CLEAR_IPI, LEGACY_CONSOLE_GETCHAR, LEGACY_CONSOLE_PUTCHAR, LEGACY_SHUTDOWN,
};
use sbi_spec::{dbcn, hsm, srst, susp};

/// The number of a0.
const A0: usize = 10;

/// The lowest error code that SBI 3.0 defines.
const LOWEST_ERROR: isize = -14;

/// How long a call may take, on a host that is busy with other machines: as long as a hart
/// waits for another one's fence.
const BOUND_MS: u64 = 5000;

/// Bytes that console calls may have.
static SCRATCH: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

pub(super) fn run(machine: &Machine, hart: usize) {
    let seconds = machine.number("seconds", 5) as u64;
    let seed = machine.number("seed", 1) as u64;
    let end = arch::time() + seconds * machine.timebase;
    let next = AtomicUsize::new(0);
    let [calls, faults, odd] = [const { AtomicUsize::new(0) }; 3];
    let longest = AtomicU64::new(0);
    let make = |random: &mut Random| {
        let call = Call::random(random, machine);
        let x = call.registers(random);
        let began = arch::time();
        let returned = registers::call(&x);
        longest.fetch_max(arch::time() - began, Ordering::Relaxed);
        calls.fetch_add(1, Ordering::Relaxed);
        faults.fetch_add(returned.has_faulted().into(), Ordering::Relaxed);
        if !call.allows(&x, &returned) {
            odd.fetch_add(1, Ordering::Relaxed);
            say!("FAIL: {call:x?} returned {:x?}", returned.x);
        }
    };
    let job = || {
        let place = next.fetch_add(1, Ordering::Relaxed) as u64;
        let mut random = Random(mix(seed << 32 | place));
        let middle = arch::time() / 2 + end / 2;
        while arch::time() < middle {
            make(&mut random);
        }
        translated::with(|| {
            map_some();
            while arch::time() < end {
                make(&mut random);
            }
        });
    };
    workers::with_all(machine, hart, &job, |all| all());
    let longest_ms = longest.into_inner() * 1000 / machine.timebase;
    let faults = faults.into_inner();
    say!(
        "fuzz: calls={} faults={faults} longest_ms={longest_ms}",
        calls.into_inner()
    );
    let odd = odd.into_inner();
    check!(odd == 0, "{odd} calls returned as none may");
    check!(faults > 0, "masks that cannot be read");
    check!(
        longest_ms < BOUND_MS,
        "the longest call took {longest_ms} ms"
    );
    // No timer is pending that the checks below do not set.
    let _ = sbi_rt::set_timer(u64::MAX);
    arch::quiet();
    wild::run(machine, hart);
}

/// What pages may be to their reader, of those that are mapped a second time.
const KINDS: [usize; 4] = [READ, READ | WRITE, EXECUTE, READ | USER];

/// Maps the scratch a second time, in all ways. What is not among these is not mapped.
fn map_some() {
    let page = SCRATCH.as_ptr().expose_provenance() & !0xfff;
    for (number, flags) in KINDS.into_iter().enumerate() {
        translated::map(number, page, flags);
    }
    translated::fence();
}

impl Random {
    /// A number that is at the edge of something, or any.
    fn argument(&mut self, machine: &Machine) -> usize {
        let range = match self.below(5) {
            4 => translated::place(self.below(KINDS.len() + 1)),
            0 => machine.ram.clone(),
            1 => arch::image(),
            2 => machine.reserved[self.below(machine.reserved.len())].clone(),
            _ => machine.uart..machine.harmless_register(),
        };
        let edge = self.of(&[
            0,
            range.start,
            range.end,
            usize::MAX,
            1 << 63,
            1 << 32,
            4096,
        ]);
        match self.below(8) {
            0 => self.next(),
            1 => self.next() >> self.below(64),
            2 => 1 << self.below(64),
            3 => usize::MAX << self.below(64),
            4 => self.of(&machine.harts),
            5 => self.below(16),
            _ => edge.wrapping_add(self.below(17)).wrapping_sub(8),
        }
    }
}

#[derive(Debug)]
struct Call {
    extension: usize,
    function: usize,
    arguments: [usize; 6],
}

impl Call {
    fn random(random: &mut Random, machine: &Machine) -> Self {
        let extension = match random.below(3) {
            0 => random.below(LEGACY_SHUTDOWN + 2),
            _ => random.of(&EXTENSIONS),
        };
        let mut call = Call {
            extension,
            function: random.below(9),
            arguments: core::array::from_fn(|_| random.argument(machine)),
        };
        match random.below(16) {
            0 => call.extension = random.argument(machine),
            1 => call.function = random.argument(machine),
            _ => {}
        }
        call.leave_out(random);
        call
    }

    /// Has it be one that does not end the test, nor write to our memory.
    fn leave_out(&mut self, random: &mut Random) {
        let [first, second, third, ..] = &mut self.arguments;
        let own = SCRATCH.as_ptr().expose_provenance();
        match (self.extension, self.function) {
            (hsm::EID_HSM, hsm::HART_STOP | hsm::HART_SUSPEND) => {
                self.function = hsm::HART_GET_STATUS;
            }
            (srst::EID_SRST, _) => *first = 3 | random.next() & 0xefff_ffff,
            (susp::EID_SUSP, _) => *first = 1 | random.next() & 0x7fff_ffff,
            // What is ours to write to is the scratch; what is printed is little.
            (dbcn::EID_DBCN, dbcn::CONSOLE_READ | dbcn::CONSOLE_WRITE)
                if random.below(64) == 0 || *third == 0 =>
            {
                (*first, *second, *third) = (random.below(65), own, 0);
            }
            (dbcn::EID_DBCN, dbcn::CONSOLE_WRITE_BYTE) | (LEGACY_CONSOLE_PUTCHAR, _) => {
                *first &= !0xff;
            }
            (LEGACY_SHUTDOWN, _) => self.extension = LEGACY_SHUTDOWN + 1,
            _ => {}
        }
    }

    /// What registers are to hold for it.
    fn registers(&self, random: &mut Random) -> Registers {
        let mut x = core::array::from_fn(|_| random.next());
        x[A0..A0 + 6].copy_from_slice(&self.arguments);
        (x[16], x[17]) = (self.function, self.extension);
        x
    }

    /// Whether a call may return so.
    fn allows(&self, before: &Registers, returned: &Returned) -> bool {
        let is_legacy = legacy::ALL.contains(&self.extension);
        if returned.has_faulted() {
            let mask = self.arguments[0];
            return MASKED.contains(&self.extension)
                && [LOAD_FAULT, LOAD_PAGE_FAULT].contains(&returned.scause)
                && returned.stval.wrapping_sub(mask) < size_of::<usize>()
                && returned.changed(before, &[]).next().is_none();
        }
        let may_change = if is_legacy { &[A0][..] } else { &[A0, A0 + 1] };
        let highest = match self.extension {
            LEGACY_CONSOLE_GETCHAR => 0xff,
            LEGACY_CLEAR_IPI => 1,
            _ => 0,
        };
        !returned.has_gone_astray()
            && returned.changed(before, may_change).next().is_none()
            && (LOWEST_ERROR..=highest).contains(&returned.x[A0].cast_signed())
    }
}
