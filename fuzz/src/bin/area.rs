//! The sleep area: whatever its records say and its medium does, an image or a set wakes
//! once, on a machine of its kind, and none wakes that was given up; a snapshot wakes until
//! another takes its place or it is deleted. Its configuration is read or refused,
//! and only changes when it is configured.
#![cfg_attr(fuzzing, no_main)]

use poorwill_fuzz::area::{configuration, medium, save_into};
use poorwill_fuzz::image::{here, workspace};
use poorwill_fuzz::{Cases, Input, disk};
use poorwill_image::{ImageKind, Saved, Workspace, open};
use poorwill_medium::fake::{Command, Effect, FakeMedium};
use poorwill_medium::{Medium, Window};
use poorwill_memory::Page;
use poorwill_store::{
    Admitted, Area, CommitError, Committed, CommittedImage, Configuration, DiscardReason, Failure,
    MIN_AREA_BYTES, Name, OpenSlot, PartError, Purpose, RecordFormat, SleepMode, SlotId,
    SlotStatus, SnapshotRules, StoreError, choose,
};
use zerocopy::IntoBytes;

poorwill_fuzz::target!(max_len = 1024, run);

fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut medium = medium(&mut input);
    medium.restart();
    let mut scratch = Page::ZERO;
    let bytes = medium.capacity();
    if bytes < MIN_AREA_BYTES {
        let result = area(&mut medium, &mut scratch, RecordFormat::Image).map(drop);
        assert_eq!(result, Err(StoreError::TooSmall { bytes }));
        return;
    }
    let configured = Configuration {
        mode: Some(SleepMode::Staged),
        ..Configuration::default()
    };
    area(&mut medium, &mut scratch, RecordFormat::Image)
        .and_then(|mut area| area.configure(&configured))
        .expect("a medium without faults");
    for _ in 0..=input.below(6) {
        let choice = input.below(12);
        let is_faulty = choice % 3 == 2;
        if is_faulty {
            faults(&mut medium, &mut input);
        }
        let format = match choice / 3 {
            3 => RecordFormat::Set,
            _ => RecordFormat::Image,
        };
        let promise = power_on(&mut medium, &mut scratch, &mut input, (format, is_faulty));
        medium.restart();
        check(&mut medium, &mut scratch, format, &promise);
    }
    let kept =
        area(&mut medium, &mut scratch, RecordFormat::Image).map(|mut area| area.configuration());
    assert_eq!(kept, Ok(Ok(configured)));
    configure(&mut medium, &mut scratch, &mut input);
}

/// Whatever the configuration's page holds, it is read or refused; and then it
/// holds what is written, or what it held.
fn configure(medium: &mut FakeMedium, scratch: &mut Page, input: &mut Input<'_>) {
    disk::put(medium, 0, configuration(input).as_bytes());
    let read = |medium: &mut FakeMedium, scratch: &mut Page| {
        let area = area(medium, scratch, RecordFormat::Image);
        area.expect("a medium without faults").configuration()
    };
    let old = read(medium, scratch);
    if let Ok(old) = old {
        assert_eq!(old.check(), Ok(()));
    }
    let next_snapshot = input.one_in(2).then_some(Name::NONE);
    let new = Configuration {
        mode: input.choose(&SleepMode::ALL).ok().copied(),
        stage_delay_ms: input.edgy(),
        break_even_ms: input.edgy(),
        next_snapshot,
        accepts_unguarded: next_snapshot.is_some() && input.one_in(2),
        snapshots: SnapshotRules {
            tries: input.any(),
            trial_ms: input.any(),
            key_ms: input.any(),
        },
    };
    let is_faulty = input.one_in(3);
    if is_faulty {
        faults(medium, input);
    }
    let result =
        area(medium, scratch, RecordFormat::Image).and_then(|mut area| area.configure(&new));
    medium.restart();
    let kept = read(medium, scratch);
    match result {
        Ok(()) => assert_eq!(kept, Ok(new)),
        Err(StoreError::Delay(error)) => {
            assert_eq!(new.check(), Err(error));
            assert_eq!(kept, old);
        }
        Err(error) => {
            assert!(is_faulty, "{error}");
            assert!(kept == old || kept == Ok(new), "{kept:?}");
        }
    }
}

