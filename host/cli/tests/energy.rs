//! `poorwill energy`, and the published numbers that it must give.

mod common;

use std::fs;

use common::World;
use poorwill::commands::energy::remade_text;
use poorwill::energy::account::Account;
use poorwill::energy::builtin::{self, BUILT_IN};
use poorwill::energy::thesis::{Reading, Remade, remade};
use serde_json::Value;

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/bench.json");

/// The most that a number may be off, beyond what rounding explains.
const LIMIT: f64 = 0.02;

fn find<'r>(rows: &'r [Remade], reading: Reading, what: &str, printed: &str) -> &'r Remade {
    let mut of = rows.iter().filter(|row| row.reading == reading);
    of.find(|row| row.what.starts_with(what) && row.printed.text == printed)
        .unwrap_or_else(|| panic!("no row {what:?} {printed}"))
}

/// Every number of the thesis, with its deviation (`--nocapture` shows them).
#[test]
fn the_thesis_s_numbers_are_remade() {
    let rows = remade().unwrap();
    println!("{}", remade_text(&rows));
    let off: Vec<_> = rows
        .iter()
        .filter(|row| row.reading == Reading::Printed)
        .filter(|row| row.reckoned.beyond_rounding(row.printed) > LIMIT)
        .collect();
    assert!(off.is_empty(), "{off:#?}");
    // None is left out.
    let numbers = [
        ("S3, energy", "234"),
        ("S3, energy", "232"),
        ("S3, energy", "247"),
        ("S3, energy", "228"),
        ("PMem, energy", "6313"),
        ("PMem, energy", "6325"),
        ("PMem, energy", "6339"),
        ("PMem, energy", "6301"),
        ("energy of a sleep over S3's, least", "25.67"),
        ("energy of a sleep over S3's, most", "27.58"),
        ("break-even (min), least", "54"),
        ("break-even (min), most", "60"),
        ("wake latency over S3's, least", "8.71"),
        ("wake latency over S3's, most", "9.11"),
        ("suspend latency over S3's, least", "36.63"),
        ("suspend latency over S3's, most", "36.86"),
        ("storing, of the suspend latency", "97.27"),
        ("memory training, of the wake latency", "46"),
        ("energy of memory training", "1063"),
        ("break-even without memory training (min), least", "44"),
        ("break-even without memory training (min), most", "49"),
        ("break-even at the device's bandwidths (min), least", "39"),
        ("break-even at the device's bandwidths (min), most", "44"),
        ("break-even at 25 % (min), least", "15"),
        ("break-even at 25 % (min), most", "17"),
        ("break-even, all savings (min), least", "31"),
        ("break-even, all savings (min), most", "35"),
        ("break-even, all savings at 25 % (min), least", "12"),
        ("break-even, all savings at 25 % (min), most", "13"),
        ("reading 32 GiB", "5.2"),
        ("writing 32 GiB", "14.94"),
        ("load time over that", "55"),
        ("wake latency, all savings (s)", "7.65"),
        ("the same at 25 % (s)", "3.75"),
        ("wake latency, all savings, over S3's", "3.5"),
        ("the same at 25 %, over S3's", "1.7"),
    ];
    for (what, printed) in numbers {
        find(&rows, Reading::Printed, what, printed);
    }
    let printed = rows.iter().filter(|row| row.reading == Reading::Printed);
    assert_eq!(printed.count(), numbers.len());
}

/// Three estimates do not follow from what the text says of them: known, and
/// held to what does follow.
#[test]
fn what_the_thesis_s_text_says_gives_other_numbers_in_three_places() {
    let rows = remade().unwrap();
    let known = [
        ("break-even at 25 % (min), least", "15", 21.56),
        ("break-even at 25 % (min), most", "17", 23.85),
        ("break-even, all savings (min), least", "31", 29.96),
        ("break-even, all savings (min), most", "35", 33.22),
        ("break-even, all savings at 25 % (min), least", "12", 8.65),
        ("break-even, all savings at 25 % (min), most", "13", 9.49),
    ];
    for (what, printed, minutes) in known {
        let row = find(&rows, Reading::Literal, what, printed);
        assert!((row.reckoned.value - minutes).abs() < 0.005, "{row:#?}");
    }
    let literal = rows.iter().filter(|row| row.reading == Reading::Literal);
    assert_eq!(literal.count(), known.len());
}

