//! `poorwill trace` and `poorwill memory`. QEMU is a script, which gives a trace of the test's.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use common::{LIMIT, Outcome, World, names};
use poorwill_bench::traces::PROGRAMS;
use poorwill_trace::{Counted, HartCounts, Kind, Record, Setting, TraceFile};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// Finds the name that the plugin is to give the trace, and keeps its arguments.
const ASKED: &str = "for word; do case $word in *,trace=*) asked=$word;; esac; done
    here=$(dirname \"$0\"); echo \"$asked\" >\"$here/asked\"
    to=${asked#*,trace=}; to=${to%%,*}";

/// A world with the guest for traces, whose initramfs has this digest.
fn world(guest: &str) -> World {
    let world = World::with_qemu(&format!("{ASKED}; exit 78"));
    fs::write(world.path("cache/guest/workloads.img"), "contents").unwrap();
    set_guest(&world, guest, "openssl");
    world
}

fn set_guest(world: &World, digest: &str, package: &str) {
    let manifest = json!({
        "kernel": "6.12", "pinned": true, "packages": {}, "workloads": { package: "3.5" },
        "sha256": { "Image": "00".repeat(32), "workloads.img": digest.repeat(32) },
    });
    fs::write(
        world.path("cache/guest/manifest.json"),
        manifest.to_string(),
    )
    .unwrap();
}

/// The plugin's arguments of a recording.
fn asked(world: &World, program: &str) -> BTreeMap<String, String> {
    world.set_qemu(&format!("{ASKED}; exit 78"));
    world
        .run(&["trace", "record", program])
        .refuses(1, &["no trace of"]);
    let asked = fs::read_to_string(world.path("asked")).unwrap();
    let pairs = asked
        .trim()
        .split(',')
        .filter_map(|word| word.split_once('='));
    pairs
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

/// Writes a trace of the program, as the plugin does, to `made`.
fn make(world: &World, program: &str) -> Vec<u8> {
    let asked = asked(world, program);
    let setting = Setting {
        harts: 1,
        cache: 16384,
        ways: 4,
        skipped: 5,
        window: 900,
        memory: 512 << 20,
        guest: asked["trace-guest"].parse().unwrap(),
        program: asked["trace-program"].parse().unwrap(),
    };
    let mut file = TraceFile::create(&world.path("made"), setting).unwrap();
    for number in 0..90 {
        let record = Record {
            hart: 0,
            kind: [Kind::Load, Kind::Load, Kind::WriteBack][number as usize % 3],
            line: number * 1000,
            instructions: 10,
        };
        file.push(&record).unwrap();
    }
    let counts = HartCounts {
        instructions: 905,
        loads: 300,
        ..HartCounts::default()
    };
    file.finish(
        Counted {
            pages: 3,
            harts: vec![counts],
        },
        true,
    )
    .unwrap();
    fs::read(world.path("made")).unwrap()
}

/// Records a program with a QEMU that gives the trace.
fn record(world: &World, program: &str) -> Outcome {
    make(world, program);
    world.set_qemu(&format!("{ASKED}; cp \"$here/made\" \"$to\"; exit 76"));
    world.run(&["trace", "record", program])
}

/// The traces, after a check that no file of a recording is left.
fn kept(world: &World) -> Vec<String> {
    let left = names(&world.path("cache"));
    assert!(
        left.iter().all(|name| !name.starts_with("trace-")),
        "{left:?}"
    );
    names(&world.path("cache/traces"))
}

#[test]
fn unknown_names_are_told_with_the_known_ones() {
    let world = world("11");
    let known: Vec<_> = PROGRAMS.iter().map(|program| program.name).collect();
    let known = known.join(", ");
    let run = |arguments: &[&str]| world.run(arguments);
    run(&["trace", "record", "sha512", "md5"]).refuses(1, &["no program `md5`", &known]);
    for command in [["trace", "show", "md5"].as_slice(), &["memory", "md5"]] {
        run(command).refuses(1, &["`md5` is neither a file nor a trace", &known]);
    }
    run(&["memory", "sha512"])
        .refuses(1, &["no trace of sha512", "`poorwill trace record sha512`"]);
    run(&["trace", "show", "sha512-8"]).refuses(1, &["record sha512 --harts 8"]);
    run(&["memory", "sha512", "--machine", "pram"])
        .refuses(1, &["no machine `pram`", "dram, lightpc, lightpc-b-group"]);
    run(&["memory", "sha512", "--set", "wirte=1"])
        .refuses(1, &["no parameter `wirte`", "read, write, link"]);
    run(&["memory", "sha512", "--set", "write=x"]).refuses(1, &["must be 0.1 to 100"]);
    run(&["trace", "record"]).refuses(2, &["<PROGRAM>"]);
    run(&["trace", "record", "sha512", "--harts", "0"]).refuses(2, &["--harts"]);
    run(&["trace", "record", "sha512", "--instructions", "0"]).refuses(2, &["--instructions"]);
    assert_eq!(kept(&world), [""; 0]);
    let list = run(&["trace", "list"]);
    assert_eq!(list.code, Some(0), "{list:#?}");
    assert!(
        PROGRAMS
            .iter()
            .all(|program| list.out.contains(program.name))
    );
}

/// A bank that is busy for 100 ns, half of them after its answer, waits like M/D/1.
#[test]
fn random_requests_need_no_trace() {
    let world = world("11");
    let rates = ["memory", "--rates", "0.01,5", "--requests", "200000"];
    let run = |more: &[&str]| world.run(&[&rates[..], more].concat());
    let sets = ["dimms=1", "banks=1", "dram=50", "recovery=50", "link=3"];
    let sets = sets.iter().flat_map(|set| ["--set", set]);
    let arguments: Vec<_> = ["--json", "--machine", "dram"]
        .into_iter()
        .chain(sets)
        .collect();
    let outcome = run(&arguments);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    let rows: Value = serde_json::from_str(&outcome.out).unwrap();
    let times = [0, 1].map(|at| rows[at]["mean_read_ns"].as_f64().unwrap());
    assert!((times[0] - 53.0).abs() < 0.5, "{times:?}");
    assert!((times[1] - 103.0).abs() < 3.0, "{times:?}");
    let text = run(&["--writes", "100"]);
    assert!(
        text.out.contains("lightpc: mean read, ns") && text.out.contains("no read"),
        "{text:#?}"
    );
    run(&["sha512"]).refuses(2, &["cannot be used with"]);
    run(&["--writes", "101"]).refuses(2, &["101"]);
    run(&["--set", "refresh-every=1"]).refuses(1, &["must be 1000.001 to 1000000"]);
    world
        .run(&["memory", "--rates", "0"])
        .refuses(2, &["0.001 to 10000"]);
    world
        .run(&["memory", "--writes", "1", "sha512"])
        .refuses(2, &["cannot be used with"]);
    world
        .run(&["memory", "--writes", "1"])
        .refuses(2, &["--rates"]);
    world
        .run(&["memory", "--requests", "1", "sha512"])
        .refuses(2, &["--rates"]);
}

#[test]
fn a_recorded_trace_is_listed_shown_and_run() {
    let world = world("11");
    let recorded = record(&world, "sha512");
    assert_eq!(recorded.code, Some(0), "{recorded:#?}");
    assert!(
        recorded
            .out
            .contains("sha512: 1 hart, 905 instructions, 90 records")
    );
    assert_eq!(kept(&world), ["sha512.trace"]);
    let read = |arguments: &[&str]| -> Value {
        let outcome = world.run(arguments);
        assert_eq!(outcome.code, Some(0), "{outcome:#?}");
        serde_json::from_str(&outcome.out).unwrap()
    };
    let list = read(&["trace", "list", "--json"]);
    assert_eq!(list["traces"][0]["name"], "sha512");
    let shown = read(&["trace", "show", "sha512", "--json"]);
    assert_eq!(shown["kinds"]["load_misses"], 60);
    assert_eq!(shown["kinds"]["write_backs"], 30);
    assert_eq!(shown["harts"][0]["loads"], 300);
    let result = &read(&["memory", "sha512", "--json"])[0];
    assert_eq!(
        result["parameters"]["memory"], "512",
        "the traced machine's"
    );
    let [dram, light] = [0, 1].map(|at| result["machines"][at].clone());
    assert_eq!([&dram["machine"], &light["machine"]], ["dram", "lightpc"]);
    assert_eq!(
        (&light["reads"], &light["writes"]),
        (&60.into(), &30.into())
    );
    assert_eq!(dram["over_dram"], 1.0);
    assert!(light["cycles"].as_u64() > dram["cycles"].as_u64());
    // Each parameter counts, and the file is as good as its name.
    let file = world.path("cache/traces/sha512.trace");
    let file = file.to_str().unwrap();
    let slow = &read(&[
        "memory",
        file,
        "--json",
        "--set",
        "read=50",
        "--set",
        "memory=64",
    ])[0];
    assert_eq!(slow["parameters"]["memory"], "64");
    assert!(slow["machines"][1]["cycles"].as_u64() > light["cycles"].as_u64());
    let text = world.run(&["memory", "sha512", "--machine", "dram"]);
    assert!(
        text.out.contains("| dram") && !text.out.contains("lightpc"),
        "{text:#?}"
    );
}

#[test]
fn all_machines_run_all_traces_in_one_plot() {
    let world = world("11");
    for name in ["sha512", "aes"] {
        assert_eq!(record(&world, name).code, Some(0));
    }
    let plot = world.path("plot.svg");
    let all = |plot: &str| {
        world.run(&[
            "memory",
            "sha512",
            "aes",
            "--machine",
            "all",
            "--plot",
            plot,
            "--json",
        ])
    };
    let outcome = all(plot.to_str().unwrap());
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    let results: Value = serde_json::from_str(&outcome.out).unwrap();
    let [sha512, aes] = [0, 1].map(|at| &results[at]);
    assert_eq!([&sha512["trace"], &aes["trace"]], ["sha512", "aes"]);
    assert_eq!(aes["machines"].as_array().unwrap().len(), 7);
    let svg = fs::read_to_string(&plot).unwrap();
    assert!(svg.contains("sha512, lightpc-b-dimm") && svg.contains("aes, wide"));
    assert!(!svg.contains("dram"), "DRAM is the measure");
    all("nowhere/plot.svg").refuses(1, &["cannot write nowhere/plot.svg"]);
}

#[test]
fn comparators_are_compared_on_the_named_traces() {
    let world = world("11");
    let folder = world.path("compared");
    let to = folder.to_str().unwrap();
    let compare = |more: &[&str]| world.run(&[&["memory", "--comparators", to][..], more].concat());
    compare(&[]).refuses(1, &["there is no trace", "poorwill trace record all"]);
    compare(&["--sweep", to]).refuses(2, &["--sweep"]);
    world
        .run(&["memory", "sha512", "--results", "x"])
        .refuses(2, &["--comparators"]);
    assert_eq!(record(&world, "sha512").code, Some(0));
    compare(&["sha512", "--results", "nowhere"]).refuses(1, &["cannot read nowhere"]);
    let outcome = compare(&["sha512"]);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    let words = [
        "poorwill bench compare --save",
        "All times are modelled",
        "| LightPC's paper ",
    ];
    assert!(
        words.iter().all(|word| outcome.out.contains(word)),
        "{}",
        outcome.out
    );
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let all: Value = serde_json::from_str(&read("comparators.json")).unwrap();
    let runs = all["runs"].as_array().unwrap();
    assert_eq!((runs.len(), &runs[0]["pages"]), (6, &json!(3)));
    let control = |name: &str| runs[0]["over_lightpc"][name]["control"].as_f64().unwrap();
    // The trace has no return of a program, and three pages.
    assert!(control("SysPC") > control("S-CheckPC") && control("S-CheckPC") > control("A-CheckPC"));
    assert!(read("comparators.md").contains("| sha512 "));
    for name in ["19a", "19b", "19c", "20"] {
        assert!(read(&format!("figure-{name}-1.6-GHz.svg")).contains("modelled"));
    }
}

#[test]
fn a_sweep_writes_its_runs_and_the_papers_figures() {
    let world = world("11");
    let folder = world.path("swept");
    let to = folder.to_str().unwrap();
    let sweep = |more: &[&str]| world.run(&[&["memory", "--sweep", to][..], more].concat());
    sweep(&[]).refuses(1, &["there is no trace", "poorwill trace record all"]);
    for name in ["sha512", "streamadd"] {
        assert_eq!(record(&world, name).code, Some(0));
    }
    sweep(&["md5"]).refuses(1, &["`md5` is neither a file nor a trace"]);
    sweep(&["aes"]).refuses(1, &["no trace of aes", "poorwill trace record aes"]);
    sweep(&["--set", "write=8.8"]).refuses(2, &["--set"]);
    sweep(&["--requests", "0"]).refuses(2, &["--requests"]);
    world
        .run(&["memory", "sha512", "--requests", "9"])
        .refuses(2, &["--sweep"]);
    let outcome = sweep(&["--requests", "60"]);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    assert!(outcome.err.contains("left out: there is no trace of aes"));
    let text = fs::read_to_string(folder.join("sweep.json")).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap();
    let runs = all["runs"].as_array().unwrap();
    let of = |trace: &str, point: &str, machine: &str| {
        let mut found = runs.iter().filter(|run| {
            run["trace"] == trace && run["point"] == point && run["machine"] == machine
        });
        let run = found.next().unwrap_or_else(|| panic!("{trace} {point}"));
        assert!(found.next().is_none() && run["requests"] == 60);
        run["time_ns"].as_u64().unwrap()
    };
    let slow = of("sha512", "clock=0.4 write=8.8", "lightpc-b-queue");
    assert!(slow > of("sha512", "clock=0.4", "lightpc-b-queue"));
    assert!(of("streamadd", "clock=1.8", "dram") < of("streamadd", "clock=0.8", "dram"));
    let rows = fs::read_to_string(folder.join("sweep.md")).unwrap();
    let near = |clock: &str| of("sha512", clock, "dram");
    assert!(near("clock=0.4 link=400") > near("clock=0.4 link=100"));
    for words in [
        "2.9 for reads: within",
        "2.3 to 6.1 for writes: within",
        "| two keys ",
    ] {
        assert!(rows.contains(words), "{words}: {rows}");
    }
    assert!(rows.contains("| clock=1.6 window=128 misses=8 "), "{rows}");
    assert!(outcome.out.contains(&rows), "the terminal shows them, too");
    let figure = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    for number in ["15", "15-b", "16", "18"] {
        let svg = figure(&format!("figure-{number}-1.6-GHz.svg"));
        assert!(svg.contains("sha512") && !svg.contains("stream"), "{svg}");
    }
    assert!(figure("figure-2b.svg").contains("DIMM, write"));
    let svg = figure("figure-17-0.4-GHz.svg");
    assert!(
        svg.contains("streamadd") && !svg.contains("sha512"),
        "{svg}"
    );
    let damaged = world.path("cache/traces/sha512.trace");
    let mut bytes = fs::read(&damaged).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&damaged, bytes).unwrap();
    sweep(&[]).refuses(1, &["its block 1 is damaged", "record it again"]);
}

#[test]
fn all_programs_are_recorded_but_those_without_a_package() {
    let world = world("11");
    make(&world, "sha512");
    world.set_qemu(&format!("{ASKED}; cp \"$here/made\" \"$to\"; exit 76"));
    // The trace is sha512's: the next one, under another name, is refused when it is counted.
    let run = world.run(&["trace", "record", "all"]);
    run.refuses(1, &["is of another command line"]);
    set_guest(&world, "11", "zlib1g");
    let run = world.run(&["trace", "record", "all"]);
    run.refuses(1, &["left out: the guest lacks the program aes", "arcs"]);
}

#[test]
fn another_guests_and_damaged_traces_are_refused_with_a_remedy() {
    let world = world("11");
    assert_eq!(record(&world, "sha512").code, Some(0));
    let file = world.path("cache/traces/sha512.trace");
    let good = fs::read(&file).unwrap();
    let again = "record it again with `poorwill trace record sha512`";
    let refused = |words: &[&str]| {
        for command in [
            ["memory", "sha512"].as_slice(),
            &["trace", "show", "sha512"],
        ] {
            world.run(command).refuses(1, words);
        }
    };
    set_guest(&world, "22", "openssl");
    refused(&["is of another guest", again]);
    set_guest(&world, "11", "openssl");
    // A trace of another program under this name.
    fs::write(&file, make(&world, "aes")).unwrap();
    refused(&["is of another command line", again]);
    fs::write(&file, &good[..good.len() - 1]).unwrap();
    refused(&["ends early, in block 1", again]);
    let mut damaged = good.clone();
    *damaged.last_mut().unwrap() ^= 1;
    fs::write(&file, &damaged).unwrap();
    refused(&["its block 1 is damaged", again]);
    let mut newer = good.clone();
    newer[8] = 9;
    fs::write(&file, &newer).unwrap();
    refused(&["has version 9", "reads version 2", again]);
    let list = world.run(&["trace", "list"]);
    assert!(
        list.code == Some(0) && list.out.contains("version 9"),
        "{list:#?}"
    );
    fs::write(world.path("text"), "no trace").unwrap();
    world
        .run(&["memory", "text"])
        .refuses(1, &["it is no trace", "poorwill trace record"]);
}

#[test]
fn a_recording_that_fails_leaves_the_last_trace() {
    let world = world("11");
    assert_eq!(record(&world, "sha512").code, Some(0));
    let before = fs::read(world.path("cache/traces/sha512.trace")).unwrap();
    let reason = "the trace cannot be written: No space left on device";
    let script = format!("{ASKED}; echo part >\"$to.part\"; echo '{reason}' >&2; exit 78");
    world.set_qemu(&script);
    let run = world.run(&["trace", "record", "sha512"]);
    run.refuses(1, &["no trace of sha512 was recorded", reason]);
    assert_eq!(kept(&world), ["sha512.trace"]);
    assert_eq!(
        fs::read(world.path("cache/traces/sha512.trace")).unwrap(),
        before
    );
    set_guest(&world, "11", "zlib1g");
    let run = world.run(&["trace", "record", "sha512"]);
    run.refuses(
        1,
        &["the guest lacks the program sha512", "package openssl"],
    );
    fs::remove_file(world.path("cache/guest/manifest.json")).unwrap();
    let run = world.run(&["trace", "record", "sha512"]);
    run.refuses(1, &["no manifest", "tools/guest"]);
}

#[test]
fn ctrl_c_keeps_finished_traces_alone() {
    let world = world("11");
    make(&world, "sha512");
    world.set_qemu(&format!(
        "{ASKED}; if [ -e \"$here/first\" ]; then echo part >\"$to.part\"; exec sleep 600; fi
        touch \"$here/first\"; cp \"$here/made\" \"$to\"; exit 76"
    ));
    let mut command = world.poorwill(&["trace", "record", "sha512", "aes"]);
    let mut child = command.spawn().unwrap();
    let until = Instant::now() + LIMIT;
    let is_second = || {
        fs::read_to_string(world.path("asked")).is_ok_and(|asked| {
            world.path("first").exists() && asked.contains(&PROGRAMS[0].digest().to_string())
        })
    };
    while !is_second() {
        assert!(Instant::now() < until, "the second recording begins");
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(kept(&world), ["sha512.trace"]);
}
