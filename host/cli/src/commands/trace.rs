//! `poorwill trace`: records and shows traces of programs' memory requests.

use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Subcommand};
use poorwill_bench::table::table;
use poorwill_bench::traces::{
    self, Kept, Library, PROGRAMS, Program, Recording, TracesError, USUAL_SKIP, USUAL_WINDOW, names,
};
use poorwill_machine::{Board, Qemu};
use poorwill_trace::Header;
use serde_json::{Value, json};

use crate::progress;
use crate::work_folder::work_folder;

/// Record and show traces of programs' memory requests.
///
/// A stock Linux runs the program under QEMU's plugin. A trace has the requests that miss the harts'
/// caches, with the instructions between them. `poorwill memory` runs it on models of memory.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  poorwill trace record sha512 aes
  poorwill trace record all
  poorwill trace record sha512 --harts 8 --instructions 20000000
  poorwill trace list
  poorwill trace show sha512-8

Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted.")]
pub(crate) struct Trace {
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// Record programs, one after the other
    Record(Record),
    /// List all traces, and the programs
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Check a trace, and show its contents
    Show {
        /// A trace's name, or a file
        #[arg(value_name = "TRACE")]
        trace: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args, Clone, Debug)]
struct Record {
    #[arg(value_name = "PROGRAM", required = true, help = format!("Programs: {}, or all of them", names()))]
    programs: Vec<String>,
    /// Harts of the machine [default: the program's own]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(Board::Virt.most_harts())))]
    harts: Option<u32>,
    /// Length of the window, in instructions of the busiest hart
    #[arg(long, value_name = "N", default_value_t = USUAL_WINDOW, value_parser = clap::value_parser!(u64).range(1..))]
    instructions: u64,
    /// Instructions of the busiest hart before the window
    #[arg(long, value_name = "N", default_value_t = USUAL_SKIP)]
    skip: u64,
}

