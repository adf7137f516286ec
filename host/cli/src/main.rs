//! The host command `poorwill`: its commands, on top of machines and of what
//! measures them.
#![forbid(unsafe_code)]

mod commands;
mod demo;
mod doctor;
mod progress;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use commands::area::Area;
use commands::bench::Bench;
use commands::cut::Cut;
use commands::demo::Demo;
use commands::disk::Disk;
use commands::doctor::Doctor;
use commands::energy::Energy;
use commands::key::Key;
use commands::psu::Psu;
use commands::report::Report;
use commands::run::Run;
use poorwill_machine::interrupt;

/// Runs RISC-V machines that sleep with the power off and wake where they were.
#[derive(Debug, Parser)]
#[command(
    name = "poorwill",
    version,
    after_help = "\
Examples:
  poorwill doctor                  what this host lacks
  poorwill demo                    a Debian machine sleeps and wakes, measured
  poorwill run                     a Debian machine of your own
  poorwill area machine.disk       what is in the sleep area of a disk
  poorwill key machine.flash       the key that a machine seals its images with
  poorwill demo cut                the plug is pulled ten times, and the machine goes on
  poorwill psu fail machine.ram    the power fails, of a machine of `run --cut`
  poorwill bench --save bench.json && poorwill report bench.json
                                   measurements, and a page of them
  poorwill energy                  from which length on which sleep saves energy

Environment:
  POORWILL_FIRMWARE   the firmware (default: build/poorwill.elf)
  POORWILL_LOADER     what starts a kernel from flash, for cuts (default: build/loader.bin)
  POORWILL_PLUGIN     the plugin for QEMU, for cuts (default: build/poorwill-plugin.so)
  POORWILL_QEMU       the emulator (default: qemu-system-riscv64 in PATH)
  POORWILL_CACHE      what can be made again (default: ~/.cache/poorwill)
  POORWILL_DATA       the machine of `run` (default: ~/.local/share/poorwill)

Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted."
)]
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
    Key(Key),
    Psu(Psu),
    Cut(Cut),
    Doctor(Doctor),
    Bench(Bench),
    Report(Report),
    Energy(Energy),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = interrupt::install()
        .map_err(Into::into)
        .and_then(|()| match arguments.command {
            Command::Run(run) => run.execute(),
            Command::Disk(disk) => disk.execute(),
            Command::Demo(demo) => demo.execute(),
            Command::Area(area) => area.execute(),
            Command::Key(key) => key.execute(),
            Command::Psu(psu) => psu.execute(),
            Command::Cut(cut) => cut.execute(),
            Command::Doctor(doctor) => doctor.execute(),
            Command::Bench(bench) => bench.execute(),
            Command::Report(report) => report.execute(),
            Command::Energy(energy) => energy.execute(),
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
