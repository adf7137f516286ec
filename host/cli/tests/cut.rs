//! Machines whose power fails, with a QEMU that is a shell script; and memory files that
//! hold cuts.

mod common;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread;

use common::{MIB, Outcome, World};
use poorwill_sleep::cut::fake::FakeRecord;
use poorwill_sleep::cut::{CutMemory, CutReason, Layout};
use rustix::fs::{FlockOperation, flock};

/// Where the record lies in these machines' memory.
const PLACE: u64 = 64 * MIB;

/// A record after `cuts` cuts.
fn record(cuts: u32) -> FakeRecord {
    let mut record = FakeRecord::new(&[true, true]);
    record.ticks = 2640;
    for _ in 0..cuts {
        record.stop().unwrap();
    }
    record
}

/// Makes a memory file of 128 MiB with a record in it.
fn memory(world: &World, name: &str, record: &FakeRecord) {
    let file = File::create(world.path(name)).unwrap();
    file.set_len(128 * MIB).unwrap();
    file.write_all_at(&record.bytes(), PLACE).unwrap();
}

/// A QEMU that tells a device tree, and otherwise does what `script` says.
fn world(script: &str) -> World {
    World::with_tree(&format!(
        "printf '%s\\n' \"$@\" >\"$0.arguments\"\n{script}"
    ))
}

/// `poorwill run --cut` of a machine of 128 MiB whose disk is `d`.
fn run(world: &World, more: &[&str]) -> Outcome {
    let made = world.run(&["disk", "create", "d", "--area", "8M", "--force"]);
    assert_eq!(made.code, Some(0), "{made:#?}");
    let usual = "run --cut --ram ram --memory 128M --disk d";
    let all: Vec<_> = usual.split(' ').chain(more.iter().copied()).collect();
    world.run(&all)
}

#[test]
fn a_machine_that_is_cut_ends_well_and_says_so() {
    let world =
        world("dd if=after of=ram bs=1M seek=64 conv=notrunc status=none; exit $(cat code)");
    fs::write(world.path("after"), record(1).bytes()).unwrap();
    for code in ["0", "77"] {
        let _ = fs::remove_file(world.path("ram"));
        fs::write(world.path("code"), code).unwrap();
        let outcome = run(&world, &[]);
        assert_eq!(outcome.code, Some(0), "{outcome:#?}");
        for words in [
            "the machine was cut (2 harts, in 1ms of 16ms)",
            "same command again",
        ] {
            assert!(outcome.err.contains(words), "{words}: {outcome:#?}");
        }
    }
    // The next run says what it finds there.
    let again = run(&world, &[]);
    assert!(again.err.contains("resuming cut 1 in ram"), "{again:#?}");
    assert!(fs::symlink_metadata(world.path("ram.psu")).is_err());
}

#[test]
fn a_machine_is_started_as_the_plugin_models_it() {
    let world = world("ls -l ram.psu; stat -c %s ram");
    let outcome = run(
        &world,
        &["--interrupts", "plic", "--clock", "1.6", "--", "-s"],
    );
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    assert!(outcome.err.contains("switched off"), "{outcome:#?}");
    assert!(outcome.out.contains("134217728"), "{outcome:#?}");
    assert!(
        outcome.out.contains("ram.psu -> /tmp/poorwill-"),
        "{outcome:#?}"
    );
    let arguments = fs::read_to_string(world.path("qemu.arguments")).unwrap();
    for part in [
        "\"mem-path\":\"ram\"",
        "pflash0=loader",
        "tcg,thread=single",
        "plugin,ram=ram,l1=16384,ways=4,loads=always,irq=60,control=/tmp/poorwill-",
        ",hold-up=16896000,",
        "\n-s\n",
        "\n-dtb\n",
    ] {
        assert!(arguments.contains(part), "{part}: {arguments}");
    }
}

#[test]
fn a_machine_that_is_not_cut_says_why() {
    let mut late = record(1);
    late.fails = Some(CutReason::HartNotStopped(1));
    late.stop().unwrap_err();
    let world =
        world("dd if=after of=ram bs=1M seek=64 conv=notrunc status=none; exit $(cat code)");
    fs::write(world.path("after"), late.bytes()).unwrap();
    for code in ["0", "77"] {
        let _ = fs::remove_file(world.path("ram"));
        fs::write(world.path("code"), code).unwrap();
        run(&world, &[]).refuses(
            1,
            &["was not cut: hart 1 did not stop in time", "cold boot"],
        );
    }
    // The start after that names it, too.
    let next = run(&world, &[]);
    assert!(
        next.err.contains("cut 2 in ram cannot be resumed"),
        "{next:#?}"
    );
    fs::write(world.path("after"), "").unwrap();
    fs::remove_file(world.path("ram")).unwrap();
    run(&world, &[]).refuses(1, &["the hold-up ran out before machine mode took notice"]);
    fs::write(world.path("code"), "78").unwrap();
    run(&world, &[]).refuses(1, &["QEMU failed (exit status: 78)"]);
}

