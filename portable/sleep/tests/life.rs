//! Sleeps and wakes with nothing going wrong but what a user does.

#![allow(clippy::cast_possible_truncation, reason = "small numbers")]

mod common;

use common::{Boot, MIB, Machine, NotAsleep, START, area, disk, record_at};
use poorwill_image::SaveError;
use poorwill_medium::Window;
use poorwill_medium::fake::{Command, FakeMedium};
use poorwill_memory::{Page, checksum};
use poorwill_sleep::NoSleep;
use poorwill_store::{
    Area, DiscardReason, Failure, MIN_AREA_BYTES, NoImage, RecordError, RecordFormat, SlotId,
    SlotState, SlotStatus, StoreError,
};

fn state(disk: &mut FakeMedium, slot: SlotId) -> Option<SlotState> {
    let mut scratch = Page::ZERO;
    let area = area(disk, &mut scratch).unwrap();
    area.slots()[slot.index()]
        .record()
        .map(|record| record.state)
}

const CONSUMED: SlotState = SlotState::Consumed {
    failure: None,
    reported: false,
};

#[test]
fn a_machine_wakes_once() {
    let (mut machine, mut disk) = (Machine::new(), disk());
    assert!(matches!(machine.boot(&mut disk), Boot::Cold(NoImage::None)));
    machine.run(1);
    let wanted = machine.memory.contents();
    machine.sleep(&mut disk).unwrap();
    assert_eq!(state(&mut disk, SlotId::First), Some(SlotState::Committed));

    machine.run(2);
    assert!(matches!(machine.boot(&mut disk), Boot::Woken));
    assert!(machine.memory.contents() == wanted);
    assert_eq!(state(&mut disk, SlotId::First), Some(CONSUMED));

    machine.run(3);
    let cold = machine.memory.contents();
    assert!(matches!(machine.boot(&mut disk), Boot::Cold(NoImage::None)));
    assert!(
        machine.memory.contents() == cold,
        "a cold boot loads nothing"
    );
    assert!(machine.memory.gaps_are_intact());
}

#[test]
fn behind_the_last_number_they_start_over() {
    let (mut machine, mut disk) = (Machine::new(), disk());
    machine.run(1);
    machine.sleep(&mut disk).unwrap();
    disk.edit(|bytes| {
        let record = &mut bytes[record_at(0) as usize..][..512];
        let mut words: Vec<u64> = (record.as_chunks::<8>().0.iter())
            .map(|word| u64::from_le_bytes(*word))
            .collect();
        words[3] = u64::MAX - 1;
        words[2] = checksum::of_words_but(&words, 2);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        record.copy_from_slice(&bytes);
    });
    for seed in 2..4 {
        machine.run(seed);
        let wanted = machine.memory.contents();
        machine.sleep(&mut disk).unwrap();
        machine.run(9);
        assert!(matches!(machine.boot(&mut disk), Boot::Woken));
        assert!(machine.memory.contents() == wanted);
    }
}

#[test]
fn sleeps_take_turns_with_the_slots() {
    let (mut machine, mut disk) = (Machine::new(), disk());
    for generation in 1..8 {
        machine.run(generation);
        let wanted = machine.memory.contents();
        machine.sleep(&mut disk).unwrap();
        let mut scratch = Page::ZERO;
        let image = area(&mut disk, &mut scratch).unwrap().newest().unwrap();
        assert_eq!(image.generation(), generation);
        assert_eq!(image.slot().index() as u64, (generation + 1) % 2);
        machine.run(100);
        assert!(matches!(machine.boot(&mut disk), Boot::Woken));
        assert!(machine.memory.contents() == wanted);
    }
}

#[test]
fn a_new_sleep_gives_up_the_image_before() {
    let (mut machine, mut disk) = (Machine::new(), disk());
    machine.run(1);
    machine.sleep(&mut disk).unwrap();
    machine.run(2);
    let wanted = machine.memory.contents();
    machine.sleep(&mut disk).unwrap();
    assert_eq!(
        state(&mut disk, SlotId::First),
        Some(SlotState::Discarded(DiscardReason::NewSleep))
    );
    assert!(matches!(machine.boot(&mut disk), Boot::Woken));
    assert!(machine.memory.contents() == wanted);
    assert!(matches!(machine.boot(&mut disk), Boot::Cold(NoImage::None)));
}

