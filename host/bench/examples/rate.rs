//! Prints the model's rate for each machine in processor time of one core, for a recorded trace,
//! whose reading is included. Each line is the best of several runs.
//!
//! ```sh
//! poorwill trace record sha512 --harts 8
//! tools/cargo run --release -p poorwill-bench --example rate sha512-8
//! ```
#![forbid(unsafe_code)]

use std::fs;
use std::time::Duration;

use anyhow::Context;
use poorwill_bench::traces::{Library, parameters_of, run};
use poorwill_oc_pmem::Machine;

const RUNS: usize = 7;

/// Processor time of this thread.
fn processor_time() -> anyhow::Result<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    let first = text.split_whitespace().next().context("a time")?;
    Ok(Duration::from_nanos(first.parse()?))
}

fn main() -> anyhow::Result<()> {
    let name = std::env::args().nth(1).context("name a trace")?;
    let found = Library::find()?.named(&name)?;
    let parameters = parameters_of(found.open(|file| file)?.header())?;
    for (machine_name, machine) in Machine::ALL {
        let mut best = Duration::MAX;
        let mut requests = 0;
        for _ in 0..RUNS {
            let begun = processor_time()?;
            requests = run(&found, machine, &parameters, |file| file)?
                .outcome
                .requests;
            best = best.min(processor_time()?.saturating_sub(begun));
        }
        let rate = requests as f64 / best.as_secs_f64() / 1e6;
        println!("{name}, {machine_name}: {rate:.1} M requests a second");
    }
    Ok(())
}
