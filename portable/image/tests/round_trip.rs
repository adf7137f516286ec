//! Saved, and loaded again: memory is what it was, whatever the medium is like.

mod common;

use common::{HERE, MIB, Machine, NAME, Threads, WORDS, committed, here, key};
use poorwill_image::{
    LoadError, NoWorkers, OpenError, PIECE_PAGES, Progress, SaveError, Workspace, data_offset,
    inspect, load, open, verify,
};
use poorwill_medium::MediumError;
use poorwill_medium::fake::{Command, Effect, FakeMedium, Fault, INJECTED_STATUS};
use poorwill_memory::{Difference, MachineIdentity, PAGE_BYTES, Page};
use proptest::prelude::*;

/// How much of memory is in use, in 256ths.
fn density() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0u64), Just(256u64), 1u64..256]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn memory_comes_back(
        ranges in prop::collection::vec(1u64..500, 1..5),
        (before, after) in (density(), density()),
        (max_pages, depth) in (1usize..300, 1usize..=64),
        seed: u64,
        sealed: bool,
        threads in 0usize..4,
    ) {
        let used = |density: u64, salt: u64| move |index: u64| {
            (index ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56 < density
        };
        let mut machine = Machine::new(&ranges);
        machine.key = sealed.then(|| key(1));
        machine.workers = Box::new(Threads(threads));
        machine.fill(seed, used(before, seed));
        let wanted = machine.memory.contents();
        let mut medium = FakeMedium::new(10 * MIB).with_limits(max_pages, depth).with_seed(seed);

        let saved = machine.save(&mut medium).unwrap();
        prop_assert!(machine.memory.contents() == wanted, "saving changes nothing");
        prop_assert_eq!(saved.saved_pages(), wanted.iter().filter(|page| !page.is_zero()).count() as u64);
        medium.restart();

        machine.fill(!seed, used(after, !seed));
        machine.workspace.fill(Page([0xabad_1dea; 512]));
        let loaded = machine.load(&mut medium, saved.header_checksum()).unwrap().unwrap();
        prop_assert!(machine.memory.contents() == wanted, "memory is as it was");
        prop_assert_eq!(loaded.loaded_pages(), saved.saved_pages());
        prop_assert!(machine.memory.gaps_are_intact());
    }
}

/// What is durable early need not be waited for at the end.
#[test]
fn large_images_are_flushed_on_the_way() {
    let flushes = |pages: u64| {
        let mut machine = Machine::filled(&[pages], |_| true);
        let mut medium = FakeMedium::new((pages + 1024) * PAGE_BYTES);
        machine.save(&mut medium).unwrap();
        let is_flush = |command: &&Command| **command == Command::Flush;
        medium.log().iter().filter(is_flush).count()
    };
    assert_eq!(flushes(1 << 15), 1, "128 MiB: the end alone");
    assert_eq!(flushes(5 << 14), 2, "320 MiB: the end, and one before");
}

