//! The host command `poorwill`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use poorwill::commands::area::Area;
use poorwill::commands::demo::Demo;
use poorwill::commands::disk::Disk;
use poorwill::commands::run::Run;
use poorwill::interrupt;

/// Runs RISC-V machines that sleep with the power off.
#[derive(Debug, Parser)]
#[command(name = "poorwill", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(Run),
    Disk(Disk),
    Demo(Demo),
    Area(Area),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = interrupt::install().map_err(Into::into).and_then(|()| match arguments.command {
        Command::Run(run) => run.execute(),
        Command::Disk(disk) => disk.execute(),
        Command::Demo(demo) => demo.execute(),
        Command::Area(area) => area.execute(),
    });
    match result {
        Ok(code) => code,
        Err(_) if interrupt::requested() => ExitCode::from(interrupt::EXIT_INTERRUPTED),
        Err(error) => {
            eprintln!("poorwill: {error:#}");
            ExitCode::FAILURE
        }
    }
}
