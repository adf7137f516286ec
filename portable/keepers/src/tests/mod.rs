//! Keepers on a machine that is modelled: the power fails, and their devices' drivers go on.

mod ahci;
mod board;
mod e1000e;
mod machine;
mod nvme;
mod survey;

use std::vec;
use std::vec::Vec;

use poorwill_image::{StateSection, StateSections, StateWriter};
use poorwill_memory::Page;

use self::machine::Fake;
use crate::{Drivers, KeeperError};

/// How long Stop may take, in microseconds.
const HOLD_UP_US: u64 = 8_000;

/// What Stop wrote down.
struct Record {
    pages: Vec<Page>,
    bytes: u64,
}

impl Record {
    fn new(write: impl FnOnce(&mut StateWriter<'_>)) -> Self {
        let mut pages = vec![Page::ZERO; 8];
        let mut writer = StateWriter::new(&mut pages);
        write(&mut writer);
        let bytes = writer.finish();
        Record { pages, bytes }
    }

    fn sections(&self) -> StateSections<'_> {
        StateSections::parse(&self.pages, self.bytes).unwrap()
    }

    /// The same with another payload for sections of a kind.
    fn with_payload(&self, kind: &[u8; 3], change: impl Fn(&StateSection<'_>) -> Vec<u8>) -> Self {
        Record::new(|writer| {
            for section in self.sections().left() {
                let payload = if section.owner.to_le_bytes()[..3] == *kind {
                    change(section)
                } else {
                    section.payload.to_vec()
                };
                let StateSection {
                    owner,
                    number,
                    version,
                    ..
                } = *section;
                writer
                    .section(owner, number, version, payload.as_slice())
                    .unwrap();
            }
        })
    }
}

/// Stops a machine's devices, whose drivers know of nothing.
fn stop(machine: &Fake) -> Result<Record, KeeperError> {
    stop_under(machine, Drivers::Running)
}

fn stop_under(machine: &Fake, drivers: Drivers) -> Result<Record, KeeperError> {
    let mut result = Ok(());
    machine.board.slow_down();
    let until = machine.board.now() + HOLD_UP_US;
    let record = Record::new(|writer| result = crate::stop(machine, drivers, until, writer));
    assert!(machine.board.now() < until + 1000, "this took too long");
    result.map(|()| record)
}

/// Has them go on, with no interrupt before its time.
fn go(machine: &Fake, record: &Record) -> Result<(), KeeperError> {
    crate::check(machine, &record.sections())?;
    crate::put_back(machine, &record.sections())?;
    assert_eq!(machine.board.messages(), [], "it interrupts too early");
    crate::announce(machine, &record.sections())
}

/// The power fails before each access in turn; the next Go must do what the first did not.
fn go_with_power_failures(fresh: impl Fn() -> (Fake, Record), then: impl Fn(&Fake)) {
    let (machine, record) = fresh();
    machine.power_cycle();
    let before = machine.board.accesses();
    go(&machine, &record).unwrap();
    let accesses = machine.board.accesses() - before;
    assert!(accesses > 50);
    let step = (accesses / 150).max(1);
    let step = usize::try_from(step).unwrap();
    for last in (0..accesses).step_by(step) {
        let (machine, record) = fresh();
        machine.power_cycle();
        machine.board.fail_after(last);
        // Whatever it ends with: nobody is there to see it.
        let cut = crate::put_back(&machine, &record.sections());
        if cut.is_ok() {
            crate::announce(&machine, &record.sections()).ok();
        }
        machine.power_cycle();
        go(&machine, &record).unwrap();
        then(&machine);
    }
}
