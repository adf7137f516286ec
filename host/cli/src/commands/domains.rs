//! `poorwill domains`: shows and checks the domains in a device tree.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::address::address;
use crate::domains::{Assumed, Tree};

/// Show or check the domains that a machine's device tree describes.
///
/// A domain is a part of the machine with an OS of its own: harts, memory, devices and rights.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  poorwill domains show machine.dtb
  poorwill domains check machine.dtb --pmp-entries 16

Exit status: 0 shown, or fenced as far as the tree says; 1 domains cannot be fenced, or the tree
describes none or cannot be used; 2 wrong usage.")]
pub(crate) struct Domains {
    #[command(subcommand)]
    action: Action,
}

#[derive(Clone, Debug, Subcommand)]
enum Action {
    /// Check that the domains can be fenced from each other, and list each reason against it
    Check(Check),
    /// Show the domains
    Show(Show),
}

#[derive(Args, Clone, Debug)]
struct Check {
    #[command(flatten)]
    show: Show,
    /// PMP entries of each hart [default: not known, and not checked]
    #[arg(long, value_name = "NUMBER")]
    pmp_entries: Option<usize>,
    /// Address at which the firmware is loaded
    #[arg(long, value_name = "ADDRESS", default_value = "0x80000000", value_parser = address)]
    firmware_at: u64,
}

#[derive(Args, Clone, Debug)]
struct Show {
    /// The device tree, compiled
    #[arg(value_name = "DTB")]
    tree: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Domains {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        match self.action {
            Action::Show(show) => {
                let tree = Tree::read(&show.tree)?;
                match show.json {
                    true => println!("{}", serde_json::to_string_pretty(&tree.value())?),
                    false => print!("{}", tree.text()),
                }
                Ok(ExitCode::SUCCESS)
            }
            Action::Check(check) => check.execute(),
        }
    }
}

impl Check {
    fn execute(self) -> anyhow::Result<ExitCode> {
        let verdict = Tree::read(&self.show.tree)?.check(Assumed {
            pmp_entries: self.pmp_entries,
            firmware_at: self.firmware_at,
            sleep_disks: None,
        });
        match self.show.json {
            true => println!("{}", serde_json::to_string_pretty(&verdict.value())?),
            false => print!("{}", verdict.text()),
        }
        Ok(match verdict.is_fenced() {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        })
    }
}
