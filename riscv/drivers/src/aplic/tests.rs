#![allow(clippy::cast_possible_truncation, reason = "numbers here are small")]

mod model;

use self::model::{Kind, Model};
use super::*;
use crate::WrongLength;

/// Source modes (AIA, table in 4.5.2).
const DETACHED: u32 = 1;
const RISING_EDGE: u32 = 4;
const HIGH_LEVEL: u32 = 6;

fn described(sources: u32, harts: &[u32], sends_msi: bool) -> Aplic {
    let mut described = Aplic::default();
    described.sources = sources;
    described.msi_parent = sends_msi.then_some(1);
    described.harts = harts.iter().copied().collect();
    described
}

/// What an OS might program: another number in each register.
fn program(model: &Model, harts: &[u32], mode: u32) {
    model.write(register::DOMAINCFG, mode);
    for source in 1..=model.sources {
        let kind = [0, DETACHED, RISING_EDGE, HIGH_LEVEL][source as usize % 4];
        model.write(register::SOURCECFG + 4 * u64::from(source - 1), kind);
        let target = (source % 5) << 18 | (1 + source % 200);
        model.write(register::TARGET + 4 * u64::from(source - 1), target);
    }
    for word in 0..=model.sources / 32 {
        let enables = 0x9e37_79b9_u32.wrapping_mul(word + 1);
        model.write(register::SETIE + 4 * u64::from(word), enables);
    }
    for hart in harts {
        let control = register::IDC + register::IDC_STRIDE * u64::from(*hart);
        model.write(control + register::ITHRESHOLD, hart + 2);
        model.write(control + register::IDELIVERY, 1);
    }
    model.write(register::DOMAINCFG, mode | INTERRUPT_ENABLE);
}

#[test]
fn what_was_programmed_comes_back() {
    for sources in [1, 31, 32, 96, 1023] {
        for (kind, mode) in [(Kind::Direct, 0), (Kind::Msi, model::DELIVERY_MODE)] {
            let harts: &[u32] = if kind == Kind::Direct { &[2, 0] } else { &[] };
            let described = described(sources, &[2, 0], kind == Kind::Msi);
            let before = Model::new(kind, sources, 3);
            before.reset();
            program(&before, harts, mode);
            let words: Vec<u32> = Domain::new(&before, &described).capture().collect();
            assert!(words.len() <= crate::MAX_WORDS);

            // What a reset leaves in the registers is anything.
            let after = Model::new(kind, sources, 3);
            after.spoil();
            after.reset();
            let domain = Domain::new(&after, &described);
            domain.restore(&domain.check(&words[..]).unwrap());
            assert_eq!(
                before.programmed(),
                after.programmed(),
                "{kind:?} {sources}"
            );
        }
    }
}

#[test]
fn nothing_is_delivered_half_restored() {
    let described = described(96, &[0], false);
    let before = Model::new(Kind::Direct, 96, 1);
    program(&before, &[0], 0);
    let words: Vec<u32> = Domain::new(&before, &described).capture().collect();
    let after = Model::new(Kind::Direct, 96, 1);
    // As the next stage may have left it.
    after.write(register::DOMAINCFG, INTERRUPT_ENABLE);
    let domain = Domain::new(&after, &described);
    after.forbid_changes_while_enabled();
    domain.restore(&domain.check(&words[..]).unwrap());
    assert_eq!(before.programmed(), after.programmed());
}

#[test]
fn what_is_pending_comes_back_before_it_is_let_out() {
    let described = described(96, &[], true);
    let before = Model::new(Kind::Msi, 96, 0);
    program(&before, &[], model::DELIVERY_MODE);
    let kept = Domain::new(&before, &described);
    // Sources of each mode; an inactive one is not pending.
    for source in [1, 2, 3, 4, 33, 94] {
        kept.raise(source);
    }
    let words: Vec<u32> = kept.capture().collect();
    let pending: Vec<u32> = kept.pending().collect();
    assert_eq!(pending, [0b1110, 0b10, 1 << 30, 0]);

    let after = Model::new(Kind::Msi, 96, 0);
    after.spoil();
    after.reset();
    let domain = Domain::new(&after, &described);
    let state = domain.check(&words[..]).unwrap();
    after.forbid_changes_while_enabled();
    domain.put_back(&state);
    assert!(!after.is_enabled());
    domain.let_out(&state, &pending);
    assert_eq!(after.pending(), before.pending());
    assert_eq!(after.programmed(), before.programmed());
}

