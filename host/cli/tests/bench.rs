//! `poorwill bench` where a part cannot be measured.

mod common;

use common::World;

#[test]
fn a_part_that_cannot_be_had_says_why_and_the_next_is_measured() {
    let world = World::with_qemu("echo 'the machine is broken' >&2; exit 3");
    let parts = ["compare", "snapshot", "cut", "executor"];
    let outcome = world.run(&[
        "bench",
        parts[0],
        parts[1],
        parts[2],
        parts[3],
        "--quick",
        "--save",
        "bench.json",
    ]);
    assert_eq!(outcome.code, Some(1), "{outcome:#?}");
    for part in parts {
        let words = format!("{part}: not measured: ");
        assert!(outcome.out.contains(&words), "{outcome:#?}");
    }
    let saved = std::fs::read(world.path("bench.json.partial")).unwrap();
    let saved: serde_json::Value = serde_json::from_slice(&saved).unwrap();
    for (part, not_had) in parts.iter().zip(saved["not_had"].as_array().unwrap()) {
        assert_eq!(not_had["what"], *part);
        assert!(!not_had["why"].as_str().unwrap().is_empty(), "{saved:#}");
    }
}

#[test]
fn a_wrong_parameter_is_named_before_a_machine_starts() {
    let world = World::with_qemu("exit 3");
    let wrong = world.run(&["bench", "cut", "--set", "wirte=8"]);
    wrong.refuses(1, &["`wirte`", "write"]);
    let wrong = world.run(&["bench", "cut", "--access", "-1"]);
    assert_eq!(wrong.code, Some(2), "{wrong:#?}");
}
