//! Each kind of check in the plan must be in some trial of `make test`, and not only in trials of
//! `make test-long`.

use std::collections::BTreeSet;

use crate::expand::{Trial, expand};
use crate::load_plan;
use crate::plan::{Event, Plan, PowerOn, Step};

/// The kinds of check in a trial. Settings that matter together form one kind: a fault on another
/// kind of disk is another kind, and so is a fault with sealed images.
fn kinds(trial: &Trial) -> BTreeSet<String> {
    let row = &trial.row;
    let disk = trial.disks.last().map(|disk| disk.attached);
    let medium = format!("of {disk:?}, vault {}", row.vault);
    let board = trial.name.split('/').nth(1).unwrap_or_default();
    let mut kinds = BTreeSet::from([
        format!("machine {board}"),
        format!("{:?} with {} harts", row.guest, trial.harts),
        format!("{:?} with the {:?} kernel", row.guest, row.kernel),
        format!("junk initrd {}, {medium}", row.junk_initrd),
        format!("poison {}", row.poison_free),
        format!("handed back {}", row.hand_back),
        format!("blocks checked {}", row.check_blocks),
        format!("ratio {:?}", row.saved_ratio),
        format!("reset ends {}", row.exit_on_reset),
        format!("U-Boot of the lock {}", row.locked_u_boot),
        format!("{:?} by a loader {}", row.guest, row.loader),
        format!("{:?} by EDK2 {}", row.guest, row.edk2),
        format!(
            "memory lasts {}, {:?}",
            row.lasting_memory, trial.interrupts
        ),
    ]);
    for disk in &trial.disks {
        // Their lengths do not matter.
        let (areas, beside) = (disk.areas.len(), disk.beside.is_some());
        kinds.insert(format!("disk attached {:?}", disk.attached));
        kinds.insert(format!("disk of root {}, boot {}", disk.root, disk.boot));
        kinds.insert(format!("disk with {areas} areas, and more {beside}"));
    }
    kinds.extend(words(&row.words));
    // A role's time is an amount.
    let domains = (row.domains.iter()).map(|domain| format!("domain {domain:?}"));
    kinds.extend(domains.map(|kind| kind.replace(|c: char| c.is_ascii_digit(), "")));
    kinds.insert(format!(
        "bus {:?}, tree {}, page {}",
        row.bus, row.tree, row.page
    ));
    let steps = trial.steps.iter();
    kinds.extend(steps.flat_map(|step| of_step(trial, step, &medium)));
    kinds
}

/// The kinds of check in a step.
fn of_step(trial: &Trial, step: &Step, medium: &str) -> BTreeSet<String> {
    BTreeSet::from([match step {
        Step::PowerOn(on) => return of_power_on(trial, on, medium),
        Step::Cuts { .. } => format!("cuts {medium}, {:?}", trial.interrupts),
        Step::Configure { configure } => {
            // The mode, and the names of the other settings. Their values do not matter.
            let set = format!("configure {configure:?}");
            set.replace(|c: char| c.is_ascii_digit(), "")
        }
        Step::Damage { damage } => format!("damage {damage:?} {medium}"),
        Step::Tamper { tamper } => format!("tamper {tamper:?} {medium}"),
        Step::Memory { memory } => format!("memory {memory:?}, {medium}"),
        Step::Set { set } => format!("set {set:?} {medium}"),
        Step::Snapshot { snapshot } => format!("snapshot {snapshot:?} {medium}"),
    }])
}

