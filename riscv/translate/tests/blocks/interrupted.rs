//! A device that interrupts another hart of the OS.

use std::cell::Cell;

use poorwill_hart::emulation::cause;
use poorwill_hart::interrupt::{SEI, SSI, STI};
use poorwill_memory::PhysRange;
use poorwill_translate::fake_core::FakeCore;
use poorwill_translate::{Core, Environment, Left, Options, Region, Stop, Watch};

use crate::directed::{CODE, with};

/// A core with a pending interrupt of a device.
struct Interrupted<'a> {
    core: FakeCore<'a>,
    interrupts: &'a Cell<u64>,
}

impl Core for Interrupted<'_> {
    fn enter(
        &mut self,
        x: &mut [u64; 32],
        memory: (&Region, &mut Environment),
        at: u64,
        watch: Watch,
    ) -> Left {
        if !watch.external {
            return self.core.enter(x, memory, at, watch);
        }
        self.interrupts.set(self.interrupts.get() + 1);
        assert!(self.interrupts.get() < 10, "no instruction is executed");
        Left {
            cause: cause::INTERRUPT | 11,
            address: at,
        }
    }

    fn fence_instructions(&mut self) {
        self.core.fence_instructions();
    }

    fn protect(&mut self, text: PhysRange) -> bool {
        self.core.protect(text)
    }
}

/// The hart may have an interrupt itself that it does not let in. The other one may wait for it.
#[test]
fn a_hart_goes_on_while_a_device_interrupts_another_one() {
    for has_own in [false, true] {
        with(Options::default(), move |mut machine, mut blocks| {
            machine.hart.csrs.sie = SSI | STI | SEI;
            machine.hart.csrs.software_interrupt = has_own;
            machine.hart.pc = CODE;
            let interrupts = Cell::new(0);
            let mut core = Interrupted {
                core: FakeCore {
                    host: &machine.host,
                    left: u64::MAX,
                    instructions: 0,
                    fences: 0,
                },
                interrupts: &interrupts,
            };
            let until = u64::MAX;
            let stop = machine
                .hart
                .run_translated(&mut blocks, &mut core, &machine.host, until);
            assert_eq!(stop, Stop::Call);
            assert_eq!(interrupts.get(), 1);
        });
    }
}
