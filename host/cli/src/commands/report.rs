//! `poorwill report`: writes a page with a bench's results.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use poorwill_bench::report;
use poorwill_bench::results::{Results, write_whole};

/// Write a page with plots of the results of `poorwill bench --save`.
///
/// The page is one file that needs no network. All its figures come from the results.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Exit status: 0 written, 1 failed, 2 wrong usage.")]
pub(crate) struct Report {
    /// The results; each further file adds figures that the earlier ones lack
    #[arg(value_name = "JSON", default_value = "bench.json")]
    results: Vec<PathBuf>,
    /// The page's file; an existing one is replaced
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
}

impl Report {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let mut read = self.results.iter().map(|file| Results::read(file));
        let mut results = read.next().context("name at least one file of results")??;
        for others in read {
            results.add(others?);
        }
        let page = report::html(&results)?;
        write_whole(&self.output, page.as_bytes())
            .with_context(|| format!("writing {}", self.output.display()))?;
        println!("{}", self.output.display());
        Ok(ExitCode::SUCCESS)
    }
}
