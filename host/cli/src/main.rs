//! The host command `poorwill`.
#![forbid(unsafe_code)]

mod board;
mod commands;
mod demo;
mod devices;
mod doctor;
mod domains;
mod progress;
mod work_folder;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use commands::area::Area;
use commands::bench::Bench;
use commands::cut::Cut;
use commands::demo::Demo;
use commands::disk::Disk;
use commands::doctor::Doctor;
use commands::domains::Domains;
use commands::energy::Energy;
use commands::key::Key;
use commands::memory::Memory;
use commands::psu::Psu;
use commands::report::Report;
use commands::run::Run;
use commands::trace::Trace;
use poorwill_machine::interrupt;

/// Run RISC-V machines that sleep with the power off and wake where they were.
#[derive(Debug, Parser)]
#[command(
    name = "poorwill",
    version,
    after_help = "\
Examples:
  poorwill doctor                  check this host
  poorwill demo                    a Debian machine sleeps and wakes, measured
  poorwill run                     a Debian machine of your own
  poorwill area machine.disk       show the sleep area of a disk
  poorwill key machine.flash       show the key that seals a machine's images
  poorwill demo cut                a machine resumes after ten power failures
  poorwill psu fail machine.ram    let the power of a machine of `run --cut` fail
  poorwill bench --save bench.json && poorwill report bench.json
                                   measurements, and a page of them
  poorwill domains check machine.dtb
                                   find out whether its domains can be fenced
  poorwill energy                  compute which sleep mode saves energy
  poorwill trace record sha512 && poorwill memory sha512
                                   a program's time on LightPC's memory

Environment:
  POORWILL_FIRMWARE   the firmware (default: build/poorwill.elf)
  POORWILL_LOADER     the loader for kernels in flash, for cuts (default: build/loader.bin)
  POORWILL_CRITICAL   the critical guest of `demo domains` (default: build/critical.bin)
  POORWILL_PLUGIN     the plugin for QEMU, for cuts and traces (default: build/poorwill-plugin.so)
  POORWILL_QEMU       the emulator (default: qemu-system-riscv64 in PATH)
  POORWILL_CACHE      files that can be built again (default: ~/.cache/poorwill)
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
    Domains(Domains),
    Bench(Bench),
    Report(Report),
    Energy(Energy),
    Trace(Trace),
    Memory(Memory),
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
            Command::Domains(domains) => domains.execute(),
            Command::Bench(bench) => bench.execute(),
            Command::Report(report) => report.execute(),
            Command::Energy(energy) => energy.execute(),
            Command::Trace(trace) => trace.execute(),
            Command::Memory(memory) => memory.execute(),
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