fn of_power_on(trial: &Trial, on: &PowerOn, medium: &str) -> BTreeSet<String> {
    let guest = trial.row.guest_of(on);
    let (end, interrupts) = (on.power_on, trial.interrupts);
    let mut kinds = BTreeSet::from([
        // Each two of them together are a kind; all three would be more trials than fit.
        format!("{end:?} of {guest:?}"),
        format!("{end:?} on {interrupts:?}"),
        format!("{guest:?} on {interrupts:?}"),
        format!("{end:?} {medium}"),
        format!("wakes otherwise {}, any start {}", on.wake, on.any_start),
        format!("cut while it runs {}", on.cut_within_ms.is_some()),
        format!("soaks {} on {interrupts:?}", on.soaks.is_some()),
        format!("writes nothing {}", on.writes_nothing),
    ]);
    kinds.extend(words(trial.row.words_of(on)));
    kinds.extend(words(on.instead.as_deref().unwrap_or_default()));
    let texts = on.expect.iter().chain(&on.forbid).chain(&on.differ);
    let texts = texts
        .chain(&on.repeats)
        .chain(&on.cold_boot)
        .chain(&on.grows);
    let texts = texts.chain(&on.lines).chain(&on.refused);
    kinds.extend(texts.map(|text| format!("text {text}")));
    kinds.extend(on.faults.iter().map(|fault| {
        let (operation, place, every) = (fault.on, fault.at, fault.nth.is_none());
        let part = fault.part;
        format!("fault {operation:?} at {place:?} of part {part}, every {every}, {medium}")
    }));
    let (memory, harts) = (&on.memory, on.harts);
    kinds.insert(format!("changed {memory:?} {harts:?} {:?}", on.disks));
    kinds.extend(on.arguments.iter().map(|word| format!("argument {word}")));
    kinds.extend(on.typed.iter().map(|typed| format!("typed {}", typed.line)));
    kinds.extend(on.events.iter().map(|event| {
        // Their number is an amount.
        let rounds = event.rounds.min(1);
        format!(
            "event {:?}",
            Event {
                rounds,
                ..event.clone()
            }
        )
    }));
    kinds.insert(format!("tree {}", on.tree));
    kinds.insert(format!("silent {}", on.silent_after.is_some()));
    kinds.insert(format!(
        "frames {:?} in a fair time base {}",
        on.frames, trial.row.fair
    ));
    kinds.insert(format!(
        "start {:?}, writes {:?}",
        on.start_ratio, on.writes
    ));
    kinds.insert(format!(
        "OpenSBI {:?}, poison {}",
        on.opensbi, trial.row.poison_free
    ));
    kinds
}

/// The words of a command line. Numbers are left out, as another amount is not another kind.
fn words(line: &str) -> impl Iterator<Item = String> {
    line.split_whitespace()
        .map(|word| match word.split_once('=') {
            Some((name, value)) if value.parse::<u64>().is_ok() => format!("word {name}"),
            _ => format!("word {word}"),
        })
}

/// Kinds that no trial of `make test` has, each with a trial that has it.
fn lost(plan: &Plan) -> Vec<String> {
    let trials = expand(plan).unwrap();
    let often = trials.iter().filter(|trial| !trial.is_long);
    let often: BTreeSet<_> = often.flat_map(kinds).collect();
    let missed = |trial: &Trial| {
        let name = trial.name.clone();
        let missed: Vec<_> = kinds(trial).difference(&often).cloned().collect();
        (missed.into_iter()).map(move |kind| format!("{name}: {kind}"))
    };
    trials.iter().flat_map(missed).collect()
}

#[test]
fn what_is_run_often_has_every_kind() {
    let lost = lost(&load_plan().unwrap());
    assert!(
        lost.is_empty(),
        "`make test` has lost:\n{}",
        lost.join("\n")
    );
}

#[test]
fn a_lost_kind_is_found() {
    let text = |faults: &str| {
        let row = "machines = ['m']\nharts = [1]\nmemory = ['1G']\nguest = 'kernel'\n\
                   disks = ['d']\n";
        let step = |fault| format!("steps = [{{ power_on = 'success', faults = [{fault}] }}]");
        format!(
            "[machines.m]\naia = true\n[disks.d]\n\
             [[rows]]\nname = 'short'\n{row}{}\n\
             [[rows]]\nname = 'long'\noften = []\n{row}{}\n",
            step("{ on = 'write', nth = 3 }"),
            step(faults)
        )
    };
    let of = |faults| lost(&toml::from_str(&text(faults)).unwrap());
    assert_eq!(of("{ on = 'write', nth = 9 }"), [""; 0]);
    for other in ["{ on = 'write' }", "{ on = 'read', nth = 3 }"] {
        let found = of(other);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("long/m/1/1G: fault "), "{found:?}");
    }
}