/// The D1's own break-even, as given: 1040 µs.
#[test]
fn a_hart_s_suspend_breaks_even_where_it_is_said_to() {
    let profile = builtin::profile("d1-hart").unwrap();
    let account = Account::of("d1-hart", &profile, &[], None);
    let seconds = account.break_evens[0].seconds.unwrap();
    println!("hart suspend: {:.1} µs, given 1040 µs", seconds * 1e6);
    assert!((seconds - 1040e-6).abs() <= 5e-6, "{seconds}");
}

#[test]
fn every_profile_is_listed_and_shown_with_its_sources() {
    let world = World::empty();
    let list = world.run(&["energy", "--list"]);
    assert_eq!(list.code, Some(0), "{list:#?}");
    for (name, _) in BUILT_IN {
        assert!(list.out.contains(name), "{list:#?}");
        let shown = world.run(&["energy", name]);
        assert_eq!(shown.code, Some(0), "{shown:#?}");
        for word in ["Energy is modelled", "Break-even:", "Sources: "] {
            assert!(
                shown.out.contains(word),
                "{name}: no {word:?}: {}",
                shown.out
            );
        }
        let profile = builtin::profile(name).unwrap();
        for (place, figure) in profile.figures() {
            let line = format!("{place} = {}: {}", figure.value, figure.source);
            assert!(shown.out.contains(&line), "{name}: no {line:?}");
        }
        assert!(
            !shown.out.contains("NaN") && !shown.out.contains("inf "),
            "{}",
            shown.out
        );
    }
}

#[test]
fn break_evens_and_their_absence_are_said() {
    let world = World::empty();
    let thesis = world.run(&["energy"]);
    assert!(
        thesis
            .out
            .contains("S3 and PMem: 56.1 min: shorter sleeps cost less in S3"),
        "{thesis:#?}"
    );
    assert!(
        thesis.out.contains("Staged: S3 for 56.1 min, then PMem"),
        "{thesis:#?}"
    );
    let jumpstart = world.run(&["energy", "jumpstart-dx1100"]);
    for words in [
        "S3 and S5: none: S3 costs less at every length",
        "image, G3 (see --measured)",
    ] {
        assert!(jumpstart.out.contains(words), "{jumpstart:#?}");
    }
}

