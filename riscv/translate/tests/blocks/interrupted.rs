//! A device that interrupts another hart of the OS.

use std::cell::Cell;

use poorwill_hart::emulation::cause;
use poorwill_hart::interrupt::{SEI, SSI, STI};
use poorwill_translate::fake::FakeHost;
use poorwill_translate::fake_core::FakeCore;
use poorwill_translate::{Left, Options, Stop, Watch};

use crate::beside::Beside;
use crate::directed::{CODE, Machine, with};

/// The hart may have an interrupt itself that it does not let in. The other one may wait for it.
#[test]
fn a_hart_goes_on_while_a_device_interrupts_another_one() {
    for has_own in [false, true] {
        with(Options::default(), move |mut machine, mut blocks| {
            machine.hart.csrs.sie = SSI | STI | SEI;
            machine.hart.csrs.software_interrupt = has_own;
            machine.hart.pc = CODE;
            let Machine { host, hart, .. } = &mut machine;
            let interrupts = Cell::new(0);
            let mut core = Beside {
                core: FakeCore::new(host, u64::MAX),
                before: |_: &FakeHost, at, watch: Watch| {
                    watch.external.then(|| {
                        interrupts.set(interrupts.get() + 1);
                        assert!(interrupts.get() < 10, "no instruction is executed");
                        Left {
                            cause: cause::INTERRUPT | 11,
                            address: at,
                        }
                    })
                },
            };
            let stop = hart.run_translated(&mut blocks, &mut core, &*host, u64::MAX);
            assert_eq!(stop, Stop::Call);
            assert_eq!(interrupts.get(), 1);
        });
    }
}
