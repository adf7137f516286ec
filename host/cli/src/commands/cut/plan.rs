//! `poorwill cut plan`: how long Stop takes on a planned machine.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use poorwill_bench::cut::{self, Plan, Question, Supply, Work};
use poorwill_bench::report::cut::{STEPS, scaling};
use poorwill_bench::table::table;
use poorwill_devicetree::MAX_HARTS;
use poorwill_machine::size::Bytes;
use poorwill_sleep::cut::CutStatus;
use serde_json::{Value, json};

use crate::progress;

/// Compute how long Stop takes on a machine, and whether its power supply lasts that long.
///
/// The model is LightPC's memory at the base point (docs/memory.md), at 0.4 GHz. All lines of all
/// caches are dirty. Work besides the caches is measured on QEMU, with straight lines beyond. The
/// decision is the firmware's own, with its margin of a quarter.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  poorwill cut plan --cores 64 --cache 40M --psu server
  poorwill cut plan --cores 32 --cache 512K --psu 16ms --functions 4
  poorwill cut plan --cores 64 --cache 40M --psu atx --plot stop.svg

Exit status: 0 the line is armed and functions in use are quiet in time, 1 not so or failed,
2 wrong usage.")]
pub(super) struct PlanCommand {
    /// Cores, 1 to 512
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=cut::MOST_CORES))]
    cores: u64,
    /// Data caches of all cores together, up to 256M
    #[arg(long, value_name = "SIZE")]
    cache: Bytes,
    /// Power supply: `atx`, `server`, or a hold-up such as 16ms
    #[arg(long, value_name = "SUPPLY")]
    psu: Supply,
    /// The part of --cache that all cores share
    #[arg(long, value_name = "SIZE", default_value = "0")]
    shared: Bytes,
    /// The caches' replacement policy is unknown, instead of the least recently used line
    #[arg(long)]
    unknown_policy: bool,
    /// PCI functions in use, 0 to 16
    #[arg(long, value_name = "N", default_value_t = cut::MOST_FUNCTIONS, value_parser = clap::value_parser!(u64).range(0..=cut::MOST_FUNCTIONS))]
    functions: u64,
    /// Draw Stop over cores for several cache sizes, with the supplies' hold-ups
    #[arg(long, value_name = "SVG")]
    plot: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl PlanCommand {
    pub(super) fn execute(&self) -> anyhow::Result<ExitCode> {
        let question = Question {
            cores: self.cores,
            cache: self.cache.0,
            shared: self.shared.0,
            is_lru: !self.unknown_policy,
            functions: self.functions,
            supply: self.psu.clone(),
        };
        let plan = cut::plan(&question, &Work::MEASURED)?;
        match self.json {
            true => println!(
                "{}",
                serde_json::to_string_pretty(&value(&question, &plan))?
            ),
            false => print!("{}", text(&question, &plan)),
        }
        if let Some(file) = &self.plot {
            let bar = progress::steps(STEPS);
            let svg = scaling(&question, &Work::MEASURED, &|| bar.inc(1))?;
            bar.finish_and_clear();
            fs::write(file, svg).with_context(|| format!("cannot write {}", file.display()))?;
        }
        Ok(match plan.is_cut_in_use() {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        })
    }
}

/// The firmware's cut status.
fn status(question: &Question, plan: &Plan) -> String {
    let status = match plan.armed {
        Ok(stop_us) => CutStatus::Armed {
            hold_up_us: question.supply.hold_up_us,
            stop_us,
            slow_disks: 0,
        },
        Err(reason) => CutStatus::NotArmed(reason),
    };
    status.to_string()
}

/// What functions in use lead to.
fn of_functions(question: &Question, plan: &Plan) -> String {
    let functions = match question.functions {
        0 => return String::new(),
        1 => "1 PCI function".to_owned(),
        more => format!("{more} PCI functions"),
    };
    let (needed, quiet) = (plan.stop.before + plan.functions_ns, plan.quiet_ns);
    let verdict = match (plan.armed.is_ok(), plan.is_cut_in_use()) {
        (false, _) => return String::new(),
        (true, true) => "a power failure is cut",
        (true, false) => "a power failure is not cut",
    };
    let [needed, quiet] = [needed, quiet].map(us);
    format!("with {functions} in use {verdict}: quiet after {needed} us of {quiet} us\n")
}

fn text(question: &Question, plan: &Plan) -> String {
    let mut rows = table(["part of Stop", "us"], 1);
    let functions = format!("{} PCI functions in use", question.functions);
    let caches = format!("{} dirty lines, by {} reads", plan.lines, plan.reads);
    for (part, ns) in [
        ("harts and the machine's own devices", plan.harts_ns),
        (&*functions, plan.functions_ns),
        (&*caches, plan.caches_ns),
        ("together", plan.total_ns()),
        (
            "the firmware's prediction, without functions",
            plan.stop.total(),
        ),
    ] {
        rows.add_row([part.to_owned(), us(ns).to_string()]);
    }
    let supply = &question.supply;
    let mut text = format!(
        "{rows}\npower supply: {} us, {}\n{}\n{}",
        supply.hold_up_us,
        supply.source,
        status(question, plan),
        of_functions(question, plan)
    );
    if question.cores > MAX_HARTS as u64 {
        text += &format!("the firmware starts at most {MAX_HARTS} harts today\n");
    }
    text
}

/// Nanoseconds in microseconds, rounded up.
fn us(ns: u64) -> u64 {
    ns.div_ceil(1000)
}

fn value(question: &Question, plan: &Plan) -> Value {
    json!({
        "cores": question.cores,
        "cache_bytes": question.cache,
        "shared_bytes": question.shared,
        "is_lru": question.is_lru,
        "functions": question.functions,
        "supply": question.supply.name,
        "hold_up_us": question.supply.hold_up_us,
        "hold_up_source": question.supply.source,
        "harts_us": us(plan.harts_ns),
        "functions_us": us(plan.functions_ns),
        "caches_us": us(plan.caches_ns),
        "lines": plan.lines,
        "reads": plan.reads,
        "total_us": us(plan.total_ns()),
        "stop_us": us(plan.stop.total()),
        "quiet_us": us(plan.quiet_ns),
        "is_armed": plan.armed.is_ok(),
        "is_cut_in_use": plan.is_cut_in_use(),
        "status": status(question, plan),
    })
}
