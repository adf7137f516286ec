//! `cargo test -p poorwill-tests --test machines`: runs each trial of the plan. See
//! `docs/testing.md`.

use std::num::NonZeroU32;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use libtest_mimic::{Arguments, Trial};
use poorwill_machine::interrupt;
use poorwill_tests::{
    Cores, Host, Ledger, Prepared, Setup, Trial as Planned, ask_for_cuts, expand, load_plan,
    run_trial, soak_wakes,
};

/// Cores for trials' machines, unless `--test-threads` gives another number.
const CORES: usize = 2;

/// Trials that run at once for each core: while one machine pauses or waits, another works.
const TRIALS_PER_CORE: usize = 2;

/// The most CPU time of QEMU for all trials of `make test`.
const LIMIT: Duration = Duration::from_secs(40 * 60);

fn main() -> anyhow::Result<ExitCode> {
    // If a file or a program is missing, the trials that need it are ignored. With `--strict` they
    // fail.
    let (own, others): (Vec<_>, Vec<_>) = std::env::args().partition(|word| word == "--strict");
    let strict = !own.is_empty() || std::env::var("POORWILL_STRICT").is_ok_and(|set| set == "1");
    let mut arguments = Arguments::from_iter(others);
    let cores = arguments.test_threads.unwrap_or(CORES);
    arguments
        .test_threads
        .get_or_insert(CORES * TRIALS_PER_CORE);
    interrupt::install()?;

    let setup = Setup::find();
    if !arguments.list {
        setup
            .missing()
            .iter()
            .for_each(|what| eprintln!("missing: {what}"));
    }
    let mut planned = expand(&load_plan()?)?;
    let runs =
        |trial: &&mut Planned| !arguments.is_filtered_out(&Trial::test(&trial.name, || Ok(())));
    ask_for_cuts(
        planned.iter_mut().filter(runs),
        number_in("POORWILL_CUTS")?,
        number_in("POORWILL_SEED")?,
    );
    if let Some(times) = number_in::<NonZeroU32>("POORWILL_WAKES")? {
        soak_wakes(&mut planned, times.get());
    }
    let trials = trials(planned, &setup, &arguments, strict, cores);
    // The plan's order puts long trials first, so that the last one to end is short.
    Ok(libtest_mimic::run(&arguments, trials).exit_code())
}

/// Converts the plan's trials for the test runner. Those that will run are entered in a ledger, and
/// the last of them prints it.
fn trials(
    planned: Vec<Planned>,
    setup: &Setup,
    arguments: &Arguments,
    strict: bool,
    cores: usize,
) -> Vec<Trial> {
    let tests = planned.into_iter().map(|trial| {
        let absent = setup.missing_for(&trial).is_some();
        let is_gone = setup.is_gone(&trial);
        if is_gone && !arguments.list {
            eprintln!("skipped: {}: the backports kernel is missing", trial.name);
        }
        (trial.is_long || is_gone || absent && !strict, trial)
    });
    let tests: Vec<_> = tests.collect();
    let runs = |(is_ignored, trial): &&(bool, Planned)| {
        let like = Trial::test(&trial.name, || Ok(())).with_ignored_flag(*is_ignored);
        !arguments.is_filtered_out(&like) && !arguments.is_ignored(&like)
    };
    let count = tests.iter().filter(runs).count();
    let ledger = Ledger::open(count, is_all_of_make_test(arguments).then_some(LIMIT));
    let cores = Arc::new(Cores::new(cores));
    let prepared = Arc::<Prepared>::default();
    let test = |(is_ignored, trial): (bool, Planned)| {
        let (setup, name) = (setup.clone(), trial.name.clone());
        let (ledger, cores) = (Arc::clone(&ledger), Arc::clone(&cores));
        let prepared = Arc::clone(&prepared);
        let test = Trial::test(name, move || {
            let host = Host::new(&cores, trial.row.waits);
            let _entry = ledger.begin(&trial.name, &host);
            match setup.missing_for(&trial) {
                Some(what) => Err(what.into()),
                None => run_trial(&trial, &setup, &host, &prepared)
                    .map(drop)
                    .map_err(|error| format!("{error:#}").into()),
            }
        });
        test.with_ignored_flag(is_ignored)
    };
    tests.into_iter().map(test).collect()
}

/// Whether the arguments ask for exactly the trials of `make test`.
fn is_all_of_make_test(arguments: &Arguments) -> bool {
    let is_given = |name| std::env::var_os(name).is_some_and(|text| !text.is_empty());
    arguments.filter.is_none()
        && arguments.skip.is_empty()
        && !arguments.ignored
        && !arguments.include_ignored
        && !is_given("POORWILL_CUTS")
        && !is_given("POORWILL_WAKES")
}

/// The number in an environment variable; `None`: it is unset or empty.
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
