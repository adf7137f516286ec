//! `poorwill doctor`: checks this host, or a board's device tree.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use console::style;

use super::address::address;
use crate::board::{Assumed, Board};
use crate::doctor::{Finding, Health, devices, examine, examine_disk};

/// Check this host for all that Poorwill needs, and show how to fix problems. With QEMU's arguments,
/// also name the devices that a sleep disturbs. With a device tree, check a board instead.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  poorwill doctor                       check this host
  poorwill doctor --tree board.dtb      say what the firmware would find and do on a board

Exit status: 0 nothing necessary is missing, 1 something is missing, or a tree cannot be used,
2 wrong usage.")]
pub(crate) struct Doctor {
    /// Also check that the firmware accepts the sleep area of this disk, a raw file or a block
    /// device
    #[arg(value_name = "DISK")]
    disks: Vec<PathBuf>,
    /// Check a board in place of this host, by its compiled device tree
    #[arg(long, value_name = "DTB", conflicts_with_all = ["disks", "qemu_arguments"])]
    tree: Option<PathBuf>,
    /// Address at which the firmware is loaded [default: that of its file]
    #[arg(long, value_name = "ADDRESS", requires = "tree", value_parser = address)]
    firmware_at: Option<u64>,
    /// Print JSON
    #[arg(long, requires = "tree")]
    json: bool,
    /// Arguments of a machine for QEMU
    #[arg(last = true, value_name = "QEMU ARGUMENT")]
    qemu_arguments: Vec<OsString>,
}

impl Doctor {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        if let Some(tree) = &self.tree {
            return self.check_board(tree);
        }
        let mut findings = examine();
        findings.extend(self.disks.iter().map(|disk| examine_disk(disk)));
        findings.extend(devices(&self.qemu_arguments));
        findings.iter().for_each(show);
        Ok(status(&findings))
    }

    fn check_board(&self, tree: &Path) -> anyhow::Result<ExitCode> {
        let board = Board::read(tree, Assumed::new(self.firmware_at)?)?;
        let findings = board.findings();
        match self.json {
            true => println!("{}", serde_json::to_string_pretty(&board.value())?),
            false => findings.iter().for_each(show),
        }
        Ok(status(&findings))
    }
}

/// The exit status: failure if something is missing.
fn status(findings: &[Finding]) -> ExitCode {
    let mut healths = findings.iter().map(|finding| finding.health);
    match healths.any(|health| health == Health::Missing) {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

fn show(finding: &Finding) {
    let word = style(format!("{:7}", finding.health.word()));
    let health = match finding.health {
        Health::Good => word.green(),
        Health::Lacking => word.yellow(),
        Health::Missing => word.red(),
    };
    println!("{health}  {:15} {}", finding.what, finding.detail);
    if let Some(cure) = &finding.cure {
        println!("{:25}-> {cure}", "");
    }
}
