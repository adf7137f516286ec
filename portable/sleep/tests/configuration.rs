//! The configuration of a sleep area: kept through power cuts and failures,
//! and apart from the images.

mod common;

use common::{Boot, Machine, START, area, disk};
use poorwill_medium::MediumError;
use poorwill_medium::fake::{Command, Effect, FakeMedium, Fault};
use poorwill_memory::{Page, to_usize};
use poorwill_store::{
    Configuration, ConfigurationError, Delay, DelayError, LONGEST_DELAY_MS, Name, NoImage,
    SleepMode, SnapshotRules, StoreError,
};

const RULES: SnapshotRules = SnapshotRules {
    tries: 7,
    trial_ms: 8,
    key_ms: 9,
};

const OLD: Configuration = Configuration {
    next_snapshot: None,
    accepts_unguarded: false,
    snapshots: RULES,
    mode: Some(SleepMode::Staged),
    stage_delay_ms: 90_000,
    break_even_ms: 0,
};

const NEW: Configuration = Configuration {
    next_snapshot: Some(Name::NONE),
    accepts_unguarded: true,
    snapshots: RULES,
    mode: Some(SleepMode::Auto),
    stage_delay_ms: 7_200_000,
    break_even_ms: 3_300_000,
};

fn configure(disk: &mut FakeMedium, configuration: &Configuration) -> Result<(), StoreError> {
    let mut scratch = Page::ZERO;
    area(disk, &mut scratch)?.configure(configuration)
}

fn configuration(disk: &mut FakeMedium) -> Result<Configuration, ConfigurationError> {
    let mut scratch = Page::ZERO;
    area(disk, &mut scratch).unwrap().configuration()
}

/// A disk that is configured as [`OLD`], with a fault in the next command but
/// the two that open the area.
fn disk_with_fault(nth: u64, effect: Effect) -> FakeMedium {
    let mut disk = disk();
    configure(&mut disk, &OLD).unwrap();
    disk.restart();
    disk.inject(Fault::nth(2 + nth, effect));
    disk
}

#[test]
fn a_new_area_has_the_default() {
    let mut disk = disk();
    assert_eq!(configuration(&mut disk), Ok(Configuration::default()));
}

#[test]
fn it_is_kept_when_the_power_goes() {
    let mut disk = disk();
    for wanted in [OLD, NEW, Configuration::default()] {
        configure(&mut disk, &wanted).unwrap();
        disk.restart();
        assert_eq!(configuration(&mut disk), Ok(wanted));
    }
}

#[test]
fn a_delay_out_of_range_is_refused_before_anything_is_written() {
    let mut disk = disk();
    configure(&mut disk, &OLD).unwrap();
    disk.restart();
    let ms = LONGEST_DELAY_MS + 1;
    let delay = Delay::BreakEven;
    let wrong = Configuration {
        break_even_ms: ms,
        ..NEW
    };
    let error = StoreError::Delay(DelayError { delay, ms });
    assert_eq!(configure(&mut disk, &wrong), Err(error));
    assert!(!disk.log().contains(&Command::Write));
    assert_eq!(configuration(&mut disk), Ok(OLD));
}

#[test]
fn whatever_was_there_is_replaced() {
    let mut disk = disk();
    disk.edit(|bytes| bytes[to_usize(START)..][..4096].fill(0xa5));
    let error = Err(ConfigurationError::NotAConfiguration);
    assert_eq!(configuration(&mut disk), error);
    configure(&mut disk, &NEW).unwrap();
    assert_eq!(configuration(&mut disk), Ok(NEW));
}

#[test]
fn a_power_cut_leaves_the_old_or_the_new() {
    let (mut old, mut new) = (0, 0);
    for nth in 0..4 {
        for seed in 0..24 {
            let mut disk = disk_with_fault(nth, Effect::PowerCut).with_seed(seed);
            let result = configure(&mut disk, &NEW);
            disk.restart();
            match configuration(&mut disk) {
                Ok(OLD) => old += 1,
                Ok(NEW) => new += 1,
                other => panic!("cut at command {nth}, seed {seed}: {other:?}"),
            }
            // Writing, flushing and reading back are all there is.
            assert_eq!(result.is_ok(), nth == 3, "cut at command {nth}");
            let is_durable = nth > 1;
            assert!(!is_durable || configuration(&mut disk) == Ok(NEW));
        }
    }
    assert!(old > 6 && new > 48, "{old} old, {new} new");
}

#[test]
fn a_failing_command_is_told() {
    for nth in 0..3 {
        for effect in [Effect::Fail, Effect::FailAfterwards, Effect::Stall] {
            let mut disk = disk_with_fault(nth, effect);
            let result = configure(&mut disk, &NEW);
            assert!(
                matches!(result, Err(StoreError::Medium(_))),
                "command {nth}, {effect:?}: {result:?}"
            );
            disk.restart();
            let kept = configuration(&mut disk);
            assert!(kept == Ok(OLD) || kept == Ok(NEW), "{kept:?}");
        }
    }
    let mut disk = disk_with_fault(0, Effect::Lie);
    let not_kept = Err(StoreError::ConfigurationNotKept);
    assert_eq!(configure(&mut disk, &NEW), not_kept);
}

#[test]
fn an_unreadable_page_is_told_from_a_damaged_one() {
    let mut disk = disk_with_fault(0, Effect::Fail);
    let error = configuration(&mut disk).unwrap_err();
    assert!(
        matches!(
            error,
            ConfigurationError::Medium(MediumError::Device { .. })
        ),
        "{error}"
    );
}

/// Sleeps, wakes and cold boots leave it alone, and it leaves them alone.
#[test]
fn images_and_configuration_are_apart() {
    for mut machine in Machine::both() {
        let mut disk = disk();
        configure(&mut disk, &OLD).unwrap();
        machine.run(1);
        let slept = machine.memory.contents();
        machine.sleep(&mut disk).unwrap();
        assert_eq!(configuration(&mut disk), Ok(OLD));
        configure(&mut disk, &NEW).unwrap();
        machine.run(2);
        assert!(matches!(machine.boot(&mut disk), Boot::Woken));
        assert!(machine.memory.contents() == slept);
        assert_eq!(configuration(&mut disk), Ok(NEW));
        assert!(matches!(machine.boot(&mut disk), Boot::Cold(NoImage::None)));
        assert_eq!(configuration(&mut disk), Ok(NEW));
    }
}

/// A machine whose configuration is rubbish sleeps and wakes all the same.
#[test]
fn rubbish_does_not_keep_a_machine_from_sleeping() {
    let mut machine = Machine::new();
    let mut disk = disk();
    disk.edit(|bytes| bytes[to_usize(START)..][..4096].fill(0xa5));
    machine.run(1);
    machine.sleep(&mut disk).unwrap();
    assert!(matches!(machine.boot(&mut disk), Boot::Woken));
    let error = Err(ConfigurationError::NotAConfiguration);
    assert_eq!(configuration(&mut disk), error);
}