#[test]
fn every_hart_of_the_largest_machine_fits() {
    let harts: Vec<u32> = (0..MAX_HARTS as u32).collect();
    let model = Model::new(Kind::Direct, 1023, MAX_HARTS);
    let domain = Domain::new(&model, &described(1023, &harts, false));
    assert!(domain.capture().count() <= crate::MAX_WORDS);
}

#[test]
fn the_record_of_an_image_keeps_its_order() {
    let model = Model::new(Kind::Direct, 2, 4);
    let offsets = |sends_msi| {
        let domain = Domain::new(&model, &described(2, &[3, 1], sends_msi));
        domain.offsets().collect::<Vec<_>>()
    };
    let (sources, end) = ([0x4, 0x8, 0x3004, 0x3008, 0x1e00], [0]);
    let controls = [0x4068, 0x4060, 0x4028, 0x4020];
    assert_eq!(offsets(true), [&sources[..], &end].concat());
    assert_eq!(offsets(false), [&sources[..], &controls, &end].concat());
}

#[test]
fn the_state_of_another_domain_is_refused() {
    let model = Model::new(Kind::Msi, 40, 0);
    let domain = Domain::new(&model, &described(40, &[], true));
    let needed = 40 + 40 + 2 + 1;
    for found in [0, needed - 1, needed + 1] {
        let error = domain.check(vec![0; found]).unwrap_err();
        assert_eq!(error, WrongLength { needed, found });
    }
}

#[test]
fn only_an_active_source_is_raised() {
    let model = Model::new(Kind::Msi, 96, 0);
    let domain = Domain::new(&model, &described(96, &[], true));
    model.write(register::SOURCECFG + 4 * 95, RISING_EDGE);
    for source in [0, 95, 96, 97] {
        domain.raise(source);
    }
    assert_eq!(model.pending(), [96]);
}

#[test]
fn the_root_hands_down_what_the_tree_says() {
    let mut described = described(64, &[], true);
    // Bounds that the tree may have wrong are those of the domain.
    described
        .delegated
        .extend([(1, 0, 10), (1, 60, 2000), (0, 20, 20)]);
    let model = Model::new(Kind::Root, 64, 0);
    model.spoil();
    Root::new(&model, &described).start();
    for source in 1..=64 {
        let expected = match source {
            1..=10 | 60..=64 => Some(1),
            20 => Some(0),
            _ => None,
        };
        assert_eq!(model.child_of(source), expected, "source {source}");
    }
    let programmed = model.programmed();
    assert!(programmed.enables.values().all(|word| *word == 0));
    assert!(!model.is_enabled());
}

#[test]
fn messages_go_to_the_files_of_the_harts() {
    let mut layout = ImsicLayout::default();
    (layout.base, layout.hart_bits) = (0x2400_0000, 3);
    (layout.group_bits, layout.group_shift) = (2, 36);
    let mut os = layout;
    (os.base, os.guest_bits) = (0xf_0000_0000, 2);
    let model = Model::new(Kind::Root, 96, 0);
    let mut described = described(96, &[], true);
    described.imsics = Some([layout, os]);
    Root::new(&model, &described).start();
    for (group, hart) in [(0, 0), (0, 7), (3, 0), (2, 5)] {
        let index = group << 3 | hart;
        let group = group << 36;
        assert_eq!(
            model.machine_file(index),
            0x2400_0000 + group + 0x1000 * hart
        );
        assert_eq!(model.os_file(index), 0xf_0000_0000 + group + 0x4000 * hart);
    }
}