#[test]
fn memory_of_another_machine_is_left_as_it_is() {
    let world = world("echo started");
    memory(&world, "ram", &record(1));
    let before = fs::read(world.path("ram")).unwrap();
    for (more, words) in [
        (
            ["--memory", "256M"],
            "134217728 bytes instead of the machine's 268435456",
        ),
        (["--harts", "4"], "a machine with 2 harts: give --harts 2"),
        (["--hold-up", "1us"], "264 instructions"),
        (["--memory", "64M"], "128.00 MiB or more"),
    ] {
        let all: Vec<_> = "run --cut --ram ram --disk d"
            .split(' ')
            .chain(more)
            .collect();
        run(&world, &[]);
        memory(&world, "ram", &record(1));
        let outcome = world.run(&all);
        if more[0] == "--harts" {
            // It has the memory that the cut is in.
            let all: Vec<_> = all.into_iter().chain(["--memory", "128M"]).collect();
            world.run(&all).refuses(1, &[words]);
        } else {
            outcome.refuses(1, &[words]);
        }
        assert!(!outcome.out.contains("started"), "{outcome:#?}");
    }
    assert!(fs::read(world.path("ram")).unwrap() == before);
}

#[test]
fn what_a_cut_needs_is_named() {
    let world = world("exit 0");
    run(&world, &["--", "-dtb", "mine"]).refuses(1, &["-dtb cannot be given"]);
    assert!(!world.path("ram").exists(), "it was made in vain");
    for (name, words) in [("loader", "read loader"), ("plugin", "plugin")] {
        fs::rename(world.path(name), world.path("away")).unwrap();
        run(&world, &[]).refuses(1, &[words, "No such file"]);
        fs::rename(world.path("away"), world.path(name)).unwrap();
    }
    // A PATH without the compiler of device trees.
    fs::create_dir(world.path("bin")).unwrap();
    for program in ["sh", "cat", "setpriv"] {
        symlink(
            Path::new("/usr/bin").join(program),
            world.path("bin").join(program),
        )
        .unwrap();
    }
    world.set_qemu("for word; do case $word in dumpdtb=*) echo tree >\"${word#*=}\";; esac; done");
    let mut command = world.poorwill(&["run", "--cut", "--ram", "ram", "--disk", "d"]);
    command.env("PATH", world.path("bin"));
    Outcome::of(&mut command).refuses(1, &["compiler dtc does not start", "device-tree-compiler"]);
    for usage in [
        ["run", "--cut"].as_slice(),
        &["run", "--ram", "ram"],
        &["run", "--hold-up", "16ms"],
        &["run", "--cut", "--ram", "ram", "--hold-up", "soon"],
        &["run", "--cut", "--ram", "ram", "--clock", "0"],
        &["psu", "maybe", "ram"],
        &["psu", "fail"],
        &["cut", "show"],
    ] {
        world.run(usage).refuses(2, &["--help"]);
    }
}

