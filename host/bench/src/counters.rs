//! Counts the instructions of an emulated read of a counter, and compares them with OpenSBI's.
//!
//! Harts without Zicntr trap at each read of `time`, `cycle` and `instret`, and machine mode emulates
//! it. Under `-icount` its `instret` counts machine mode's instructions, too, exactly.

use std::path::Path;

use poorwill_machine::{Interrupts, Machine, Qemu};
use serde::{Deserialize, Serialize};

use crate::BenchOptions;
use crate::start::{OPENSBI, Stage};

/// The instructions of an OS without emulated counters.
const WITHOUT_ZICNTR: [&str; 2] = ["-cpu", "rv64,zicntr=off"];

/// Leaves the instructions of a read of `instret` in s0, its trap included.
const READ_INSTRET: [u32; 3] = [
    0xc020_2473, // rdinstret s0
    0xc020_22f3, // rdinstret t0
    0x4082_8433, // sub       s0, t0, s0
];

/// The same, with a read of `time` between both.
const READ_BOTH: [u32; 4] = [
    0xc020_2473, // rdinstret s0
    0xc010_2373, // rdtime    t1
    0xc020_22f3, // rdinstret t0
    0x4082_8433, // sub       s0, t0, s0
];

/// The instructions of one emulated read of a counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterRead {
    /// `time` or `instret`.
    pub counter: String,
    #[serde(rename = "poorwill_instructions")]
    pub poorwill: u64,
    #[serde(rename = "opensbi_instructions")]
    pub opensbi: u64,
}

impl CounterRead {
    /// Poorwill's instructions, divided by OpenSBI's.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a ratio to two digits")]
    pub fn ratio(&self) -> f64 {
        self.poorwill as f64 / self.opensbi as f64
    }
}

pub(super) fn measure(options: &BenchOptions) -> anyhow::Result<Vec<CounterRead>> {
    let qemu = Qemu::find()?;
    let stages = [&READ_INSTRET[..], &READ_BOTH].map(|reads| {
        let mut machine = Machine::new(&options.firmware);
        (machine.extra_arguments).extend(WITHOUT_ZICNTR.map(Into::into));
        Stage::with(options, machine, reads)
    });
    let [instret, both] = stages;
    let (instret, both) = (instret?, both?);
    let [poorwill, opensbi] = [&options.firmware, Path::new(OPENSBI)].map(|firmware| {
        let count = |stage: &Stage| stage.count(firmware, Interrupts::Plic, 1, &qemu);
        let (instret, both) = (count(&instret)?, count(&both)?);
        anyhow::Ok([both - instret, instret])
    });
    let both = poorwill?.into_iter().zip(opensbi?);
    let named = ["time", "instret"].into_iter().zip(both);
    let read = named.map(|(counter, (poorwill, opensbi))| CounterRead {
        counter: counter.to_owned(),
        poorwill,
        opensbi,
    });
    Ok(read.collect())
}
