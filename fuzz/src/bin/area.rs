//! The sleep area: whatever its records say and its medium does, an image wakes
//! once, and none wakes that was given up. Its configuration is read or refused,
//! and only changes when it is configured.
#![cfg_attr(fuzzing, no_main)]

use poorwill_fuzz::area::{configuration, medium, save_into};
use poorwill_fuzz::image::{here, workspace};
use poorwill_fuzz::{Cases, Input, disk};
use poorwill_image::{Workspace, open};
use poorwill_medium::fake::{Command, Effect, FakeMedium};
use poorwill_medium::{Medium, Window};
use poorwill_memory::Page;
use poorwill_store::{
    Area, CommitError, CommittedImage, Configuration, DiscardReason, Failure, MIN_AREA_BYTES, Name,
    NoImage, Purpose, SleepMode, SlotId, SlotStatus, SnapshotRules, StoreError, choose,
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
        let result = area(&mut medium, &mut scratch).map(drop);
        assert_eq!(result, Err(StoreError::TooSmall { bytes }));
        return;
    }
    let configured = Configuration {
        mode: SleepMode::Staged,
        ..Configuration::default()
    };
    area(&mut medium, &mut scratch)
        .and_then(|mut area| area.configure(&configured))
        .expect("a medium without faults");
    for _ in 0..=input.below(6) {
        let is_faulty = input.one_in(3);
        if is_faulty {
            faults(&mut medium, &mut input);
        }
        let promise = power_on(&mut medium, &mut scratch, &mut input, is_faulty);
        medium.restart();
        check(&mut medium, &mut scratch, &promise);
    }
    let kept = area(&mut medium, &mut scratch).map(|mut area| area.configuration());
    assert_eq!(kept, Ok(Ok(configured)));
    configure(&mut medium, &mut scratch, &mut input);
}

/// Whatever the configuration's page holds, it is read or refused; and then it
/// holds what is written, or what it held.
fn configure(medium: &mut FakeMedium, scratch: &mut Page, input: &mut Input<'_>) {
    disk::put(medium, 0, configuration(input).as_bytes());
    let read = |medium: &mut FakeMedium, scratch: &mut Page| {
        let mut area = area(medium, scratch).expect("a medium without faults");
        area.configuration()
    };
    let old = read(medium, scratch);
    if let Ok(old) = old {
        assert_eq!(old.check(), Ok(()));
    }
    let new = Configuration {
        mode: *input.choose(&SleepMode::ALL).unwrap_or(&SleepMode::Auto),
        stage_delay_ms: input.edgy(),
        break_even_ms: input.edgy(),
        next_snapshot: input.one_in(2).then_some(Name::NONE),
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
    let result = area(medium, scratch).and_then(|mut area| area.configure(&new));
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
    /// No image wakes.
    NoImage,
    /// No image wakes, and no record is committed or unreadable.
    AllGivenUp,
    /// The image of this generation wakes. It is whole unless the medium may
    /// have dropped writes, which loading finds out.
    Image { generation: u64, is_whole: bool },
}

fn check(medium: &mut FakeMedium, scratch: &mut Page, promise: &Promise) {
    let mut area = area(medium, scratch).expect("a medium without faults");
    match promise {
        Promise::Nothing => {}
        Promise::NoImage => assert!(area.newest().is_err()),
        Promise::AllGivenUp => {
            assert_eq!(area.newest(), Err(NoImage::None));
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
            let mut room = workspace(1);
            let workspace = Workspace::new(&mut room, 1).expect("enough room");
            let mut slot = area.slot(image.slot()).expect("its slot");
            let opened = open(&mut slot, image.expected(), &here(1), workspace);
            assert!(opened.is_ok() || !is_whole, "{opened:?}");
        }
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
) -> Result<Area<'a, FakeMedium>, StoreError> {
    let bytes = medium.capacity();
    Area::open(
        Window::new(medium, 0, bytes).expect("all of it"),
        scratch,
        None,
    )
}

fn power_on(
    medium: &mut FakeMedium,
    scratch: &mut Page,
    input: &mut Input<'_>,
    is_faulty: bool,
) -> Promise {
    let Ok(mut area) = area(medium, scratch) else {
        assert!(is_faulty);
        return Promise::Nothing;
    };
    let newest = area.newest();
    assert_eq!(
        choose(area.slots(), None).ok(),
        newest.ok().map(|image| image.slot())
    );
    if let Some((slot, _)) = area.unreported_failure() {
        let reported = area.mark_reported(slot);
        assert!(reported.is_ok() || is_faulty);
        let still = area.unreported_failure().map(|(slot, _)| slot);
        assert!(reported.is_err() || still != Some(slot));
    }
    match (input.below(4), newest) {
        (0, Ok(image)) => wake(&mut area, &image, input, is_faulty),
        (1, _) => sleep(&mut area, is_faulty),
        (2, _) => {
            let begun = area.begin(Purpose::Once).map(|slot| slot.generation());
            assert!(begun.is_ok() || is_faulty);
            begun.map_or(Promise::Nothing, |_| Promise::AllGivenUp)
        }
        _ => {
            let done = area.discard_all(DiscardReason::ColdBoot);
            assert!(done.is_ok() || is_faulty);
            done.map_or(Promise::Nothing, |()| Promise::AllGivenUp)
        }
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
    match area.admit(image) {
        Ok(consumed) => {
            assert!(area.newest().is_err());
            assert_eq!(area.admit(image), Err(StoreError::Stale(image.slot())));
            let slot = consumed.slot();
            assert_eq!(slot, image.slot());
            if input.one_in(2) {
                let failure = Failure::Other(input.any::<u32>() >> 1, input.any());
                if area.record_failure(consumed, failure).is_ok() {
                    assert_eq!(first_failure(area, slot), Some(failure));
                }
            }
            Promise::NoImage
        }
        Err(error) => {
            assert!(is_faulty, "{error}");
            match area.discard_all(DiscardReason::Refused) {
                Ok(()) => Promise::AllGivenUp,
                Err(_) => Promise::Nothing,
            }
        }
    }
}

fn first_failure(area: &Area<'_, FakeMedium>, slot: SlotId) -> Option<Failure> {
    let (found, failure) = area.unreported_failure()?;
    (found == slot).then_some(failure)
}

fn sleep(area: &mut Area<'_, FakeMedium>, is_faulty: bool) -> Promise {
    let known = area
        .slots()
        .map(|slot| slot.record().map_or(0, |record| record.generation));
    let Ok(mut slot) = area.begin(Purpose::Once) else {
        assert!(is_faulty);
        return Promise::Nothing;
    };
    let generation = slot.generation();
    // Behind the last number they start over.
    let last = known[0].max(known[1]);
    let wanted = if last == u64::MAX - 1 { 1 } else { last + 1 };
    assert_eq!(generation, wanted);
    let Some(saved) = save_into(&mut slot) else {
        assert!(is_faulty);
        return Promise::AllGivenUp;
    };
    match slot.commit(&saved, 7) {
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
            Promise::NoImage
        }
        Err(CommitError::InDoubt(error)) => {
            assert!(is_faulty, "{error}");
            Promise::Nothing
        }
    }
}
