//! Sleeps with the machine without an end, for a runner that cuts the power. Life and step determine
//! the contents of memory, as in the test kernel's case of this name.

use poorwill_bare::hart::time;
use poorwill_bare::mmio::{read64, write64};
use poorwill_bare::suspend;

use crate::orders::Orders;
use crate::output::say;
use crate::probe::set_timer;
use crate::sleep::{DENIED, PERIOD, pause};

/// Bytes that life and step determine: eight pieces of an image.
const BYTES: usize = 8 << 20;
const WORD: usize = size_of::<u64>();

/// Sleeps from step to step. The bytes from `start` on are unused.
pub(crate) fn run(orders: &Orders, start: usize) {
    let life = orders.life;
    say(format_args!("endure: cold life={life:016x}"));
    for step in 1.. {
        let memory = Memory { life, step, start };
        memory.fill();
        say(format_args!(
            "endure: sleep life={life:016x} step={step:06}"
        ));
        let end = time() + orders.sleep;
        while time() < end {
            print_more();
            pause(PERIOD);
        }
        if let Err(error) = sleep() {
            return say(format_args!(
                "endure: refused life={life:016x} step={step:06}: {error}"
            ));
        }
        match memory.changed() {
            0 => say(format_args!("endure: woke life={life:016x} step={step:06}")),
            changed => return say(format_args!("FAIL: a sleep changed {changed} words")),
        }
    }
}

/// Parks, or puts the machine to sleep after all other domains have parked. Only the machine's wake
/// ends it.
fn sleep() -> Result<(), isize> {
    loop {
        set_timer(u64::MAX);
        match suspend() {
            Err(DENIED) => pause(PERIOD),
            slept => return slept,
        }
    }
}

/// Traps into the firmware, which prints a part of a waiting line at each trap. A parked domain may
/// lose the rest.
fn print_more() {
    sbi_rt::get_spec_version();
}

/// Memory that life and step determine.
struct Memory {
    life: u64,
    step: u32,
    start: usize,
}

impl Memory {
    fn words(&self) -> impl Iterator<Item = usize> {
        (self.start..self.start + BYTES).step_by(WORD)
    }

    /// A word that depends on its place, so that another domain's is wrong. Without the shift the
    /// words would be a strided fill, which an image does not store.
    fn word(&self, address: usize) -> u64 {
        let life = self.life.rotate_left(32) ^ u64::from(self.step);
        let mixed = (life ^ address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn fill(&self) {
        for address in self.words() {
            write64(address, self.word(address));
        }
    }

    /// The number of words that are not as they were filled.
    fn changed(&self) -> usize {
        let is_changed = |address: &usize| read64(*address) != self.word(*address);
        self.words().filter(is_changed).count()
    }
}