/// What must hold after the power was off.
#[derive(Debug, PartialEq, Eq)]
enum Promise {
    /// Nothing.
    Nothing,
    /// No image wakes but this snapshot, if there is one.
    NoImage(Option<u64>),
    /// Likewise, and no record is committed or unreadable.
    AllGivenUp(Option<u64>),
    /// The image of this generation wakes. It is whole unless the medium may
    /// have dropped writes, which loading finds out.
    Image { generation: u64, is_whole: bool },
}

/// The machine's snapshot.
fn kept(area: &Area<'_, FakeMedium>) -> Option<u64> {
    area.snapshot().map(|(_, record, _)| record.generation)
}

/// The machine's snapshot, once a sleep has begun: numbers that start over take it
/// along.
fn kept_by_begin(area: &Area<'_, FakeMedium>) -> Option<u64> {
    let numbers = area
        .slots()
        .map(|slot| slot.record().map_or(0, |record| record.generation));
    kept(area).filter(|_| !numbers.contains(&(u64::MAX - 1)))
}

/// Checks that nothing wakes but this snapshot, on any machine.
fn check_only(area: &Area<'_, FakeMedium>, snapshot: Option<u64>) {
    let wakes = area.newest_in(RecordFormat::Image).ok();
    let wakes = wakes.map(|image| (image.kind(), image.generation()));
    assert_eq!(wakes, snapshot.map(|number| (ImageKind::Snapshot, number)));
    assert!(area.newest_in(RecordFormat::Set).is_err());
}

fn check(medium: &mut FakeMedium, scratch: &mut Page, format: RecordFormat, promise: &Promise) {
    let mut area = area(medium, scratch, format).expect("a medium without faults");
    match promise {
        Promise::Nothing => {}
        Promise::NoImage(snapshot) => check_only(&area, *snapshot),
        Promise::AllGivenUp(snapshot) => {
            check_only(&area, *snapshot);
            for slot in area.slots() {
                assert!(slot.committed().is_none());
                assert!(!matches!(slot, SlotStatus::Unusable(_)));
            }
        }
        Promise::Image {
            generation,
            is_whole,
        } => {
            let image = area.newest().expect("the image was committed");
            assert_eq!(image.generation(), *generation);
            check_images(&mut area, &image, *is_whole);
        }
    }
}

/// Opens an image, or each part of a set.
fn check_images(area: &mut Area<'_, FakeMedium>, image: &CommittedImage, is_whole: bool) {
    let slot = image.slot();
    let parts = area.parts(slot).len();
    for index in 0..parts.max(1) {
        let expected = match area.parts(slot).get(index) {
            Some(part) => part.expected(image.generation()),
            None => image.expected(),
        };
        let window = match parts {
            0 => area.slot(slot).map_err(StoreError::from),
            _ => area.part(slot, index),
        };
        let mut room = workspace(1);
        let workspace = Workspace::new(&mut room, 1).expect("enough room");
        let opened = open(
            &mut window.expect("its place"),
            expected,
            &here(1),
            workspace,
        );
        assert!(opened.is_ok() || !is_whole, "{opened:?}");
    }
}

/// Faults of devices that are to be survived: those that lie about reads and
/// flushes cannot be.
fn faults(medium: &mut FakeMedium, input: &mut Input<'_>) {
    disk::inject_if(medium, input, |fault| {
        fault.effect != Effect::Lie || fault.command == Some(Command::Write)
    });
}

fn area<'a>(
    medium: &'a mut FakeMedium,
    scratch: &'a mut Page,
    format: RecordFormat,
) -> Result<Area<'a, FakeMedium>, StoreError> {
    let bytes = medium.capacity();
    Area::open(
        Window::new(medium, 0, bytes).expect("all of it"),
        scratch,
        None,
        format,
    )
}

