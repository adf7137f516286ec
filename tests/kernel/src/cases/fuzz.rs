//! Random calls from all harts at once, with random arguments and with those at the edges
//! of what is right. Each comes back, soon, with a code that SBI knows; and then all that a
//! hostile stage tries is still in vain.
//!
//! On the command line: `seconds=N`, and `seed=N` for other calls.
//!
//! Left out is what ends this by being done: a valid system reset, a sleep, a hart's stop
//! and its suspension. Rows of their own make those.

use super::{calls::EXTENSIONS, wild};
use crate::{arch, check, machine::Machine, memory::mix, say, workers};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use sbi_spec::{dbcn, hsm, srst, susp};

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
    let (next, calls) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let (odd, longest) = (AtomicUsize::new(0), AtomicU64::new(0));
    let job = || {
        let place = next.fetch_add(1, Ordering::Relaxed) as u64;
        let mut random = Random(mix(seed << 32 | place));
        while arch::time() < end {
            let call = Call::random(&mut random, machine);
            let began = arch::time();
            let code = call.make();
            longest.fetch_max(arch::time() - began, Ordering::Relaxed);
            calls.fetch_add(1, Ordering::Relaxed);
            if !(LOWEST_ERROR..=0).contains(&code) {
                odd.fetch_add(1, Ordering::Relaxed);
                say!("FAIL: {call:x?} returned {code}");
            }
        }
    };
    workers::with_all(machine, hart, &job, |all| all());
    let longest_ms = longest.into_inner() * 1000 / machine.timebase;
    say!("fuzz: calls={} longest_ms={longest_ms}", calls.into_inner());
    let odd = odd.into_inner();
    check!(odd == 0, "{odd} calls returned what is no code");
    check!(
        longest_ms < BOUND_MS,
        "the longest call took {longest_ms} ms"
    );
    // No timer is pending that the checks below do not set.
    let _ = sbi_rt::set_timer(u64::MAX);
    arch::quiet();
    wild::run(machine, hart);
}

/// A sequence of numbers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        usize::try_from(mix(self.0)).expect("rv64's words have 64 bits")
    }

    fn below(&mut self, end: usize) -> usize {
        self.next() % end
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// A number that is at the edge of something, or any.
    fn argument(&mut self, machine: &Machine) -> usize {
        let range = match self.below(4) {
            0 => machine.ram.clone(),
            1 => arch::image(),
            2 => machine.reserved[self.below(machine.reserved.len())].clone(),
            _ => machine.uart..machine.test_device,
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
        let mut call = Call {
            extension: random.of(&EXTENSIONS),
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
            (dbcn::EID_DBCN, dbcn::CONSOLE_WRITE_BYTE) => *first &= !0xff,
            _ => {}
        }
    }

    /// Makes the call; returns the error code.
    fn make(&self) -> isize {
        arch::call(self.extension, self.function, self.arguments)
    }
}
