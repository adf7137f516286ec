//! The power goes at every word that is written and every block that is erased:
//! afterwards the vault says what it said before the operation or what it says
//! after it, no number comes twice, and of an erased key nothing is left.
#![allow(clippy::cast_possible_truncation, reason = "numbers here are small")]

mod common;

use common::{CutFlash, Torn};
use poorwill_vault::{
    CutCounter, Key, KeyState, MAX_ITEMS, RollbackCounter, VAULT_VERSION, Vault, VaultError,
};
use proptest::prelude::*;

/// What a user of the vault can see of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct View {
    generation: u64,
    armed: Option<u64>,
    cut: u64,
    key_state: KeyState,
    key: Option<[u8; 32]>,
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Reserve,
    /// Above a number that another disk has.
    ReserveAbove(u64),
    Arm,
    Disarm,
    NextCut,
    MakeRoom,
    Install(u8),
    Rotate(u8),
    Erase,
}

/// A key that no other byte in the flash looks like.
fn key(number: u8) -> [u8; 32] {
    core::array::from_fn(|index| (index as u8 + 1).wrapping_mul(91) ^ number.wrapping_mul(57))
}

fn open<const BLOCK: usize>(flash: CutFlash<BLOCK>) -> Result<Vault<CutFlash<BLOCK>>, VaultError> {
    let length = flash.bytes.len() as u32;
    Vault::open(flash, 0..length)
}

fn view<const BLOCK: usize>(vault: &Vault<CutFlash<BLOCK>>) -> View {
    View {
        generation: vault.generation(),
        armed: vault.armed(),
        cut: vault.cut(),
        key_state: vault.key_state(),
        key: vault.key().map(|key| *key.bytes()),
    }
}

/// Carries out `op`; an operation that the vault's rules refuse is none.
fn run<const BLOCK: usize>(vault: &mut Vault<CutFlash<BLOCK>>, op: Op) -> Result<(), VaultError> {
    let result = match op {
        Op::Reserve => vault.reserve(0).map(|_| ()),
        Op::ReserveAbove(more) => vault.reserve(vault.generation() + more).map(|_| ()),
        Op::Arm => vault.arm(vault.generation()),
        Op::Disarm => vault.disarm(),
        Op::NextCut => vault.next_cut().map(|_| ()),
        Op::MakeRoom => vault.make_room(),
        Op::Install(number) => vault.install_key(Key::new(&key(number))),
        Op::Rotate(number) => vault.rotate_key(Key::new(&key(number))),
        Op::Erase => vault.erase_key(),
    };
    match result {
        Err(VaultError::NotReserved { .. } | VaultError::KeyPresent) => Ok(()),
        other => other,
    }
}

/// How many cuts were made, and how many of them in an open that had something
/// to finish.
#[derive(Debug, Default)]
struct Cuts {
    first: u64,
    second: u64,
}

const fn torn(seed: u64) -> [Torn; 6] {
    [
        Torn::Before,
        Torn::After,
        Torn::Mix(seed),
        Torn::Mix(!seed),
        Torn::Zeros(seed),
        Torn::Ends(seed),
    ]
}

/// Opens what a cut left, also with a second cut at each step of that, and looks
/// whether it is one of `allowed`.
fn check_after_cut<const BLOCK: usize>(
    flash: &CutFlash<BLOCK>,
    allowed: &[View],
    gone: &[u8],
    cuts: &mut Cuts,
    seed: u64,
) {
    let check = |flash: CutFlash<BLOCK>| {
        let mut vault = open(flash).unwrap_or_else(|error| panic!("{error}: {allowed:?}"));
        let seen = view(&vault);
        assert!(allowed.contains(&seen), "{seen:?} is none of {allowed:?}");
        for &number in gone {
            let is_current = seen.key == Some(key(number));
            assert!(is_current || !vault.flash().holds(&key(number)));
        }
        let next = vault.reserve(0).unwrap();
        let highest = allowed.iter().map(|view| view.generation).max();
        assert!(Some(next) > highest || next == seen.generation + 1);
        assert_eq!(vault.armed(), None);
        assert_eq!(vault.next_cut(), Ok(seen.cut + 1));
        vault.arm(next).unwrap();
        let again = open(vault.flash().powered()).unwrap();
        assert_eq!(
            (again.armed(), again.key_state(), again.cut()),
            (Some(next), seen.key_state, seen.cut + 1)
        );
        let steps = vault.flash().steps;
        (steps, seen)
    };
    check(flash.powered());
    let opened = open(flash.powered()).unwrap();
    let steps = opened.flash().steps;
    for step in 0..steps {
        for torn in torn(seed + step) {
            cuts.second += 1;
            let mut second = flash.powered().cut_at(step, torn);
            let length = second.bytes.len() as u32;
            assert!(Vault::open(&mut second, 0..length).is_err());
            check(second.powered());
        }
    }
}

