//! Sets: committed once, consumed once, whatever fails.

use poorwill_image::{Here, ImageKind, NoWorkers, Saved, Trust, Workspace, load, open};
use poorwill_medium::fake::{Effect, FakeMedium, Fault};
use poorwill_medium::{Medium, Window};
use poorwill_memory::checksum::name_hash;
use poorwill_memory::fake::FakeMemory;
use poorwill_memory::{MachineIdentity, Page, to_usize};
use poorwill_store::fake::save_pages;
use poorwill_store::{
    Admitted, Area, CommitError, Committed, DiscardReason, Failure, Name, NoImage, OpenSlot,
    PartError, Purpose, RecordFormat, SlotId, SlotState, StoreError,
};
use poorwill_vault::RollbackCounter;
use poorwill_vault::fake::FakeCounter;

const MIB: u64 = 1 << 20;

/// Names and pages of the domains.
const DOMAINS: [(&str, u64); 3] = [("critical", 3), ("linux", 9), ("other", 1)];

const IDENTITY: MachineIdentity = MachineIdentity {
    memory: 1,
    harts: 2,
    isa: 3,
    device_tree: 4,
};

/// Slots of 6 MiB.
fn disk() -> FakeMedium {
    FakeMedium::new(13 * MIB)
}

fn on<R>(
    disk: &mut FakeMedium,
    format: RecordFormat,
    counter: Option<&mut FakeCounter>,
    job: impl FnOnce(&mut Area<'_, FakeMedium>) -> R,
) -> Result<R, StoreError> {
    let (bytes, mut scratch) = (disk.capacity(), Page::ZERO);
    let window = Window::new(disk, 0, bytes)?;
    let counter = counter.map(|counter| counter as &mut dyn RollbackCounter);
    let mut area = Area::open(window, &mut scratch, counter, format)?;
    Ok(job(&mut area))
}

fn on_set<R>(disk: &mut FakeMedium, job: impl FnOnce(&mut Area<'_, FakeMedium>) -> R) -> R {
    on(disk, RecordFormat::Set, None, job).unwrap()
}

fn on_image<R>(disk: &mut FakeMedium, job: impl FnOnce(&mut Area<'_, FakeMedium>) -> R) -> R {
    on(disk, RecordFormat::Image, None, job).unwrap()
}

/// The memory of a domain with this number of pages.
fn contents(pages: u64) -> Vec<Page> {
    let page = |index| Page([pages * 100 + index + 1; 512]);
    (0..pages).map(page).collect()
}

/// Saves a domain with this number of pages.
fn save_domain(slot: &mut OpenSlot<'_, '_, FakeMedium>, pages: u64) -> Option<Saved> {
    save_as(slot, pages, ImageKind::Once)
}

fn save_as(slot: &mut OpenSlot<'_, '_, FakeMedium>, pages: u64, kind: ImageKind) -> Option<Saved> {
    save_pages(slot, IDENTITY, kind, &contents(pages))
}

/// Puts all domains to sleep; `None`: the medium failed before the commit.
fn sleep(area: &mut Area<'_, FakeMedium>) -> Option<Result<Committed, CommitError>> {
    let mut slot = area.begin(Purpose::Set).ok()?;
    for (name, pages) in DOMAINS {
        let saved = save_domain(&mut slot, pages)?;
        slot.add(name_hash(name), &saved).unwrap();
    }
    Some(slot.commit_set(7))
}

/// Puts a machine without domains to sleep.
fn sleep_alone(area: &mut Area<'_, FakeMedium>, purpose: Purpose) {
    let mut slot = area.begin(purpose).unwrap();
    let saved = save_as(&mut slot, 1, purpose.kind()).unwrap();
    slot.commit(&saved, 0).unwrap();
}

/// Loads a part, and checks each page.
fn check_part(area: &mut Area<'_, FakeMedium>, slot: SlotId, index: usize) {
    let pages = DOMAINS[index].1;
    let generation = area.slots()[slot.index()].record().unwrap().generation;
    let expected = area.parts(slot)[index].expected(generation);
    let mut memory = FakeMemory::new(&[pages]);
    let here = Here {
        identity: IDENTITY,
        os_pages: pages,
        trust: Trust::Plain,
        is_clear: false,
    };
    let mut room = vec![Page::ZERO; to_usize(Workspace::pages_needed(pages))];
    let workspace = Workspace::new(&mut room, pages).unwrap();
    let mut window = area.part(slot, index).unwrap();
    let image = open(&mut window, expected, &here, workspace).unwrap();
    load(&mut window, &image, memory.os(), &NoWorkers, &mut |_| ()).unwrap();
    assert!(memory.contents() == contents(pages));
}

fn admitted(area: &mut Area<'_, FakeMedium>) -> Admitted {
    let set = area.newest().unwrap();
    area.admit(&set).unwrap()
}

#[test]
fn a_set_wakes_once() {
    let mut disk = disk();
    for generation in 1..4 {
        on_set(&mut disk, sleep).unwrap().unwrap();
        on_set(&mut disk, |area| {
            let set = area.newest().unwrap();
            assert_eq!(
                (set.generation(), set.kind()),
                (generation, ImageKind::Once)
            );
            let hashes: Vec<_> = area
                .parts(set.slot())
                .iter()
                .map(|part| part.name_hash)
                .collect();
            assert_eq!(hashes, DOMAINS.map(|(name, _)| name_hash(name)));
            let last = area.parts(set.slot())[2];
            assert_eq!(set.image_bytes(), last.first_page * 4096 + last.bytes);
            let admitted = area.admit(&set).unwrap();
            assert_eq!(area.newest(), Err(NoImage::None));
            assert_eq!(area.admit(&set), Err(StoreError::Stale(set.slot())));
            for index in 0..DOMAINS.len() {
                check_part(area, admitted.slot(), index);
            }
            let absent = area.part(set.slot(), 3).map(drop);
            assert_eq!(absent, Err(PartError::Absent(3).into()));
        });
    }
}

#[test]
fn what_is_no_set_is_not_committed() {
    let mut disk = disk();
    let stale = Err(CommitError::NotCommitted(StoreError::Stale(SlotId::First)));
    on_set(&mut disk, |area| {
        for purpose in [Purpose::Once, Purpose::Snapshot(Name::NONE)] {
            let other = StoreError::OtherPurpose(RecordFormat::Image);
            assert_eq!(area.begin(purpose).map(drop), Err(other));
        }
        let slot = area.begin(Purpose::Set).unwrap();
        let empty = CommitError::NotCommitted(PartError::Absent(0).into());
        assert_eq!(slot.commit_set(0).map(drop), Err(empty));
        let mut slot = area.begin(Purpose::Set).unwrap();
        let first = save_domain(&mut slot, 1).unwrap();
        slot.add(1, &first).unwrap();
        let same = slot.add(1, &first);
        assert_eq!(same, Err(PartError::SameName(1).into()));
        assert_eq!(slot.commit(&first, 0).map(drop), stale);
        // An image of an earlier sleep.
        sleep_for_nothing(area);
        let mut slot = area.begin(Purpose::Set).unwrap();
        assert_eq!(slot.add(2, &first), Err(StoreError::Stale(SlotId::Second)));
    });
    on_image(&mut disk, |area| {
        let other = StoreError::OtherPurpose(RecordFormat::Set);
        assert_eq!(area.begin(Purpose::Set).map(drop), Err(other));
        let mut slot = area.begin(Purpose::Once).unwrap();
        let saved = save_domain(&mut slot, 1).unwrap();
        assert!(matches!(slot.add(1, &saved), Err(StoreError::Stale(_))));
    });
}

/// A sleep that ends in a cold boot.
fn sleep_for_nothing(area: &mut Area<'_, FakeMedium>) {
    sleep(area).unwrap().unwrap();
    area.discard_all(DiscardReason::ColdBoot).unwrap();
}

#[test]
fn a_part_has_no_more_room_than_the_others_leave() {
    let mut disk = disk();
    on_set(&mut disk, |area| {
        let mut slot = area.begin(Purpose::Set).unwrap();
        for (hash, pages) in [(1, 300), (2, 500)] {
            let saved = save_domain(&mut slot, pages).unwrap();
            slot.add(hash, &saved).unwrap();
        }
        assert_eq!(save_domain(&mut slot, 300).map(drop), None);
        slot.commit_set(0).unwrap();
        assert_eq!(area.parts(SlotId::First).len(), 2);
    });
}

#[test]
fn each_machine_refuses_the_others_image_by_name() {
    let (image, set) = (RecordFormat::Image, RecordFormat::Set);
    for (own, other) in [(image, set), (set, image)] {
        let mut disk = disk();
        on(&mut disk, own, None, |area| match own {
            RecordFormat::Image => sleep_alone(area, Purpose::Once),
            RecordFormat::Set => drop(sleep(area).unwrap().unwrap()),
        })
        .unwrap();
        on(&mut disk, other, None, |area| {
            let slot = SlotId::First;
            let of = own;
            assert_eq!(area.newest(), Err(NoImage::OtherMachine { slot, of }));
            assert_eq!(area.newest_in(own).map(|image| image.slot()), Ok(slot));
            area.discard_all(DiscardReason::ColdBoot).unwrap();
        })
        .unwrap();
        disk.restart();
        // Its number stays, so that the next sleep has a higher one.
        on(&mut disk, own, None, |area| {
            assert_eq!(area.newest(), Err(NoImage::None));
            let record = *area.slots()[0].record().unwrap();
            let discarded = SlotState::Discarded(DiscardReason::ColdBoot);
            assert_eq!((record.state, record.generation), (discarded, 1));
            assert_eq!(record.format(), own);
        })
        .unwrap();
        on(&mut disk, other, None, |area| {
            let purpose = match other {
                RecordFormat::Image => Purpose::Once,
                RecordFormat::Set => Purpose::Set,
            };
            assert_eq!(area.begin(purpose).unwrap().generation(), 2);
        })
        .unwrap();
    }
}

/// A start with domains does not wake the snapshot of the machine without them, and keeps it.
#[test]
fn a_snapshot_stays_beside_a_set() {
    let mut disk = disk();
    on_image(&mut disk, |area| {
        sleep_alone(area, Purpose::Snapshot(Name::NONE))
    });
    on_set(&mut disk, |area| {
        let (slot, of) = (SlotId::First, RecordFormat::Image);
        assert_eq!(area.newest(), Err(NoImage::OtherMachine { slot, of }));
        sleep(area).unwrap().unwrap();
        assert_eq!(area.newest().map(|set| set.slot()), Ok(SlotId::Second));
        admitted(area);
        area.discard_all(DiscardReason::ColdBoot).unwrap();
    });
    let kind = on_image(&mut disk, |area| area.newest().map(|image| image.kind()));
    assert_eq!(kind, Ok(ImageKind::Snapshot));
}

#[test]
fn the_failure_of_a_part_is_reported_once() {
    let mut disk = disk();
    on_set(&mut disk, sleep).unwrap().unwrap();
    let failures = |area: &mut Area<'_, FakeMedium>| -> Vec<_> {
        assert_eq!(area.unreported_failure(), None);
        area.unreported_part_failures().collect()
    };
    let (damaged, late) = (Failure::DamagedPiece(5), Failure::TimedOut(9));
    on_set(&mut disk, |area| {
        let set = admitted(area);
        area.record_part_failure(&set, 2, damaged).unwrap();
        area.record_part_failure(&set, 0, late).unwrap();
        let absent = area.record_part_failure(&set, 3, late);
        assert_eq!(absent, Err(PartError::Absent(3).into()));
        assert_eq!(area.newest(), Err(NoImage::None));
    });
    disk.restart();
    let slot = SlotId::First;
    let right = [
        (slot, name_hash("critical"), late),
        (slot, name_hash("other"), damaged),
    ];
    assert_eq!(on_set(&mut disk, failures), right);
    on_set(&mut disk, |area| area.mark_reported(slot)).unwrap();
    assert_eq!(on_set(&mut disk, failures), []);
    on_set(&mut disk, |area| {
        let parts = area.parts(slot).iter().map(|part| part.failure);
        assert_eq!(parts.collect::<Vec<_>>(), [Some(late), None, Some(damaged)]);
    });
}

#[test]
fn a_newer_sleep_ends_a_failure_and_its_proof() {
    let mut disk = disk();
    on_set(&mut disk, |area| {
        sleep(area).unwrap().unwrap();
        let old = admitted(area);
        area.record_part_failure(&old, 1, Failure::Reset(1))
            .unwrap();
        sleep(area).unwrap().unwrap();
        assert_eq!(area.unreported_part_failures().count(), 0);
        admitted(area);
        sleep(area).unwrap().unwrap();
        // The slot has another set now.
        let late = area.record_part_failure(&old, 1, Failure::Reset(1));
        assert_eq!(late, Err(StoreError::Stale(SlotId::First)));
        assert!(area.newest().is_ok());
    });
}

/// The power is cut at each command, or the command fails: the set is whole, or it is missing.
#[test]
fn a_commit_is_whole_or_absent() {
    for effect in [Effect::PowerCut, Effect::Fail, Effect::FailAfterwards] {
        let mut wholes = 0;
        for command in 0.. {
            let mut disk = disk().with_seed(command);
            on_set(&mut disk, sleep_for_nothing);
            disk.restart();
            disk.inject(Fault::nth(command, effect));
            let result = on(&mut disk, RecordFormat::Set, None, sleep);
            let commands = disk.log().len() as u64;
            disk.restart();
            let wakes = on_set(&mut disk, |area| match area.newest() {
                Ok(set) => {
                    assert_eq!((set.generation(), area.parts(set.slot()).len()), (2, 3));
                    (0..3).for_each(|index| check_part(area, set.slot(), index));
                    true
                }
                Err(_) => false,
            });
            wholes += u32::from(wakes);
            match result {
                Ok(Some(Ok(_))) => assert!(wakes, "{effect:?} {command}"),
                Ok(Some(Err(CommitError::InDoubt(_)))) => {}
                Ok(_) | Err(_) => assert!(!wakes, "{effect:?} {command}"),
            }
            if command >= commands {
                break;
            }
        }
        assert!(wholes > 0, "{effect:?}");
    }
}

/// After a power cut at each command of a wake, the set wakes once more only if no part of it was
/// admitted.
#[test]
fn a_set_is_consumed_once_whatever_is_cut() {
    let mut asleep = disk();
    on_set(&mut asleep, sleep).unwrap().unwrap();
    for command in 0.. {
        let mut disk = disk().with_seed(command);
        disk.edit(|bytes| bytes.copy_from_slice(asleep.bytes()));
        disk.inject(Fault::nth(command, Effect::PowerCut));
        let woken = on(&mut disk, RecordFormat::Set, None, |area| {
            let set = area.newest().ok()?;
            let set = area.admit(&set).ok()?;
            let noted = area.record_part_failure(&set, 1, Failure::Reset(3));
            Some(noted.is_ok())
        });
        let commands = disk.log().len() as u64;
        disk.restart();
        on_set(&mut disk, |area| {
            let failures = area.unreported_part_failures().count();
            match woken {
                Ok(Some(noted)) => {
                    assert!(area.newest().is_err(), "{command}");
                    assert!(!noted || failures == 1, "{command}");
                }
                _ => assert_eq!(failures, 0, "{command}"),
            }
        });
        if command >= commands {
            assert_eq!(woken, Ok(Some(true)));
            break;
        }
    }
}

#[test]
fn the_counter_guards_a_set() {
    let (mut disk, mut counter) = (disk(), FakeCounter::new(6));
    let format = RecordFormat::Set;
    on(&mut disk, format, Some(&mut counter), sleep)
        .unwrap()
        .unwrap()
        .unwrap();
    assert_eq!(counter.armed(), Some(7));
    let copy = disk.bytes().to_vec();
    on(&mut disk, format, Some(&mut counter), admitted).unwrap();
    disk.edit(|bytes| bytes.copy_from_slice(&copy));
    let again = on(&mut disk, format, Some(&mut counter), |area| {
        let set = area.newest().unwrap();
        area.admit(&set)
    });
    assert_eq!(again, Ok(Err(StoreError::Spent(7))));
}
