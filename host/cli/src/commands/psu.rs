//! `poorwill psu`: controls the power supply of a running machine.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use poorwill_machine::psu::{Power, set};

/// Let the power of a running machine fail, or be good again.
///
/// The machine is one of `poorwill run --cut`; its memory file names it. After a failure the power
/// lasts for the machine's hold-up.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  poorwill psu fail machine.ram
  poorwill psu good machine.ram    before the hold-up ends: the power stays

Exit status: 0 done, 1 the machine is off or refuses, 2 wrong usage.")]
pub(crate) struct Psu {
    /// The new state of the power
    #[arg(value_enum)]
    power: Power,
    /// The machine's memory file
    #[arg(value_name = "FILE")]
    ram: PathBuf,
}

impl Psu {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        set(&self.ram, self.power)?;
        let ram = self.ram.display();
        match self.power {
            Power::Fail => println!("{ram}: the power fails"),
            Power::Good => println!("{ram}: the power is good"),
        }
        Ok(ExitCode::SUCCESS)
    }
}