#[test]
fn the_power_supply_of_a_machine_that_is_on() {
    let world = World::empty();
    fs::write(world.path("ram"), "").unwrap();
    world
        .run(&["psu", "fail", "absent"])
        .refuses(1, &["cannot find memory file absent"]);
    world.run(&["psu", "fail", "ram"]).refuses(
        1,
        &[
            "no running machine has the memory ram",
            "run --cut --ram ram",
        ],
    );
    let socket = world.path("socket");
    symlink(&socket, world.path("ram.psu")).unwrap();
    let listener = UnixListener::bind(&socket).unwrap();
    let machine = thread::spawn(move || {
        for answer in ["ok\n", "error: the machine does not run yet\n"] {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0; 5];
            stream.read_exact(&mut asked).unwrap();
            assert!(matches!(&asked, b"fail\n" | b"good\n"));
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let done = world.run(&["psu", "fail", "ram"]);
    assert_eq!(
        (done.code, done.out.as_str()),
        (Some(0), "ram: the power fails\n")
    );
    world
        .run(&["psu", "good", "ram"])
        .refuses(1, &["refuses: the machine does not run yet"]);
    machine.join().unwrap();
    // The listener is gone, as if QEMU had been killed; its socket is still there.
    world
        .run(&["psu", "fail", "ram"])
        .refuses(1, &["no running machine"]);
}

#[test]
fn a_cut_is_shown_and_discarded() {
    let world = World::empty();
    memory(&world, "ram", &record(3));
    let shown = world.run(&["cut", "show", "ram"]);
    assert_eq!(shown.code, Some(0), "{shown:#?}");
    for words in [
        "ram: cut 3, whole: the next power-on resumes it",
        "0x4000000",
        "2 of 2 were running",
        "6900 bytes",
        "1ms (2640 ticks)",
    ] {
        assert!(shown.out.contains(words), "{words}: {shown:#?}");
    }
    let json = world.run(&["cut", "show", "ram", "--json", "--clock", "0.8"]);
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json[0]["number"], 3);
    assert_eq!(json[0]["state"], "whole");
    assert_eq!(json[0]["stop_us"], 500);
    assert_eq!(json[0]["reason"], serde_json::Value::Null);

    let discarded = world.run(&["cut", "discard", "ram"]);
    assert_eq!(discarded.out, "ram: cut 3 is discarded\n");
    let after = world.run(&["cut", "discard", "ram", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&after.out).unwrap();
    assert_eq!(
        (after.code, &json[0]["state"]),
        (Some(0), &"consumed".into())
    );
    let again = world.run(&["cut", "discard", "ram"]);
    assert_eq!(again.out, "ram: there is no cut to discard\n");
}

#[test]
fn memory_with_a_damaged_record_or_none() {
    let world = World::empty();
    let whole = record(1);
    memory(&world, "ram", &whole);
    let file = File::options().write(true).open(world.path("ram")).unwrap();
    // The last bytes of the part of the second hart.
    let part = whole.layout().part_pages(Layout::hart(1));
    let at = part.start as u64 * 4096 + 599;
    file.write_all_at(&[0], PLACE + at).unwrap();
    drop(file);
    let shown = world.run(&["cut", "show", "ram"]);
    assert_eq!(shown.code, Some(1), "{shown:#?}");
    assert!(
        shown.out.contains("damaged: the record is damaged"),
        "{shown:#?}"
    );
    assert_eq!(world.run(&["cut", "discard", "ram"]).code, Some(0));
    assert_eq!(world.run(&["cut", "show", "ram"]).code, Some(0));

    memory(&world, "none", &record(0));
    let none = world.run(&["cut", "show", "none"]);
    assert_eq!((none.code, none.out.as_str()), (Some(0), "none: no cut\n"));
    assert_eq!(world.run(&["cut", "show", "none", "--json"]).out, "[]\n");
}

#[test]
fn memory_that_cannot_be_looked_at() {
    let world = World::empty();
    memory(&world, "ram", &record(1));
    let before = fs::read(world.path("ram")).unwrap();
    for action in ["show", "discard"] {
        world
            .run(&["cut", action, "absent"])
            .refuses(1, &["memory file absent", "No such file"]);
        world
            .run(&["cut", action, "."])
            .refuses(1, &["is not a plain file"]);
        let machine = File::open(world.path("ram")).unwrap();
        flock(&machine, FlockOperation::LockExclusive).unwrap();
        let process = format!("process {}", std::process::id());
        world
            .run(&["cut", action, "ram"])
            .refuses(1, &["memory file ram is in use by", &process]);
    }
    assert!(fs::read(world.path("ram")).unwrap() == before);
}

#[test]
fn a_machine_is_planned() {
    let world = World::empty();
    let plan = |more: &str| {
        let words = format!("cut plan --cores 4 --cache 256K {more}");
        world.run(&words.split_whitespace().collect::<Vec<_>>())
    };
    let armed = plan("--psu atx --functions 2");
    assert_eq!(armed.code, Some(0), "{armed:#?}");
    for words in [
        "4096 dirty lines, by 8192 reads",
        "16000 us, the ATX specification's",
        "\narmed hold_up_us=16000 stop_us=",
        "with 2 PCI functions in use a power failure is cut",
    ] {
        assert!(armed.out.contains(words), "{words}: {}", armed.out);
    }
    let short = plan("--psu 500us --json");
    let json: serde_json::Value = serde_json::from_str(&short.out).unwrap();
    let stop = json["stop_us"].as_u64().unwrap();
    assert_eq!((short.code, &json["is_armed"]), (Some(1), &false.into()));
    let told = format!("not armed: stop takes {stop} us, the power lasts 500 us");
    assert_eq!(json["status"], told);
    let drawn = plan("--psu server --plot plan.svg");
    assert_eq!(drawn.code, Some(0), "{drawn:#?}");
    let plot = fs::read_to_string(world.path("plan.svg")).unwrap();
    for words in ["256.00 KiB", "atx: 16 ms", "server: 55 ms"] {
        assert!(plot.contains(words), "{words}");
    }
}

#[test]
fn what_cannot_be_planned_is_refused() {
    let world = World::empty();
    for (words, code, error) in [
        ("--cores 0 --cache 1M --psu atx", 2, "1..=512"),
        ("--cores 1 --cache 1X --psu atx", 2, "is not a size"),
        (
            "--cores 1 --cache 1M --psu apc",
            2,
            "atx, server, or a hold-up",
        ),
        ("--cores 1 --cache 1M --psu 0ms", 2, "is no power supply"),
        ("--cores 1 --cache 1M --psu atx --functions 17", 2, "0..=16"),
        (
            "--cores 1 --cache 1G --psu atx",
            1,
            "at most 268435456 (256M)",
        ),
        (
            "--cores 1 --cache 1M --shared 2M --psu atx",
            1,
            "lower --shared",
        ),
        (
            "--cores 1 --cache 16K --psu atx --plot no/plot.svg",
            1,
            "cannot write no/plot.svg",
        ),
    ] {
        let all = format!("cut plan {words}");
        let outcome = world.run(&all.split_whitespace().collect::<Vec<_>>());
        outcome.refuses(code, &[error]);
    }
}