#[test]
fn a_cold_boot_gives_up_the_image() {
    let (mut machine, mut disk) = (Machine::new(), disk());
    machine.run(1);
    machine.sleep(&mut disk).unwrap();
    let mut scratch = Page::ZERO;
    let mut area = area(&mut disk, &mut scratch).unwrap();
    let image = area.newest().unwrap();
    area.discard_all(DiscardReason::ColdBoot).unwrap();
    assert_eq!(area.newest(), Err(NoImage::None));
    assert_eq!(area.admit(&image), Err(StoreError::Stale(SlotId::First)));
    assert!(matches!(machine.boot(&mut disk), Boot::Cold(NoImage::None)));
}

/// The disk of the image may be away while another OS starts: the vault knows.
#[test]
fn a_start_without_a_wake_ends_images_but_no_snapshot() {
    for mut machine in Machine::both() {
        let mut disk = disk();
        machine.run(1);
        machine.sleep(&mut disk).unwrap();
        machine.boot_without_wake(&mut disk).unwrap();
        assert!(matches!(machine.boot(&mut disk), Boot::Cold(NoImage::None)));

        machine.keep(&mut disk).unwrap();
        machine.boot_without_wake(&mut disk).unwrap();
        assert!(matches!(machine.boot(&mut disk), Boot::Woken));
    }
    let mut machine = Machine::sealing();
    let (mut away, mut other) = (disk(), disk());
    machine.sleep(&mut away).unwrap();
    machine.boot_without_wake(&mut other).unwrap();
    assert!(!matches!(machine.boot(&mut away), Boot::Woken));
}

#[test]
fn an_image_is_consumed_once() {
    let (mut machine, mut disk) = (Machine::new(), disk());
    machine.sleep(&mut disk).unwrap();
    let mut scratch = Page::ZERO;
    let mut area = area(&mut disk, &mut scratch).unwrap();
    let image = area.newest().unwrap();
    area.admit(&image).unwrap();
    assert_eq!(area.admit(&image), Err(StoreError::Stale(SlotId::First)));
}

#[test]
fn a_boot_without_image_writes_nothing() {
    let (mut machine, mut disk) = (Machine::new(), disk());
    machine.boot(&mut disk);
    machine.sleep(&mut disk).unwrap();
    machine.boot(&mut disk);
    disk.restart();
    machine.boot(&mut disk);
    // Two records.
    assert_eq!(disk.log(), [Command::Read; 2]);
}

#[test]
fn a_failed_wake_is_named_until_it_was_reported() {
    let (mut machine, mut disk) = (Machine::new(), disk());
    machine.run(1);
    machine.sleep(&mut disk).unwrap();
    // The last byte of page 290 of the data, which is in piece 1.
    disk.flip(START + 2 * MIB + 290 * 4096 - 1, 3);
    let damaged = Failure::DamagedPiece(1);
    assert!(matches!(machine.boot(&mut disk), Boot::Failed(failure) if failure == damaged));

    for _ in 0..2 {
        let mut scratch = Page::ZERO;
        let area = area(&mut disk, &mut scratch).unwrap();
        assert_eq!(area.newest(), Err(NoImage::None));
        assert_eq!(
            area.unreported_failure(),
            Some((SlotId::First, Failure::DamagedPiece(1)))
        );
    }
    assert!(matches!(machine.boot(&mut disk), Boot::LastWakeFailed(failure) if failure == damaged));
    assert!(matches!(machine.boot(&mut disk), Boot::Cold(NoImage::None)));
    let mut scratch = Page::ZERO;
    let mut area = area(&mut disk, &mut scratch).unwrap();
    assert_eq!(area.unreported_failure(), None);
    area.mark_reported(SlotId::First).unwrap();
    area.mark_reported(SlotId::Second).unwrap();
    let state = SlotState::Consumed {
        failure: Some(Failure::DamagedPiece(1)),
        reported: true,
    };
    assert_eq!(area.slots()[0].record().unwrap().state, state);
}

/// Where naming a failure could not be noted, and the machine slept again, that
/// sleep wakes.
#[test]
fn an_old_failure_does_not_cost_a_newer_image() {
    let (mut machine, mut disk) = (Machine::new(), disk());
    machine.run(1);
    machine.sleep(&mut disk).unwrap();
    disk.flip(START + 2 * MIB + 290 * 4096 - 1, 3);
    assert!(matches!(machine.boot(&mut disk), Boot::Failed(_)));
    machine.run(2);
    let wanted = machine.memory.contents();
    machine.sleep(&mut disk).unwrap();
    machine.run(3);
    assert!(matches!(machine.boot(&mut disk), Boot::Woken));
    assert!(machine.memory.contents() == wanted);
}