#[test]
fn lengths_are_chosen_and_json_has_them() {
    let world = World::empty();
    let outcome = world.run(&["energy", "thesis-1gib", "--lengths", "10min,2h", "--json"]);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    let account: Value = serde_json::from_str(&outcome.out).unwrap();
    assert_eq!(account["energy"], "modelled");
    let lengths: Vec<f64> = account["sleeps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|sleep| sleep["seconds"].as_f64().unwrap())
        .collect();
    assert_eq!(lengths, [600.0, 7200.0]);
    // 235 J and 2.03 W for 600 s.
    let joules = account["sleeps"][0]["modes"][0]["joules"].as_f64().unwrap();
    assert!((joules - (235.0 + 2.03 * 600.0)).abs() < 1e-6, "{joules}");
    for json in [
        ["energy", "--list", "--json"],
        ["energy", "--remade", "--json"],
    ] {
        let outcome = world.run(&json);
        let list: Value = serde_json::from_str(&outcome.out).unwrap();
        assert!(list.as_array().unwrap().len() >= 7, "{outcome:#?}");
    }
}

#[test]
fn measured_bytes_and_times_take_their_places() {
    let world = World::empty();
    let outcome = world.run(&["energy", "thesis-8gib", "--measured", SAMPLE, "--json"]);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    let account: Value = serde_json::from_str(&outcome.out).unwrap();
    let [with, without] = [0, 1].map(|index| &account["measured"][index]);
    assert_eq!(
        (&with["at_bandwidth"], &with["without_avoidable"]),
        (&true.into(), &false.into())
    );
    // 563,714,457 bytes at 2.3 and 6.6 GB/s, beside what else the machine does.
    let number = |value: &Value| value.as_f64().unwrap();
    let save = 563_714_457.0 / 2.3e9;
    assert!((number(&with["cost"]["enter_seconds"]) - (0.62 + save)).abs() < 1e-6);
    let load = 563_714_457.0 / 6.6e9;
    assert!((number(&without["cost"]["leave_seconds"]) - (2.45 + load)).abs() < 1e-6);
    let power = (4048.0 / 23.04, 2291.0 / 19.62);
    let fixed = power.0 * (0.62 + save) + power.1 * (2.45 + load);
    let break_even = (fixed - 247.0) / (2.12 - 0.31);
    assert!((number(&without["break_even"]["seconds"]) - break_even).abs() < 1e-6);

    let text = world
        .run(&["energy", "jumpstart-dx1100", "--measured", SAMPLE])
        .out;
    assert!(
        text.contains("in the place of image, G3: times as measured in an emulated machine"),
        "{text}"
    );
    let text = world.run(&["energy", "d1-hart", "--measured", SAMPLE]).out;
    assert!(
        text.contains("nothing of it fits a mode of this profile"),
        "{text}"
    );
}

#[test]
fn a_measured_mode_that_always_costs_less_is_said_to() {
    let world = World::empty();
    let jumpstart = BUILT_IN
        .iter()
        .find(|(name, _)| *name == "jumpstart-dx1100");
    let (_, text) = jumpstart.unwrap();
    // A second more to enter S3 takes 22 J: more than an image takes in all.
    assert!(text.contains("0.2188"));
    fs::write(world.path("mine.toml"), text.replace("0.2188", "1.2188")).unwrap();
    let arguments = ["energy", "--profile", "mine.toml", "--measured", SAMPLE];
    let shown = world.run(&arguments);
    assert_eq!(shown.code, Some(0), "{shown:#?}");
    let measured = shown.out.split("Measured, in the place of").nth(1).unwrap();
    assert!(
        measured.contains("none: image, G3 costs less at every length"),
        "{measured}"
    );
}

#[test]
fn a_profile_of_one_s_own_is_read() {
    let world = World::empty();
    fs::write(
        world.path("mine.toml"),
        BUILT_IN[2].1.replace("2.12", "4.24"),
    )
    .unwrap();
    let shown = world.run(&["energy", "--profile", "mine.toml"]);
    assert_eq!(shown.code, Some(0), "{shown:#?}");
    assert!(shown.out.starts_with("mine.toml: "), "{shown:#?}");
    assert!(shown.out.contains("S3 and PMem: 25.8 min"), "{shown:#?}");
}

#[test]
fn what_is_no_profile_is_refused() {
    let world = World::empty();
    world.run(&["energy", "abacus"]).refuses(
        1,
        &["no profile \"abacus\"", "thesis-1gib", "--profile FILE"],
    );
    world
        .run(&["energy", "--profile", "absent.toml"])
        .refuses(1, &["cannot read the profile absent.toml", "No such file"]);
    let text = BUILT_IN[2].1;
    for (from, to, words) in [
        (
            "2.12",
            "-2.12",
            ["mine.toml: S3: kept_watts", "zero or more"],
        ),
        (
            ", source = \"Table 5.8\"",
            "",
            ["mine.toml is no profile", "missing field `source`"],
        ),
        (
            "kind = \"retain\"",
            "kin = \"retain\"",
            ["mine.toml is no profile", "unknown field `kin`"],
        ),
    ] {
        assert!(text.contains(from));
        fs::write(world.path("mine.toml"), text.replace(from, to)).unwrap();
        world
            .run(&["energy", "--profile", "mine.toml"])
            .refuses(1, &words);
    }
    world
        .run(&["energy", "--measured", "absent.json"])
        .refuses(1, &["cannot read absent.json"]);
    world
        .run(&["energy", "lightpc", "--profile", "mine.toml"])
        .refuses(2, &["cannot be used with"]);
    world
        .run(&["energy", "--lengths", "soon"])
        .refuses(2, &["--lengths"]);
}
