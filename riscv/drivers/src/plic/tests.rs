#![allow(clippy::cast_possible_truncation, reason = "numbers here are small")]

use super::model::{Kind, LEVELS, Model};
use super::*;
use crate::WrongLength;

fn described(sources: u32, contexts: &[u32]) -> devicetree::Plic {
    devicetree::Plic {
        base: 0,
        sources,
        contexts: contexts.iter().copied().collect(),
        machine_contexts: contexts.iter().map(|context| context - 1).collect(),
    }
}

/// What an OS might program: another number in each register.
fn program(model: &Model, contexts: &[u32]) {
    for source in 1..=model.sources as u64 {
        model.write(4 * source, 1 + source as u32 % LEVELS);
    }
    for context in contexts.iter().map(|context| u64::from(*context)) {
        for word in 0..=model.sources as u64 / 32 {
            let enables = 0x9e37_79b9_u32.wrapping_mul((context * 37 + word + 1) as u32);
            model.write(0x2000 + 0x80 * context + 4 * word, enables);
        }
        model.write(0x20_0000 + 0x1000 * context, context as u32 % 3);
    }
}

#[test]
fn what_was_programmed_comes_back() {
    for sources in [1, 31, 32, 95, 1023] {
        let contexts = [1, 3, 15871];
        let before = Model::new(Kind::Specified, sources, 15872);
        let described = described(sources as u32, &contexts);
        Plic::new(&before, &described).start();
        program(&before, &contexts);
        let words: Vec<u32> = Plic::new(&before, &described).capture().collect();
        assert!(words.len() <= crate::MAX_WORDS);
        assert_eq!(before.claims.get(), 0, "the OS's to take");

        let after = Model::new(Kind::Specified, sources, 15872);
        let plic = Plic::new(&after, &described);
        plic.start();
        plic.restore(&plic.check(&words[..]).unwrap());
        assert_eq!(before.state, after.state, "{sources} sources");
    }
}

#[test]
fn every_hart_of_the_largest_machine_fits() {
    let contexts: Vec<u32> = (0..MAX_HARTS as u32).map(|hart| 2 * hart + 1).collect();
    let model = Model::new(Kind::Specified, 1023, 2 * MAX_HARTS);
    let plic = Plic::new(&model, &described(1023, &contexts));
    assert!(plic.capture().count() <= crate::MAX_WORDS);
}

#[test]
fn the_record_of_an_image_keeps_its_order() {
    let model = Model::new(Kind::Specified, 33, 4);
    let plic = Plic::new(&model, &described(33, &[3, 1]));
    let offsets: Vec<u64> = plic.offsets().collect();
    let priorities: Vec<u64> = (1..=33).map(|source| 4 * source).collect();
    assert_eq!(offsets[..33], priorities);
    assert_eq!(
        offsets[33..],
        [0x2180, 0x2184, 0x20_3000, 0x2080, 0x2084, 0x20_1000]
    );
}

#[test]
fn after_a_start_every_priority_reaches_the_os() {
    let model = Model::new(Kind::Specified, 40, 4);
    let plic = Plic::new(&model, &described(40, &[1, 3]));
    model.write(4 * 40, 1);
    for context in [0, 1, 2, 3] {
        model.write(0x2000 + 0x80 * context + 4, 1 << 8);
    }
    assert!(!model.is_notified(1, 40));
    plic.start();
    assert!(model.is_notified(1, 40) && model.is_notified(3, 40));
    for machine in [0, 2] {
        let enables = model.state.borrow().enables[&(machine, 1)];
        assert_eq!(enables, 0, "no source interrupts machine mode");
        // Not if another hart enables it meanwhile, with the highest priority.
        model.write(0x2000 + 0x80 * machine as u64 + 4, 1 << 8);
        model.write(4 * 40, LEVELS);
        assert!(!model.is_notified(machine, 40));
    }
}