#[test]
fn every_single_bit_of_a_record_counts() {
    let (mut machine, mut disk) = (Machine::new(), disk());
    machine.sleep(&mut disk).unwrap();
    let mut scratch = Page::ZERO;
    for byte in 0..512 {
        for bit in 0..8 {
            disk.flip(record_at(0) + byte, bit);
            let error = if byte < 8 {
                RecordError::NotARecord
            } else {
                RecordError::Damaged
            };
            let refused = NoImage::Unusable {
                slot: SlotId::First,
                error,
            };
            assert_eq!(
                area(&mut disk, &mut scratch).unwrap().newest(),
                Err(refused)
            );
            disk.flip(record_at(0) + byte, bit);
        }
    }
    assert!(area(&mut disk, &mut scratch).unwrap().newest().is_ok());
}

#[test]
fn rubbish_is_no_image_and_is_replaced() {
    let (mut machine, mut disk) = (Machine::new(), disk());
    disk.edit(|bytes| bytes.fill(0xe5));
    let unusable = NoImage::Unusable {
        slot: SlotId::First,
        error: RecordError::NotARecord,
    };
    assert!(matches!(machine.boot(&mut disk), Boot::Cold(reason) if reason == unusable));
    assert!(
        matches!(machine.boot(&mut disk), Boot::Cold(NoImage::None)),
        "named once"
    );
    machine.run(5);
    machine.sleep(&mut disk).unwrap();
    assert!(matches!(machine.boot(&mut disk), Boot::Woken));
    let head = &disk.bytes()[START as usize..][..4096];
    assert!(
        head.iter().all(|byte| *byte == 0xe5),
        "page 0 of the area stays as it is"
    );
    let rest = &disk.bytes()[(START + 7 * MIB) as usize..];
    assert!(
        rest.iter().all(|byte| *byte == 0xe5),
        "so does what is behind the area"
    );
}

#[test]
fn a_resized_area_has_no_image() {
    let (mut machine, mut disk) = (Machine::new(), disk());
    machine.sleep(&mut disk).unwrap();
    let mut scratch = Page::ZERO;
    let window = Window::new(&mut disk, START, 5 * MIB).unwrap();
    let area = Area::open(window, &mut scratch, None, RecordFormat::Image).unwrap();
    let error = RecordError::Resized;
    assert_eq!(area.slots()[0], SlotStatus::Unusable(error));
    assert_eq!(
        area.newest(),
        Err(NoImage::Unusable {
            slot: SlotId::First,
            error
        })
    );
}

#[test]
fn an_area_has_a_least_size() {
    let mut scratch = Page::ZERO;
    for bytes in [0, 4096, MIN_AREA_BYTES - 4096] {
        let mut disk = FakeMedium::new(bytes);
        let window = Window::new(&mut disk, 0, bytes).unwrap();
        assert_eq!(
            Area::open(window, &mut scratch, None, RecordFormat::Image).err(),
            Some(StoreError::TooSmall { bytes })
        );
    }
    let mut disk = FakeMedium::new(MIN_AREA_BYTES);
    let window = Window::new(&mut disk, 0, MIN_AREA_BYTES).unwrap();
    assert_eq!(
        Area::open(window, &mut scratch, None, RecordFormat::Image)
            .unwrap()
            .slot_bytes(),
        2 * MIB
    );
}

#[test]
fn a_machine_too_large_for_its_area_goes_on() {
    let mut machine = Machine::new();
    machine.run(1);
    // 300 pages of 350 are in use, 256 fit in the second MiB of such a slot.
    let slot_bytes = 2 * MIB;
    let mut disk = FakeMedium::new(START + 6 * MIB);
    let result = machine.sleep_in(&mut disk, 5 * MIB);
    let error = SaveError::TooSmall {
        needed_bytes: MIB + 300 * 4096,
        slot_bytes,
    };
    assert!(
        matches!(result, Err(NotAsleep::Refused(NoSleep::Save(found))) if found == error),
        "{result:?}"
    );
}
