//! `poorwill doctor`: checks this host.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use console::style;

use crate::doctor::{Finding, Health, devices, examine, examine_disk};

/// Check this host for all that Poorwill needs, and show how to fix problems. With QEMU's arguments,
/// also name the devices that a sleep disturbs.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Exit status: 0 nothing necessary is missing, 1 something is missing, 2 wrong usage.")]
pub(crate) struct Doctor {
    /// Also check that the firmware accepts the sleep area of this disk, a raw file or a block
    /// device
    #[arg(value_name = "DISK")]
    disks: Vec<PathBuf>,
    /// Arguments of a machine for QEMU
    #[arg(last = true, value_name = "QEMU ARGUMENT")]
    qemu_arguments: Vec<OsString>,
}

impl Doctor {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let mut findings = examine();
        findings.extend(self.disks.iter().map(|disk| examine_disk(disk)));
        findings.extend(devices(&self.qemu_arguments));
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
