//! `poorwill memory --rates`: latencies of machines under random requests.

use poorwill_bench::table::table;
use poorwill_bench::traces::open_loop::{Load, mean_read};
use poorwill_oc_pmem::{Machine, Parameters};
use serde_json::json;

/// Prints the mean time of the machines' reads at each load.
pub(super) fn execute(
    machines: &[Machine],
    parameters: &Parameters,
    loads: &[Load],
    is_json: bool,
) -> anyhow::Result<()> {
    if is_json {
        let rows = loads.iter().flat_map(|load| {
            machines.iter().map(|machine| {
                json!({
                    "machine": machine.name(),
                    "rate": load.rate,
                    "writes_percent": load.writes,
                    "mean_read_ns": mean_read(*machine, parameters, *load),
                })
            })
        });
        let rows: Vec<_> = rows.collect();
        println!("{}", serde_json::to_string_pretty(&rows)?);
        return Ok(());
    }
    let names = machines
        .iter()
        .map(|machine| format!("{}: mean read, ns", machine.name()));
    let heads = ["million requests a second".to_owned()];
    let mut rows = table(heads.into_iter().chain(names).collect::<Vec<_>>(), 0);
    for load in loads {
        let times = machines.iter().map(|machine| {
            let time = mean_read(*machine, parameters, *load);
            time.map_or_else(|| "no read".to_owned(), |time| format!("{time:.2}"))
        });
        rows.add_row([load.rate.to_string()].into_iter().chain(times));
    }
    println!("{rows}");
    Ok(())
}

/// A rate that the command takes.
pub(super) fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| "it must be a number".to_owned())?;
    match (0.001..=10_000.0).contains(&rate) {
        true => Ok(rate),
        false => Err("it must be 0.001 to 10000 million requests a second".to_owned()),
    }
}