/// Runs `ops` one after the other, each first with every possible cut.
fn explore<const BLOCK: usize>(start: CutFlash<BLOCK>, ops: &[Op]) -> (Cuts, u64) {
    let mut cuts = Cuts::default();
    let mut flash = start;
    let mut gone = Vec::new();
    let mut erases = 0;
    for (index, &op) in ops.iter().enumerate() {
        let vault = open(flash.powered()).unwrap();
        assert_eq!(vault.flash().steps, 0, "a vault at rest is only read");
        let before = view(&vault);
        let mut done = vault;
        run(&mut done, op).unwrap();
        let after = view(&done);
        let steps = done.flash().steps;
        erases += done.flash().erases;
        if let (Some(old), true) = (before.key, before.key != after.key) {
            gone.extend((0..=u8::MAX).filter(|&number| key(number) == old));
        }
        for step in 0..steps {
            for torn in torn((index as u64) << 20 | step << 4) {
                cuts.first += 1;
                let mut cut = open(flash.powered().cut_at(step, torn)).unwrap();
                assert!(run(&mut cut, op).is_err());
                check_after_cut(cut.flash(), &[before, after], &gone, &mut cuts, step);
            }
        }
        flash = done.flash().powered();
        for &number in &gone {
            assert!(after.key == Some(key(number)) || !flash.holds(&key(number)));
        }
    }
    (cuts, erases)
}

fn sleeps(count: usize) -> impl Iterator<Item = Op> {
    [Op::Reserve, Op::Arm, Op::Disarm]
        .into_iter()
        .cycle()
        .take(3 * count)
}

fn blank<const BLOCK: usize>() -> CutFlash<BLOCK> {
    CutFlash::new(vec![0xff; 4 * BLOCK])
}

fn new<const BLOCK: usize>() -> CutFlash<BLOCK> {
    open(blank::<BLOCK>()).unwrap().flash().powered()
}

#[test]
fn a_cut_while_a_vault_is_made_leaves_one_that_is_made_at_the_next_open() {
    let made = open(blank::<512>()).unwrap();
    let mut cuts = Cuts::default();
    for step in 0..made.flash().steps {
        for seed in 0..16 {
            for torn in torn(seed) {
                cuts.first += 1;
                let mut cut = blank::<512>().cut_at(step, torn);
                assert!(Vault::open(&mut cut, 0..2048).is_err());
                check_after_cut(&cut, &[view(&made)], &[], &mut cuts, seed);
            }
        }
    }
    assert_eq!(cuts.first, made.flash().steps * 16 * 6);
    assert!(cuts.second > cuts.first, "{cuts:?}");
    println!("{cuts:?}");
}

#[test]
fn every_cut_leaves_the_state_before_or_after() {
    let mut ops = vec![Op::Arm, Op::Reserve, Op::Arm, Op::Install(1)];
    ops.extend(sleeps(12));
    ops.extend([Op::Reserve, Op::Arm, Op::Rotate(2), Op::Rotate(3)]);
    ops.extend(sleeps(9));
    ops.extend([Op::ReserveAbove(1000), Op::Arm, Op::Erase, Op::Erase]);
    ops.extend(sleeps(3));
    ops.extend([
        Op::Install(4),
        Op::Rotate(5),
        Op::ReserveAbove(7),
        Op::Rotate(6),
        Op::NextCut,
    ]);
    ops.extend(sleeps(2));
    ops.extend([
        Op::NextCut,
        Op::MakeRoom,
        Op::Erase,
        Op::NextCut,
        Op::Rotate(7),
    ]);
    ops.extend([Op::NextCut; 5]);
    ops.extend(sleeps(20));
    let (cuts, erases) = explore::<512>(new(), &ops);
    println!("{cuts:?}, {erases} erases");
    assert!(cuts.first > 5_000 && cuts.second > 5_000, "{cuts:?}");
    assert!(erases > 10, "the halves changed: {erases}");
}

#[test]
fn cuts_where_the_number_of_items_is_what_ends_a_half() {
    let mut flash = open(new::<0x4000>()).unwrap();
    flash.install_key(Key::new(&key(1))).unwrap();
    for op in sleeps(MAX_ITEMS as usize / 3 - 3) {
        run(&mut flash, op).unwrap();
    }
    let ops: Vec<Op> = sleeps(5).collect();
    let (cuts, erases) = explore(flash.flash().powered(), &ops);
    println!("{cuts:?}, {erases} erases");
    assert_eq!(erases, 1);
    assert!(cuts.first > 500 && cuts.second > 100, "{cuts:?}");
}

