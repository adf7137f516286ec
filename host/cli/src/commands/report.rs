//! `poorwill report`: a bench's results as a page.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use poorwill_bench::report;
use poorwill_bench::results::{Results, write_whole};

/// Make a page with plots of what `poorwill bench --save` has measured.
///
/// The page is one file that needs no network: it can be sent, and read on a
/// telephone. Everything in it comes from the results.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Exit status: 0 made, 1 failed, 2 wrong usage.")]
pub(crate) struct Report {
    /// The results; of several files, later ones add what is not in earlier ones
    #[arg(value_name = "JSON", default_value = "bench.json")]
    results: Vec<PathBuf>,
    /// The page; an existing one is replaced
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
}

impl Report {
    /// Runs the command.
    ///
    /// # Errors
    ///
    /// The results cannot be read, or the page not written.
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let mut read = self.results.iter().map(|file| Results::read(file));
        let mut results = read.next().context("no results are named")??;
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