#[test]
fn state_comes_back() {
    let mut machine = Machine::filled(&[5], |index| index < 2);
    let mut medium = FakeMedium::new(2 * MIB);
    let saved = machine.save(&mut medium).unwrap();
    let workspace = Workspace::new(&mut machine.workspace, 5).unwrap();
    let image = inspect(
        &mut medium,
        committed(saved.header_checksum()),
        None,
        workspace,
    )
    .unwrap();
    let mut state = image.state().unwrap();
    let words = state.take(7, 0).unwrap();
    assert_eq!(words.read::<[u64]>(1), Ok(&WORDS[..]));
    let name = state.take(9, 0).unwrap();
    assert_eq!((name.version, name.payload), (2, NAME));
    assert!(state.left().is_empty());
    assert_eq!(image.header().generation, 3);
    assert_eq!(image.header().saved_at_ns, 1_700_000_000_000_000_000);
    assert_eq!(image.header().image_bytes(), saved.image_bytes());
    assert_eq!(image.map().members().collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn saves_in_as_few_transfers_as_the_medium_allows() {
    let pages = 2 * PIECE_PAGES + 10;
    for (max_pages, transfers) in [(256, 3), (1000, 3), (64, 9), (100, 7)] {
        let mut machine = Machine::filled(&[pages], |_| true);
        let mut medium = FakeMedium::new(8 * MIB).with_limits(max_pages, 4);
        machine.save(&mut medium).unwrap();
        let writes = medium
            .log()
            .iter()
            .filter(|command| **command == Command::Write)
            .count();
        assert_eq!(
            writes,
            transfers + 4,
            "{max_pages} pages at once, and four sections"
        );
        assert_eq!(medium.log().last(), Some(&Command::Flush));
    }
}

#[test]
fn progress_rises_to_its_end() {
    let mut machine = Machine::filled(&[10_000], |index| index % 20 == 0);
    let mut medium = FakeMedium::new(8 * MIB);
    let saved = machine.save(&mut medium).unwrap();
    let os = machine.memory.os();
    let workspace = Workspace::new(&mut machine.workspace, 10_000).unwrap();
    let opened = open(
        &mut medium,
        committed(saved.header_checksum()),
        &here(HERE, 10_000, None),
        workspace,
    )
    .unwrap();
    let mut seen: Vec<Progress> = Vec::new();
    load(&mut medium, &opened, os, &NoWorkers, &mut |progress| {
        seen.push(progress)
    })
    .unwrap();
    assert!(seen.is_sorted_by_key(|progress| progress.done_pages));
    let end = Progress {
        done_pages: 500,
        total_pages: 500,
        moved_bytes: 500 * PAGE_BYTES,
    };
    assert_eq!(seen.last(), Some(&end));
}

#[test]
fn tells_exactly_how_much_room_is_missing() {
    let mut machine = Machine::filled(&[700], |index| index % 2 == 0);
    let state_bytes = 16 + 24 + 16 + 8;
    let needed_bytes = data_offset(700, state_bytes) + 350 * PAGE_BYTES;
    for slot_bytes in [PAGE_BYTES, MIB, 2 * MIB, needed_bytes - PAGE_BYTES] {
        let mut medium = FakeMedium::new(slot_bytes);
        let error = SaveError::TooSmall {
            needed_bytes,
            slot_bytes,
        };
        assert_eq!(machine.save(&mut medium), Err(error));
    }
    let mut medium = FakeMedium::new(needed_bytes);
    let saved = machine.save(&mut medium).unwrap();
    assert_eq!(saved.image_bytes(), needed_bytes);
    machine
        .load(&mut medium, saved.header_checksum())
        .unwrap()
        .unwrap();
}

#[test]
fn empty_memory_needs_a_header_at_least() {
    let mut machine = Machine::new(&[3]);
    for slot_bytes in [0, PAGE_BYTES, MIB - PAGE_BYTES] {
        let mut medium = FakeMedium::new(slot_bytes);
        let error = SaveError::TooSmall {
            needed_bytes: MIB,
            slot_bytes,
        };
        assert_eq!(machine.save(&mut medium), Err(error));
    }
    let mut medium = FakeMedium::new(MIB);
    let saved = machine.save(&mut medium).unwrap();
    machine
        .load(&mut medium, saved.header_checksum())
        .unwrap()
        .unwrap();
}

#[test]
fn refuses_another_machine() {
    let mut machine = Machine::filled(&[20], |_| true);
    let mut medium = FakeMedium::new(2 * MIB);
    let committed = machine.save(&mut medium).unwrap().header_checksum();
    let mut open_as = |identity: MachineIdentity, pages| {
        let workspace = Workspace::new(&mut machine.workspace, 20).unwrap();
        let here = here(identity, pages, None);
        open(&mut medium, self::committed(committed), &here, workspace).err()
    };
    let other = |difference| Some(OpenError::OtherMachine(difference));
    assert_eq!(open_as(HERE, 20), None);
    assert_eq!(open_as(HERE, 21), other(Difference::MemoryMap));
    assert_eq!(
        open_as(MachineIdentity { memory: 0, ..HERE }, 20),
        other(Difference::MemoryMap)
    );
    assert_eq!(
        open_as(MachineIdentity { harts: 0, ..HERE }, 20),
        other(Difference::Harts)
    );
    assert_eq!(
        open_as(MachineIdentity { isa: 0, ..HERE }, 20),
        other(Difference::Isa)
    );
    assert_eq!(
        open_as(
            MachineIdentity {
                device_tree: 0,
                ..HERE
            },
            20
        ),
        other(Difference::DeviceTree)
    );
}

#[test]
fn refuses_other_memory_than_it_was_opened_for() {
    let mut machine = Machine::filled(&[20], |_| true);
    let mut medium = FakeMedium::new(2 * MIB);
    let committed = machine.save(&mut medium).unwrap().header_checksum();
    let mut other = Machine::new(&[19]);
    let workspace = Workspace::new(&mut machine.workspace, 20).unwrap();
    let here = here(HERE, 20, None);
    let opened = open(&mut medium, self::committed(committed), &here, workspace).unwrap();
    let error = LoadError::OtherMemory {
        image_pages: 20,
        memory_pages: 19,
    };
    assert_eq!(
        load(
            &mut medium,
            &opened,
            other.memory.os(),
            &NoWorkers,
            &mut |_| ()
        ),
        Err(error)
    );
}

#[test]
fn every_failing_command_of_a_save_is_reported() {
    let plain = Machine::filled(&[300], |_| true);
    a_save_with_failing_commands(plain);
    let sealing = Machine::filled(&[300], |_| true).sealing();
    a_save_with_failing_commands(sealing);
    let mut together = Machine::filled(&[3000], |_| true).sealing();
    together.workers = Box::new(Threads(2));
    a_save_with_failing_commands(together);
}

fn a_save_with_failing_commands(mut machine: Machine) {
    let mut medium = FakeMedium::new(16 * MIB).with_limits(48, 3);
    machine.save(&mut medium).unwrap();
    let commands = medium.log().len() as u64;
    let wanted = machine.memory.contents();
    for (effect, n) in [Effect::Fail, Effect::Stall]
        .into_iter()
        .flat_map(|e| (0..commands).map(move |n| (e, n)))
    {
        medium.restart();
        medium.inject(Fault::nth(n, effect));
        let Err(SaveError::Medium(error)) = machine.save(&mut medium) else {
            panic!("command {n} failed unnoticed");
        };
        match (effect, error) {
            (Effect::Stall, MediumError::TimedOut(_)) => {}
            (Effect::Fail, MediumError::Flush(status) | MediumError::Device { status, .. }) => {
                assert_eq!(status, INJECTED_STATUS);
            }
            _ => panic!("{effect:?} of command {n} became {error}"),
        }
        assert!(machine.memory.contents() == wanted);
    }
}

#[test]
fn every_failing_command_of_a_load_is_reported() {
    let machine = || Machine::filled(&[300, 300], |index| index % 3 > 0);
    a_load_with_failing_commands(machine());
    a_load_with_failing_commands(machine().sealing());
}

fn a_load_with_failing_commands(mut machine: Machine) {
    let mut medium = FakeMedium::new(4 * MIB).with_limits(32, 3);
    let committed = machine.save(&mut medium).unwrap().header_checksum();
    medium.restart();
    machine.load(&mut medium, committed).unwrap().unwrap();
    let commands = medium.log().len() as u64;
    for n in 0..commands {
        for effect in [
            Effect::Fail,
            Effect::FailAfterwards,
            Effect::Stall,
            Effect::Lie,
        ] {
            medium.restart();
            machine.fill(n + 7, |_| true);
            machine.workspace.fill(Page([n; 512]));
            medium.inject(Fault::nth(n, effect));
            assert!(
                !matches!(machine.load(&mut medium, committed), Ok(Ok(_))),
                "command {n}, {effect:?}"
            );
            assert!(machine.memory.gaps_are_intact());
        }
    }
}

#[test]
fn damaged_data_is_found_and_named() {
    let mut machine = Machine::filled(&[600], |_| true);
    let mut medium = FakeMedium::new(4 * MIB);
    let committed = machine.save(&mut medium).unwrap().header_checksum();
    for sample in 0..200u64 {
        let byte = sample * 997 * 31 % (600 * PAGE_BYTES);
        let bit = (sample % 8) as u8;
        let error = LoadError::DamagedPiece { piece: byte / MIB };
        medium.flip(MIB + byte, bit);
        if sample % 20 == 0 {
            assert_eq!(machine.load(&mut medium, committed).unwrap(), Err(error));
        }
        let workspace = Workspace::new(&mut machine.workspace, 600).unwrap();
        let image = inspect(&mut medium, self::committed(committed), None, workspace).unwrap();
        let mut scratch = vec![Page::ZERO; 100];
        assert_eq!(
            verify(&mut medium, &image, &mut scratch, &mut |_| ()),
            Err(error)
        );
        medium.flip(MIB + byte, bit);
    }
    let workspace = Workspace::new(&mut machine.workspace, 600).unwrap();
    let image = inspect(&mut medium, self::committed(committed), None, workspace).unwrap();
    for pages in [1, 255, 256, 1000] {
        let mut scratch = vec![Page::ZERO; pages];
        assert_eq!(
            verify(&mut medium, &image, &mut scratch, &mut |_| ()),
            Ok(())
        );
    }
}

/// Nobody looks at what a device may still write: neither the one that waits for it
/// nor those who check and open what has arrived.
#[test]
fn a_medium_may_scribble_until_it_is_done() {
    for (threads, depth) in [(0, 1), (0, 8), (3, 1), (3, 8)] {
        for sealed in [false, true] {
            let mut machine = Machine::filled(&[700, 800], |index| !index.is_multiple_of(9));
            if sealed {
                machine = machine.sealing();
            }
            let wanted = machine.memory.contents();
            machine.workers = Box::new(Threads(threads));
            let medium = FakeMedium::new(16 * MIB).with_limits(48, depth);
            let mut medium = medium.with_scribbles().with_seed(depth as u64);
            let saved = machine.save(&mut medium).unwrap();
            machine.fill(2, |_| true);
            machine
                .load(&mut medium, saved.header_checksum())
                .unwrap()
                .unwrap();
            assert!(machine.memory.contents() == wanted, "{threads} {depth}");
        }
    }
}
