//! `poorwill energy`.

mod common;

use std::fs;

use common::World;
use poorwill_bench::energy::builtin::{self, BUILT_IN};
use serde_json::Value;

const SAMPLE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../bench/tests/data/bench.json"
);

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
        text.contains("in place of image, G3: times as measured in an emulated machine"),
        "{text}"
    );
    let text = world.run(&["energy", "d1-hart", "--measured", SAMPLE]).out;
    assert!(
        text.contains("no sleep matches a mode of this profile"),
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
    let measured = shown.out.split("Measured, in place of").nth(1).unwrap();
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
            ["mine.toml is not a valid profile", "missing field `source`"],
        ),
        (
            "kind = \"retain\"",
            "kin = \"retain\"",
            ["mine.toml is not a valid profile", "unknown field `kin`"],
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

const DAY: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../bench/src/energy/smartwatch.toml"
);

#[test]
fn a_day_has_its_saving_and_its_break_even() {
    let world = World::empty();
    let day = world.run(&["energy", "--day", DAY, "--ratio", "2", "--plot", "day.svg"]);
    assert_eq!(day.code, Some(0), "{day:#?}");
    for words in [
        "72 wakes.",
        "at X = 2 (--ratio)",
        "saves 74.0 % of suspend and resume, and 31.8 % of the day",
        "Break-even: X = 7.98.",
        "weak.busy_watts = 0.0211: slide 23: Cortex-M3",
    ] {
        assert!(day.out.contains(words), "no {words:?}: {}", day.out);
    }
    let svg = fs::read_to_string(world.path("day.svg")).unwrap();
    assert!(svg.contains("<svg"), "{svg}");
    let json = world.run(&["energy", "--day", DAY, "--ratio", "2", "--json"]);
    let json: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["energy"], "modelled");
    let saved = json["weak"]["saved"].as_f64().unwrap();
    assert!((0.317..0.319).contains(&saved), "{json:#}");
    assert_eq!(json["by_ratio"].as_array().unwrap().len(), 5);
    let unknown = world.run(&["energy", "--day", DAY]);
    assert!(unknown.out.contains("X is not known"), "{unknown:#?}");
}

#[test]
fn a_wrong_day_is_refused_with_its_place() {
    let world = World::empty();
    let text = fs::read_to_string(DAY).unwrap();
    let wrong = text.replace("[halves]", "[halves]\nlength = 1");
    fs::write(world.path("day.toml"), wrong).unwrap();
    let run = |more: &[&str]| world.run(&[&["energy", "--day", "day.toml"], more].concat());
    run(&[]).refuses(1, &["day.toml", "line 21", "`length`", "`spinning`"]);
    fs::write(world.path("day.toml"), text).unwrap();
    run(&["--measured", SAMPLE]).refuses(1, &["bench.json", "poorwill bench executor"]);
    run(&["--ratio", "0"]).refuses(2, &["--ratio", "above zero"]);
    run(&["--ratio", "2", "--measured", SAMPLE]).refuses(2, &["--measured"]);
    run(&["--lengths", "1h"]).refuses(2, &["--day"]);
    world
        .run(&["energy", "--ratio", "2"])
        .refuses(2, &["--day"]);
    world
        .run(&["energy", "--day", "nowhere"])
        .refuses(1, &["nowhere"]);
}
