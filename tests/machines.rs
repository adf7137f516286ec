//! `cargo test -p poorwill-tests --test machines`: every trial of the plan.
//! See `docs/testing.md`.

use std::num::NonZeroU32;
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::Context;
use libtest_mimic::{Arguments, Trial};
use poorwill::interrupt;
use poorwill_tests::{Setup, ask_for_cuts, expand, load_plan, run_trial, soak_wakes};

/// Trials at a time, unless `--test-threads` says otherwise: what two cores carry.
const THREADS: usize = 2;

fn main() -> anyhow::Result<ExitCode> {
    // A thing that is missing lets its trials be ignored, or fail with this.
    let (own, others): (Vec<_>, Vec<_>) = std::env::args().partition(|word| word == "--strict");
    let strict = !own.is_empty() || std::env::var("POORWILL_STRICT").is_ok_and(|set| set == "1");
    let mut arguments = Arguments::from_iter(others);
    arguments.test_threads.get_or_insert(THREADS);
    interrupt::install()?;

    let setup = Setup::find();
    if !arguments.list {
        setup
            .missing()
            .iter()
            .for_each(|what| eprintln!("missing: {what}"));
    }
    let mut planned = expand(&load_plan()?)?;
    ask_for_cuts(
        &mut planned,
        number_in("POORWILL_CUTS")?,
        number_in("POORWILL_SEED")?,
    );
    if let Some(times) = number_in::<NonZeroU32>("POORWILL_WAKES")? {
        soak_wakes(&mut planned, times.get());
    }
    let mut trials = Vec::new();
    for trial in planned {
        let absent = setup.missing_for(&trial).is_some();
        let is_gone = setup.is_gone(&trial);
        if is_gone && !arguments.list {
            eprintln!("passed over: {}: no kernel of the backports", trial.name);
        }
        let is_long = trial.is_long;
        let (setup, name) = (setup.clone(), trial.name.clone());
        let test = Trial::test(name, move || match setup.missing_for(&trial) {
            Some(what) => Err(what.into()),
            None => run_trial(&trial, &setup).map_err(|error| format!("{error:#}").into()),
        });
        trials.push(test.with_ignored_flag(is_long || is_gone || absent && !strict));
    }
    // Long ones first, so that the last to end is a short one: the plan is so ordered.
    Ok(libtest_mimic::run(&arguments, trials).exit_code())
}

/// The number in a variable of the environment; unset and empty are none.
fn number_in<T: FromStr>(name: &str) -> anyhow::Result<Option<T>>
where
    T::Err: std::error::Error + Send + Sync + 'static,
{
    match std::env::var(name) {
        Ok(text) if !text.is_empty() => {
            let number = text.parse();
            Ok(Some(number.with_context(|| format!("{name}={text}"))?))
        }
        _ => Ok(None),
    }
}