fn power_on(
    medium: &mut FakeMedium,
    scratch: &mut Page,
    input: &mut Input<'_>,
    (format, is_faulty): (RecordFormat, bool),
) -> Promise {
    let Ok(mut area) = area(medium, scratch, format) else {
        assert!(is_faulty);
        return Promise::Nothing;
    };
    let newest = area.newest();
    assert_eq!(
        choose(area.slots(), None, format).ok(),
        newest.ok().map(|image| image.slot())
    );
    let unreported = |area: &Area<'_, FakeMedium>| {
        let whole = area.unreported_failure().map(|(slot, _)| slot);
        whole.or_else(|| {
            area.unreported_part_failures()
                .next()
                .map(|(slot, ..)| slot)
        })
    };
    if let Some(slot) = unreported(&area) {
        let reported = area.mark_reported(slot);
        assert!(reported.is_ok() || is_faulty);
        assert!(reported.is_err() || unreported(&area) != Some(slot));
    }
    let snapshot = kept(&area);
    let once = match format {
        RecordFormat::Image => Purpose::Once,
        RecordFormat::Set => Purpose::Set,
    };
    match (input.below(6), newest) {
        (0, Ok(image)) if image.kind() == ImageKind::Once => {
            wake(&mut area, &image, input, is_faulty)
        }
        (0, Ok(image)) => wake_snapshot(&mut area, &image, input, is_faulty),
        (1, _) => sleep(&mut area, once, input, is_faulty),
        (2, _) => {
            let snapshot = kept_by_begin(&area);
            let begun = area.begin(once).map(|slot| slot.generation());
            assert!(begun.is_ok() || is_faulty);
            begun.map_or(Promise::Nothing, |_| Promise::AllGivenUp(snapshot))
        }
        (3, _) if format == RecordFormat::Set => {
            let refused = area.begin(Purpose::Snapshot(Name::NONE)).map(drop);
            assert_eq!(refused, Err(StoreError::OtherPurpose(RecordFormat::Image)));
            Promise::Nothing
        }
        (3, _) => sleep(&mut area, Purpose::Snapshot(Name::NONE), input, is_faulty),
        (4, _) => delete(&mut area, is_faulty),
        _ => {
            let done = area.discard_all(DiscardReason::ColdBoot);
            assert!(done.is_ok() || is_faulty);
            done.map_or(Promise::Nothing, |()| Promise::AllGivenUp(snapshot))
        }
    }
}

fn delete(area: &mut Area<'_, FakeMedium>, is_faulty: bool) -> Promise {
    let before = kept(area);
    match area.delete_snapshot() {
        Ok(()) => {
            assert_eq!(kept(area), None);
            Promise::Nothing
        }
        Err(StoreError::NoSnapshot) => {
            assert_eq!(before, None);
            Promise::Nothing
        }
        Err(error) => {
            assert!(is_faulty, "{error}");
            Promise::Nothing
        }
    }
}

/// It wakes now, and would again.
fn wake_snapshot(
    area: &mut Area<'_, FakeMedium>,
    image: &CommittedImage,
    input: &mut Input<'_>,
    is_faulty: bool,
) -> Promise {
    let generation = image.generation();
    assert_eq!(kept(area), Some(generation));
    let standing = |area: &Area<'_, FakeMedium>| area.snapshot().map(|(_, _, standing)| standing);
    let before = standing(area).expect("it is there");
    match area.admit(image) {
        Ok(admitted) => {
            check_only(area, Some(generation));
            let after = standing(area).expect("it is there still");
            let counted = !before.proven && before.tries != u32::MAX;
            assert_eq!(after.tries, before.tries + u32::from(counted));
            let done = match input.below(3) {
                0 => area.record_failure(admitted, Failure::Other(input.any::<u32>() >> 1, 0)),
                1 => area.snapshot_is_well(),
                _ => area.snapshot_was_reset(generation, input.any()),
            };
            assert!(done.is_ok() || is_faulty);
        }
        Err(error) => assert!(is_faulty, "{error}"),
    }
    match is_faulty {
        true => Promise::Nothing,
        false => Promise::NoImage(Some(generation)),
    }
}

