//! The power fails on a real machine in QEMU, by the command alone. Where something is
//! missing it is passed over, or fails with `POORWILL_STRICT=1`.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use common::{LIMIT, Outcome, World};
use rustix::process::{Pid, Signal, kill_process};

/// What is built, and by which target.
const BUILT: [(&str, &str); 4] = [
    ("poorwill.elf", "firmware"),
    ("loader.bin", "loader"),
    ("poorwill-plugin.so", "plugin"),
    ("test-kernel.bin", "test-kernel"),
];

/// The test kernel's, of which all harts run first.
const WORDS: &str = "case=cut ms=200 fill_mib=2";

fn build() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build")
}

fn is_ready() -> bool {
    let tools = ["qemu-system-riscv64", "dtc"].map(|tool| {
        let ran = Command::new(tool).arg("--version").output();
        ran.map(drop).map_err(|reason| format!("{tool}: {reason}"))
    });
    let built = BUILT.map(|(name, target)| match build().join(name).is_file() {
        true => Ok(()),
        false => Err(format!("no build/{name}: build it with `make {target}`")),
    });
    let all = tools.into_iter().chain(built);
    let Some(Err(missing)) = all.into_iter().find(Result::is_err) else {
        return true;
    };
    let strict = std::env::var("POORWILL_STRICT").is_ok_and(|set| set == "1");
    assert!(!strict, "{missing}");
    eprintln!("passed over: {missing}");
    false
}

/// The command, to be run on the machine whose memory is `ram`.
fn command(world: &World, more: &[&str]) -> Command {
    let kernel = build().join("test-kernel.bin");
    let usual = "run --cut --ram ram --memory 128M --disk d --kernel";
    let all = usual
        .split(' ')
        .chain([kernel.to_str().unwrap(), "--append", WORDS]);
    let all: Vec<_> = all.chain(more.iter().copied()).collect();
    let mut command = world.poorwill(&all);
    for (variable, name) in [
        ("POORWILL_FIRMWARE", "poorwill.elf"),
        ("POORWILL_LOADER", "loader.bin"),
        ("POORWILL_PLUGIN", "poorwill-plugin.so"),
    ] {
        command.env(variable, build().join(name));
    }
    command.env_remove("POORWILL_QEMU");
    command
}

/// A machine that is on, over pipes.
struct Machine {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Machine {
    fn start(world: &World, more: &[&str]) -> Self {
        let mut command = command(world, more);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let console = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            let lines = console.lines().map_while(Result::ok);
            lines
                .map(|line| sender.send(line))
                .take_while(Result::is_ok)
                .count()
        });
        Machine {
            child,
            lines,
            seen: Vec::new(),
        }
    }

    /// Waits for a line of the console.
    #[track_caller]
    fn wait_for(&mut self, text: &str) {
        let until = Instant::now() + LIMIT;
        while !self.seen.last().is_some_and(|line| line.contains(text)) {
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => self.seen.push(line),
                Err(_) => panic!("no {text:?}: {:#?}", self.seen),
            }
        }
    }

    /// How it ended, with all that it said.
    fn end(mut self) -> (Outcome, String) {
        while let Ok(line) = self.lines.recv_timeout(LIMIT) {
            self.seen.push(line);
        }
        let outcome = Outcome::from(self.child.wait_with_output().unwrap());
        (outcome, self.seen.join("\n"))
    }
}

/// A folder with a disk that the machine is given.
fn world_with_disk() -> World {
    let world = World::empty();
    assert_eq!(
        world.run(&["disk", "create", "d", "--area", "8M"]).code,
        Some(0)
    );
    world
}

/// Has the machine run, and its power fail; returns how the command ended.
fn cut(world: &World, more: &[&str]) -> (Outcome, String) {
    let mut machine = Machine::start(world, more);
    machine.wait_for("cut: all harts run");
    world
        .run(&["cut", "show", "ram"])
        .refuses(1, &["memory file ram is in use by"]);
    let told = world.run(&["psu", "fail", "ram"]);
    assert_eq!(told.code, Some(0), "{told:#?}");
    machine.end()
}

#[test]
fn a_machine_goes_on_where_its_power_failed() {
    if !is_ready() {
        return;
    }
    let world = world_with_disk();
    let (ended, console) = cut(&world, &[]);
    assert_eq!(ended.code, Some(0), "{ended:#?}\n{console}");
    assert!(
        ended.err.contains("the machine was cut (2 harts, in "),
        "{ended:#?}"
    );
    assert!(!console.contains("one hart runs"), "{console}");
    let shown = world.run(&["cut", "show", "--json", "ram"]);
    let shown: serde_json::Value = serde_json::from_str(&shown.out).unwrap();
    assert_eq!(
        (&shown[0]["state"], &shown[0]["number"]),
        (&"whole".into(), &1.into())
    );
    assert!(
        shown[0]["stop_us"]
            .as_u64()
            .is_some_and(|us| (100..8000).contains(&us))
    );
    // Nothing is left of its power supply.
    assert!(fs::symlink_metadata(world.path("ram.psu")).is_err());
    world
        .run(&["psu", "fail", "ram"])
        .refuses(1, &["no running machine"]);

    let (ended, console) = Machine::start(&world, &[]).end();
    for line in [
        "poorwill: cut harts=2 ",
        "poorwill: go us=",
        "cut: one hart runs",
        " steps",
    ] {
        assert!(console.contains(line), "no {line:?}: {console}");
    }
    assert!(!console.contains("cold boot"), "{console}");
    // The test kernel's word for success.
    ended.refuses(1, &["resuming cut 1 in ram", "exit status: 42"]);
    let shown = world.run(&["cut", "show", "ram"]);
    assert!(shown.out.contains("cut 1, consumed"), "{shown:#?}");
}

#[test]
fn a_hold_up_that_is_too_short_and_a_cut_that_is_discarded() {
    if !is_ready() {
        return;
    }
    let world = world_with_disk();
    let plic = ["--interrupts", "plic", "--hold-up"];
    let (ended, console) = cut(&world, &[&plic[..], &["100us"]].concat());
    ended.refuses(1, &["the hold-up ran out", "had not armed the line"]);
    let refused = "poorwill: cut: not armed: stop takes ";
    assert!(console.contains(refused), "{console}");
    assert!(!console.contains("steps"), "{console}");

    let (ended, console) = cut(&world, &[&plic[..], &["16ms"]].concat());
    assert!(
        console.contains("poorwill: cold boot: no image"),
        "{console}"
    );
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let discarded = world.run(&["cut", "discard", "ram"]);
    assert_eq!(discarded.out, "ram: cut 1 is discarded\n");

    let mut machine = Machine::start(&world, &[&plic[..], &["16ms"]].concat());
    machine.wait_for("poorwill: cold boot: no image");
    // Whoever ends it so finds the terminal, and no files of it.
    kill_process(Pid::from_child(&machine.child), Signal::TERM).unwrap();
    let (ended, _) = machine.end();
    assert!(ended.code.is_some(), "{ended:#?}");
    assert!(fs::symlink_metadata(world.path("ram.psu")).is_err());
}