/// The OS claims each source, and ends before it completes any.
#[test]
fn after_a_start_no_claim_is_open() {
    for kind in [Kind::Specified, Kind::Qemu] {
        for (contexts, sources) in [(vec![1, 3], 40), (vec![1], 31), (vec![1], 1023)] {
            let model = Model::new(kind, sources, 4);
            program(&model, &[1]);
            for word in 0..=sources as u64 / 32 {
                model.write(0x2080 + 4 * word, u32::MAX);
            }
            model.write(0x20_1000, 0);
            (1..=sources).for_each(|source| model.set_level(source, true));
            let claimed = || model.read(0x20_1004);
            assert_eq!((1..=sources).filter(|_| claimed() != 0).count(), sources);
            (1..=sources).for_each(|source| model.set_level(source, false));

            let mut described = described(sources as u32, &contexts);
            let plic = Plic::new(&model, &described);
            plic.start();
            for context in 0..4 {
                assert!(!model.interrupts(context), "nothing is high");
            }
            // The next OS gets what its devices raise.
            for word in 0..=sources as u64 / 32 {
                model.write(0x2080 + 4 * word, u32::MAX);
            }
            (1..=sources).for_each(|source| model.set_level(source, true));
            assert_eq!((1..=sources).filter(|_| claimed() != 0).count(), sources);

            // A tree without machine mode's contexts: no interrupt goes out meanwhile.
            described.machine_contexts.clear();
            Plic::new(&model, &described).start();
            for word in 0..=sources as u64 / 32 {
                model.write(0x2080 + 4 * word, u32::MAX);
            }
            if kind == Kind::Specified {
                // QEMU's forgets the level with the claim.
                assert_eq!((1..=sources).filter(|_| claimed() != 0).count(), sources);
            }
        }
    }
}

#[test]
fn the_state_of_another_plic_is_refused() {
    let model = Model::new(Kind::Specified, 40, 4);
    let plic = Plic::new(&model, &described(40, &[1]));
    let needed = 40 + 2 + 1;
    for found in [0, needed - 1, needed + 1] {
        let error = plic.check(vec![0; found]).unwrap_err();
        assert_eq!(error, WrongLength { needed, found });
    }
    assert!(plic.check(vec![0; needed]).is_ok());
}

#[test]
fn a_shared_context_interrupts_where_a_lent_hart_s_own_does() {
    for kind in [Kind::Specified, Kind::Qemu] {
        let model = Model::new(kind, 40, 4);
        let enable = |context: u64, source: u64| {
            let place = 0x2000 + 0x80 * context + source / 32 * 4;
            model.write(place, model.read(place) | 1 << (source % 32));
        };
        for (source, priority) in [(3, 1), (5, 4), (35, 7)] {
            model.write(4 * source, priority);
        }
        // Contexts 1 and 3 are harts' own, and 2 is machine mode's.
        enable(1, 3);
        enable(1, 35);
        enable(3, 5);
        enable(3, 3);
        model.write(0x20_1000, 2);
        model.write(0x20_3000, 0);
        let shared = SharedContext::new(&model, 40, [1, 3].into_iter().collect(), 2);
        for (lent, sources) in [
            ([true, true], &[3, 5, 35][..]),
            ([true, false], &[35]),
            ([false, true], &[3, 5]),
            ([false, false], &[]),
        ] {
            shared.share(|place| lent[place]);
            for source in [3, 5, 35] {
                let is_notified = model.is_notified(2, source);
                assert_eq!(is_notified, sources.contains(&source), "{lent:?} {source}");
            }
        }
        for source in [3, 5, 35] {
            let notified = [1, 3].map(|context| model.is_notified(context, source));
            model.set_level(source, true);
            assert_eq!([0, 1].map(|place| shared.interrupts(place)), notified);
            model.set_level(source, false);
            let context = if notified[0] { 1 } else { 3 };
            assert_eq!(model.read(0x20_0004 + 0x1000 * context), source as u32);
            model.write(0x20_0004 + 0x1000 * context, source as u32);
        }
        assert!(!shared.interrupts(2), "no such hart");
        assert!(shared.copies(0x2080) && shared.copies(0x20_3000));
        assert!(!shared.copies(0x2100) && !shared.copies(0x20_2000) && !shared.copies(12));
        shared.close();
        assert!((1..=40).all(|source| !model.is_notified(2, source)));
    }
}