fn wake(
    area: &mut Area<'_, FakeMedium>,
    image: &CommittedImage,
    input: &mut Input<'_>,
    is_faulty: bool,
) -> Promise {
    let record = area.slots()[image.slot().index()].committed().copied();
    let record = record.expect("what wakes is committed");
    assert_eq!(record.generation, image.generation());
    let other = area.slots()[image.slot().other().index()].record();
    assert!(other.is_none_or(|other| other.generation < record.generation));
    let snapshot = kept(area);
    match area.admit(image) {
        Ok(consumed) => {
            check_only(area, snapshot);
            assert_eq!(area.admit(image), Err(StoreError::Stale(image.slot())));
            let slot = consumed.slot();
            assert_eq!(slot, image.slot());
            if input.one_in(2) {
                let failure = Failure::Other(input.any::<u32>() >> 1, input.any());
                fail_parts(area, &consumed, failure, is_faulty);
                if area.record_failure(consumed, failure).is_ok() {
                    assert_eq!(first_failure(area, slot), Some(failure));
                }
            }
            Promise::NoImage(snapshot)
        }
        Err(error) => {
            assert!(is_faulty, "{error}");
            match area.discard_all(DiscardReason::Refused) {
                Ok(()) => Promise::AllGivenUp(snapshot),
                Err(_) => Promise::Nothing,
            }
        }
    }
}

/// Notes a failure of each part.
fn fail_parts(
    area: &mut Area<'_, FakeMedium>,
    consumed: &Admitted,
    failure: Failure,
    is_faulty: bool,
) {
    let parts = area.parts(consumed.slot()).len();
    for index in 0..parts {
        let noted = area.record_part_failure(consumed, index, failure);
        assert!(noted.is_ok() || is_faulty);
        let failed = area.parts(consumed.slot())[index].failure;
        assert!(noted.is_err() || failed == Some(failure));
    }
    let absent = area.record_part_failure(consumed, parts, failure);
    assert_eq!(absent, Err(PartError::Absent(parts).into()));
}

fn first_failure(area: &Area<'_, FakeMedium>, slot: SlotId) -> Option<Failure> {
    let (found, failure) = area.unreported_failure()?;
    (found == slot).then_some(failure)
}

fn sleep(
    area: &mut Area<'_, FakeMedium>,
    purpose: Purpose,
    input: &mut Input<'_>,
    is_faulty: bool,
) -> Promise {
    let snapshot = kept_by_begin(area);
    let known = area
        .slots()
        .map(|slot| slot.record().map_or(0, |record| record.generation));
    let Ok(mut slot) = area.begin(purpose) else {
        assert!(is_faulty);
        return Promise::Nothing;
    };
    let generation = slot.generation();
    // Behind the last number they start over.
    let last = known[0].max(known[1]);
    let wanted = if last == u64::MAX - 1 { 1 } else { last + 1 };
    assert_eq!(generation, wanted);
    let Some(saved) = save_into(&mut slot, purpose.kind()) else {
        assert!(is_faulty);
        return Promise::AllGivenUp(snapshot);
    };
    let committed = match purpose {
        Purpose::Set => commit_set(slot, &saved, input),
        Purpose::Once | Purpose::Snapshot(_) => slot.commit(&saved, 7),
    };
    match committed {
        Ok(committed) => {
            assert_eq!(committed.generation(), generation);
            let is_whole = !is_faulty;
            Promise::Image {
                generation,
                is_whole,
            }
        }
        Err(CommitError::NotCommitted(error)) => {
            assert!(is_faulty, "{error}");
            Promise::NoImage(snapshot)
        }
        Err(CommitError::InDoubt(error)) => {
            assert!(is_faulty, "{error}");
            Promise::Nothing
        }
    }
}

/// Commits a set of this part, and of others that the slot may have room for.
fn commit_set(
    mut slot: OpenSlot<'_, '_, FakeMedium>,
    first: &Saved,
    input: &mut Input<'_>,
) -> Result<Committed, CommitError> {
    slot.add(0, first).expect("the first part");
    for name in 0..input.below(3) {
        let Some(saved) = save_into(&mut slot, ImageKind::Once) else {
            break;
        };
        let added = slot.add(name, &saved);
        let same = PartError::SameName(name).into();
        assert_eq!(added, if name == 0 { Err(same) } else { Ok(()) });
    }
    slot.commit_set(7)
}