impl Trace {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Record(record) => record.execute()?,
            Command::List { json } => list(json)?,
            Command::Show { trace, json } => show(&trace, json)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The name of all programs.
const ALL: &str = "all";

impl Record {
    fn execute(&self) -> anyhow::Result<()> {
        let is_all = self.programs.iter().any(|name| name == ALL);
        let programs = match is_all {
            true => PROGRAMS.iter().collect(),
            false => {
                let programs = self.programs.iter().map(|name| Program::named(name));
                programs.collect::<Result<Vec<_>, _>>()?
            }
        };
        let (firmware, plugin) = traces::built()?;
        let qemu = Qemu::find()?;
        let library = Library::find()?;
        let bar = progress::steps(programs.len() as u64);
        for program in programs {
            let recording = Recording {
                program,
                harts: self.harts.unwrap_or(program.harts),
                skip: self.skip,
                window: self.instructions,
                firmware: firmware.clone(),
                plugin: plugin.clone(),
            };
            bar.set_message(format!("recording {}", program.name));
            let file = library.file(program, recording.harts);
            let folder = work_folder("trace")?;
            if let Err(error) = recording.run(&qemu, folder.path(), &file) {
                match error.downcast_ref() {
                    // Of all programs, those without a package are left out by name.
                    Some(TracesError::NoPackage { .. }) if is_all => {
                        bar.suspend(|| eprintln!("poorwill: left out: {error}"));
                        bar.inc(1);
                        continue;
                    }
                    _ => return Err(error),
                }
            }
            let name = program.trace_name(recording.harts);
            let (header, _) = traces::account(&library.named(&name)?)?;
            bar.suspend(|| println!("{name}: {}", summary(&header)));
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(())
    }
}

/// A trace in one line.
fn summary(header: &Header) -> String {
    let harts = header.harts.len();
    let all: u64 = header.harts.iter().map(|hart| hart.instructions).sum();
    let harts = match harts {
        1 => "1 hart".to_owned(),
        more => format!("{more} harts"),
    };
    let (records, contents) = (header.records, header.contents);
    format!("{harts}, {all} instructions, {records} records, checksum {contents:016x}")
}

fn list(as_json: bool) -> anyhow::Result<()> {
    let library = Library::find()?;
    let folder = library.folder().display().to_string();
    let kept = library.list().with_context(|| folder.clone())?;
    if as_json {
        let traces: Vec<Value> = kept.iter().map(kept_json).collect();
        let programs = PROGRAMS.iter().map(
            |program| json!({"name": program.name, "about": program.about, "harts": program.harts}),
        );
        let programs: Vec<Value> = programs.collect();
        let all = json!({"folder": folder, "traces": traces, "programs": programs});
        println!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(());
    }
    if kept.is_empty() {
        println!("No trace is in {folder}.");
    } else {
        let mut rows = table(["trace", "harts", "instructions", "records", "bytes"], 1);
        for Kept {
            name,
            bytes,
            header,
        } in &kept
        {
            rows.add_row(match header {
                Ok(header) => {
                    let all = header.harts.iter().map(|hart| hart.instructions);
                    [
                        name.clone(),
                        header.harts.len().to_string(),
                        all.sum::<u64>().to_string(),
                        header.records.to_string(),
                        bytes.to_string(),
                    ]
                }
                Err(reason) => {
                    let none = String::new;
                    [
                        name.clone(),
                        none(),
                        reason.to_string(),
                        none(),
                        bytes.to_string(),
                    ]
                }
            });
        }
        println!("Traces in {folder}:\n{rows}");
    }
    let mut rows = table(["program", "harts", "work"], 3);
    for program in PROGRAMS {
        rows.add_row([
            program.name.to_owned(),
            program.harts.to_string(),
            program.about.to_owned(),
        ]);
    }
    println!("Programs for `poorwill trace record`:\n{rows}");
    Ok(())
}

fn kept_json(kept: &Kept) -> Value {
    match &kept.header {
        Ok(header) => {
            let mut value = header_json(header);
            value["name"] = kept.name.clone().into();
            value["bytes"] = kept.bytes.into();
            value
        }
        Err(reason) => {
            json!({"name": kept.name, "bytes": kept.bytes, "error": reason.to_string()})
        }
    }
}

/// The header of a trace, as `trace list` and `trace show` print it.
fn header_json(header: &Header) -> Value {
    let setting = &header.setting;
    let harts = header.harts.iter().map(|hart| {
        json!({
            "instructions": hart.instructions,
            "loads": hart.loads,
            "stores": hart.stores,
            "fetches": hart.fetches,
            "returns": hart.returns.map(|class| json!({"count": class.count, "lines": class.lines})),
        })
    });
    json!({
        "harts": harts.collect::<Vec<_>>(),
        "cache_bytes": setting.cache,
        "cache_ways": setting.ways,
        "memory_bytes": setting.memory,
        "skipped": setting.skipped,
        "window": setting.window,
        "records": header.records,
        "pages": header.pages,
        "checksum": format!("{:016x}", header.contents),
        "guest": setting.guest.to_string(),
        "program": setting.program.to_string(),
    })
}

fn show(name: &str, as_json: bool) -> anyhow::Result<()> {
    let found = Library::find()?.named(name)?;
    let (header, account) = traces::account(&found)?;
    let kinds = [
        ("load misses", account.loads),
        ("store misses", account.stores),
        ("fetch misses", account.fetches),
        ("write-backs", account.write_backs),
        ("flushes", account.flushes),
        ("fences", account.fences),
    ];
    if as_json {
        let mut value = header_json(&header);
        for (kind, count) in kinds {
            value["kinds"][kind.replace([' ', '-'], "_")] = count.into();
        }
        println!("{}", serde_json::to_string_pretty(&value)?);
        return Ok(());
    }
    let setting = &header.setting;
    println!("{}: {}", found.file.display(), summary(&header));
    println!(
        "window of {} instructions of the busiest hart, after {}; caches of {} bytes in {} ways; \
         {} MiB of RAM",
        setting.window,
        setting.skipped,
        setting.cache,
        setting.ways,
        setting.memory >> 20
    );
    println!("guest {}\nprogram {}", setting.guest, setting.program);
    println!("{} pages that programs accessed", header.pages);
    println!("{}", of_harts(&header));
    for (kind, count) in kinds {
        println!("{kind:>12}  {count}");
    }
    Ok(())
}

/// A row for each hart.
fn of_harts(header: &Header) -> String {
    let heads = [
        "hart",
        "instructions",
        "loads",
        "stores",
        "lines of code",
        "returns",
        "lines stored before",
    ];
    let mut rows = table(heads, 1);
    for (number, hart) in header.harts.iter().enumerate() {
        let returned = hart.returns.iter();
        let [returns, lines] = returned.fold([0, 0], |[returns, lines], class| {
            [returns + class.count, lines + class.lines]
        });
        let cells = [
            hart.instructions,
            hart.loads,
            hart.stores,
            hart.fetches,
            returns,
            lines,
        ];
        let cells = cells.map(|cell| cell.to_string());
        rows.add_row([number.to_string()].into_iter().chain(cells));
    }
    rows.to_string()
}
