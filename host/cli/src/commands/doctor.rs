//! `poorwill doctor`: checks this host.

use std::process::ExitCode;

use clap::Args;
use console::style;

use crate::doctor::{Finding, Health, examine};

/// Check this host for all that Poorwill needs, and show how to fix problems.
#[derive(Args, Clone, Copy, Debug)]
#[command(after_help = "\
Exit status: 0 nothing necessary is missing, 1 something is missing, 2 wrong usage.")]
pub(crate) struct Doctor {}

impl Doctor {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let findings = examine();
        findings.iter().for_each(show);
        let ill = findings
            .iter()
            .any(|finding| finding.health == Health::Missing);
        Ok(if ill {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        })
    }
}

fn show(finding: &Finding) {
    let health = match finding.health {
        Health::Good => style("ok     ").green(),
        Health::Lacking => style("warning").yellow(),
        Health::Missing => style("missing").red(),
    };
    println!("{health}  {:15} {}", finding.what, finding.detail);
    if let Some(cure) = &finding.cure {
        println!("{:25}-> {cure}", "");
    }
}
