//! The interpreter against the Sail model of the specification: each operation, and random
//! programs, after each instruction or turn.
//!
//! `POORWILL_PROGRAMS` is the number of programs, `POORWILL_SEED` the first one's seed.
#![allow(
    clippy::cast_possible_truncation,
    reason = "fields are cut out intentionally"
)]

mod access;
#[path = "../common/mod.rs"]
mod common;
mod csr;
mod draw;
mod model;
mod run;
mod written;

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use poorwill_isa::FORMS;

use model::End;
use run::Pair;

/// Instructions of each form, and programs, of a run in `make test-host`: some seconds.
const DRAWS: u64 = 100;
const PROGRAMS: u64 = 3000;

/// Instructions of a program, and steps of a run of it.
const INSTRUCTIONS: usize = 50;
const STEPS: u64 = 80;

/// Forms that the interpreter never executes: the hart is given back.
fn is_given_back(mnemonic: &str) -> bool {
    let is_float = mnemonic.starts_with('f') && !mnemonic.starts_with("fence");
    let is_moved = [
        "flw", "fld", "fsw", "fsd", "fmv.x.w", "fmv.w.x", "fmv.x.d", "fmv.d.x",
    ];
    let others = ["cbo.inval", "cbo.clean", "cbo.flush", "mret"];
    is_float && !is_moved.contains(&mnemonic) || others.contains(&mnemonic)
}

/// The value of an environment variable.
fn number_of(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

#[test]
fn each_form_does_what_the_model_does() {
    let mut done = BTreeSet::new();
    let mut ends: BTreeMap<End, u64> = BTreeMap::new();
    for (number, form) in (0..).zip(FORMS) {
        for draw in 0..DRAWS {
            let mut rng = Rng::with_seed(number << 32 | draw);
            let bits = draw::of_form(&mut rng, form);
            let mut case = draw::case(&mut rng, 0, Some(bits));
            // No handler's instruction comes first.
            case.sie = 0;
            let mut pair = Pair::new(case, rng, draw);
            let end = pair.turn(1);
            *ends.entry(end).or_default() += 1;
            // The fetch may fault, too.
            let is_its = end != End::Exception || form.mnemonic == "ebreak";
            if is_its && !matches!(end, End::GivenBack(_)) {
                done.insert(form.mnemonic);
            }
        }
    }
    println!("{} forms, {} executed; {ends:#?}", FORMS.len(), done.len());
    let names = FORMS.iter().map(|form| form.mnemonic);
    assert_eq!(done, names.filter(|name| !is_given_back(name)).collect());
}

#[test]
fn programs_run_as_in_the_model() {
    let first = number_of("POORWILL_SEED").unwrap_or(1);
    let programs = number_of("POORWILL_PROGRAMS").unwrap_or(PROGRAMS);
    let mut ends: BTreeMap<End, u64> = BTreeMap::new();
    for seed in first..first + programs {
        let mut rng = Rng::with_seed(seed);
        let mut pair = Pair::new(draw::case(&mut rng, INSTRUCTIONS, None), rng, seed);
        while pair.steps < STEPS {
            pair.disturb();
            let most = pair.draw_turn();
            *ends.entry(pair.turn(most)).or_default() += 1;
        }
    }
    println!("{programs} programs; {ends:#?}");
    if programs >= PROGRAMS {
        let kinds = ends.keys().filter(|end| !matches!(end, End::GivenBack(_)));
        assert_eq!(kinds.count(), 6, "{ends:#?}");
    }
}