/// Whatever a vault was through, what comes behind [`CutCounter::make_room`] erases nothing,
/// and is a few words: it fits into what a power supply holds up.
#[test]
fn the_next_cut_is_a_few_words_where_room_was_made() {
    let mut vault = open(new::<0x4000>()).unwrap();
    vault.install_key(Key::new(&key(1))).unwrap();
    let mut moved = 0;
    for cut in 1..=2 * u64::from(MAX_ITEMS) {
        let before = vault.flash().erases;
        vault.make_room().unwrap();
        moved += vault.flash().erases - before;
        let (erases, steps) = (vault.flash().erases, vault.flash().steps);
        assert_eq!(vault.next_cut(), Ok(cut));
        // The first makes a vault of the next version.
        if cut > 1 {
            assert_eq!(vault.flash().erases, erases);
            assert!(vault.flash().steps - steps <= 8);
        }
    }
    assert_eq!((moved, vault.version()), (2, VAULT_VERSION));
    // One whose outcome is unknown is not left for the next.
    let mut flash = vault.flash().powered();
    flash.fail = Some((0, 1));
    let mut vault = open(flash).unwrap();
    let cut = vault.cut();
    assert!(vault.next_cut().is_err());
    vault.make_room().unwrap();
    assert_eq!(vault.flash().erases, 1);
    assert_eq!(vault.cut(), cut);
    assert_eq!(vault.next_cut(), Ok(cut + 1));
    assert_eq!(vault.flash().erases, 1);
}

/// Thousands of operations in which the power goes all the time, without looking
/// at each cut from its start: so cuts pile up in the same half.
#[test]
fn cuts_on_cuts() {
    let mut flash = new::<1024>();
    let (mut highest, mut taken, mut cuts, mut erases) = (0, 0, 0, 0);
    let mut installed = open(flash.powered()).unwrap();
    installed.install_key(Key::new(&key(9))).unwrap();
    flash = installed.flash().powered();
    for round in 0..20_000_u64 {
        let step = round * 7 % 61;
        let torn = torn(round)[(round / 61 % 6) as usize];
        let mut powered = flash.powered().cut_at(step, torn);
        match Vault::open(&mut powered, 0..4096) {
            Ok(mut vault) => {
                assert_eq!(vault.key().map(Key::bytes), Some(&key(9)));
                assert!(vault.generation() >= highest, "a number is lost");
                while let Ok(number) = vault.reserve(0) {
                    assert!(number > highest, "number {number} comes twice");
                    (highest, taken) = (number, taken + 1);
                    if vault.arm(number).is_err() {
                        break;
                    }
                    assert_eq!(vault.armed(), Some(number));
                }
            }
            Err(error) => assert!(matches!(error, VaultError::Flash(_)), "{error}"),
        }
        cuts += 1;
        erases += powered.erases;
        flash = powered.powered();
    }
    println!("{cuts} cuts, {taken} numbers, {erases} erases");
    assert!(taken > 5_000 && erases > 200, "{taken} {erases}");
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => Just(Op::Reserve),
        1 => (0_u64..1 << 40).prop_map(Op::ReserveAbove),
        4 => Just(Op::Arm),
        2 => Just(Op::Disarm),
        1 => any::<u8>().prop_map(Op::Install),
        1 => any::<u8>().prop_map(Op::Rotate),
        1 => Just(Op::Erase),
        3 => Just(Op::NextCut),
        1 => Just(Op::MakeRoom),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Random operations with a random cut, on and on.
    #[test]
    fn any_operations_with_any_cuts(
        steps in prop::collection::vec((op(), any::<bool>(), 0_u64..60, any::<u64>()), 1..60),
    ) {
        let mut flash = new::<512>();
        let mut ever: Vec<u8> = Vec::new();
        for (op, is_cut, step, seed) in steps {
            let mut vault = open(flash.powered()).unwrap();
            let before = view(&vault);
            run(&mut vault, op).unwrap();
            let after = view(&vault);
            let new_key = match op {
                Op::Install(number) | Op::Rotate(number) if before != after => Some(number),
                _ => None,
            };
            // A key that did not become the vault's may leave bytes behind.
            ever.retain(|&other| Some(other) != new_key);
            if is_cut {
                let mut cut = open(flash.powered().cut_at(step, torn(seed)[(seed % 6) as usize])).unwrap();
                let is_done = run(&mut cut, op).is_ok();
                vault = open(cut.flash().powered()).unwrap();
                let seen = view(&vault);
                prop_assert!(seen == after || !is_done && seen == before, "{seen:?} {before:?} {after:?}");
            }
            if view(&vault) == after {
                ever.extend(new_key);
            }
            for &number in &ever {
                let is_current = vault.key().map(Key::bytes) == Some(&key(number));
                prop_assert!(is_current || !vault.flash().holds(&key(number)));
            }
            flash = vault.flash().powered();
        }
    }
}
