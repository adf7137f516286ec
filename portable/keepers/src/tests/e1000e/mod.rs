//! The 82574 over a cut.

mod model;
mod nic;

use std::cell::RefCell;
use std::vec::Vec;

use proptest::prelude::*;

use self::model::*;
use self::nic::{Nic, SENT, plain};
use super::machine::FUNCTION;
use super::{Record, go, go_with_power_failures, stop};
use crate::KeeperError;

proptest! {
    /// Whatever of the ring was sent, the rest is sent behind it, each packet once, and
    /// nothing of what lies in the ring from earlier.
    #[test]
    fn each_packet_is_sent_once(first in 0u32..8, taken in 0u32..8, queued in 0u32..8, trickles in any::<bool>()) {
        let mut nic = Nic::new();
        nic.take(8);
        nic.send(first);
        nic.take(taken);
        nic.send(queued.min(7));
        nic.model.borrow_mut().is_trickling = trickles;
        nic.model.borrow_mut().has_one_under_way = !trickles;
        let record = nic.cut();
        nic.model.borrow_mut().budget = 100;
        go(&nic.machine, &record).unwrap();
        prop_assert_eq!(nic.wire(), (1..=nic.sent).collect::<Vec<_>>());
    }
}

#[test]
fn all_registers_are_as_they_were() {
    let nic = Nic::new();
    let before = nic.state();
    assert!(plain().all(|register| before.0.contains_key(&register)));
    assert_eq!(before.1, 0x0010_0018);
    let record = nic.cut();
    assert_ne!(nic.state(), before);
    go(&nic.machine, &record).unwrap();
    assert_eq!(nic.state(), before);
}

#[test]
fn what_was_sent_is_written_back_before_the_power_goes() {
    let mut nic = Nic::new();
    nic.write(TXDCTL, 16 << 16);
    nic.take(3);
    nic.send(3);
    let is_done = |nic: &Nic, place: u64| nic.machine.board.word(SENT + 16 * place + 8) & 1 != 0;
    assert!(!is_done(&nic, 5));
    nic.cut();
    assert!((5..8).all(|place| is_done(&nic, place)));
}

#[test]
fn what_arrives_goes_to_the_same_ring() {
    let mut nic = Nic::new();
    assert!(nic.arrive(70) && nic.arrive(71));
    let place = nic.poll(5);
    assert!(nic.arrive(72));
    let record = nic.cut();
    assert!(!nic.arrive(73), "it is off");
    go(&nic.machine, &record).unwrap();
    assert!(nic.arrive(74));
    nic.poll(place);
    assert_eq!(nic.received, [70, 71, 72, 74]);
}

#[test]
fn the_driver_hears_of_everything_once_it_is_to() {
    let nic = Nic::new();
    let record = nic.cut();
    go(&nic.machine, &record).unwrap();
    let mut vectors = nic.vectors();
    vectors.sort_unstable();
    assert_eq!(vectors, [0, 1, 2]);
}

#[test]
fn a_driver_that_polls_hears_when_it_enables_interrupts() {
    let nic = Nic::new();
    nic.write(IMC, RXQ0);
    assert!(nic.arrive(70));
    let record = nic.cut();
    go(&nic.machine, &record).unwrap();
    assert!(!nic.vectors().contains(&0));
    nic.write(IMS, RXQ0);
    assert_eq!(nic.vectors(), [0]);
}

#[test]
fn no_message_is_sent_once_it_is_stopping() {
    let nic = Nic::new();
    nic.machine.board.take_messages();
    stop(&nic.machine).unwrap();
    assert_eq!(nic.machine.board.messages(), []);
}

#[test]
fn accesses_that_the_driver_waits_for_come_to_an_end() {
    let nic = Nic::new();
    nic.write(MDIC, 1 << 21 | 1 << 16 | 2 << 26);
    nic.write(EERD, 3 << 2 | 1);
    let wanted = [nic.read(MDIC), nic.read(EERD)];
    assert_eq!(wanted, [0x1821_0201, 0x0103_000e]);
    let record = nic.cut();
    go(&nic.machine, &record).unwrap();
    assert_eq!([nic.read(MDIC), nic.read(EERD)], wanted);
}

#[test]
fn one_that_goes_on_writing_memory_is_not_kept() {
    let nic = Nic::new();
    nic.model.borrow_mut().is_stuck = true;
    let error = stop(&nic.machine).err();
    assert_eq!(error, Some(KeeperError::NotDone(FUNCTION)));
}

/// A driver that has sent half of what it is to, and what comes of it.
fn half_sent() -> (Nic, Record) {
    let mut nic = Nic::new();
    nic.take(2);
    nic.send(5);
    let record = stop(&nic.machine).unwrap();
    (nic, record)
}

#[test]
fn twice_is_once() {
    let (nic, record) = half_sent();
    nic.machine.power_cycle();
    crate::put_back(&nic.machine, &record.sections()).unwrap();
    let once = nic.state();
    // It neither sends nor receives before harts go on.
    nic.take(100);
    assert_eq!(nic.wire(), [1, 2]);
    crate::put_back(&nic.machine, &record.sections()).unwrap();
    assert_eq!(nic.state(), once);
    go(&nic.machine, &record).unwrap();
    nic.take(100);
    assert_eq!(nic.wire(), [1, 2, 3, 4, 5]);
}

#[test]
fn the_power_may_fail_at_any_instant_of_go() {
    let (nic, record) = half_sent();
    nic.machine.power_cycle();
    go(&nic.machine, &record).unwrap();
    let wanted = nic.state();
    let model = RefCell::new(None);
    let fresh = || {
        let (nic, record) = half_sent();
        model.replace(Some(nic.model.clone()));
        (nic.machine, record)
    };
    go_with_power_failures(fresh, |machine| {
        let model = model.borrow().clone().unwrap();
        let nic = Nic {
            machine: machine.again(),
            model,
            sent: 5,
            received: Vec::new(),
        };
        assert_eq!(nic.state(), wanted);
        nic.take(100);
        assert_eq!(nic.wire(), [1, 2, 3, 4, 5]);
    });
}

proptest! {
    /// A record may hold anything.
    #[test]
    fn no_payload_leads_astray(words in prop::collection::vec(any::<u32>(), 0..600), is_long in any::<bool>()) {
        let (nic, record) = half_sent();
        nic.machine.power_cycle();
        let record = record.with_payload(crate::e1000e::TAG, |section| {
            let bytes = words.iter().flat_map(|word| word.to_le_bytes());
            let rest = section.payload.iter().copied().skip(4 * words.len());
            if is_long { bytes.chain(rest).collect() } else { bytes.collect() }
        });
        if crate::check(&nic.machine, &record.sections()).is_ok() {
            nic.model.borrow_mut().budget = 0;
            go(&nic.machine, &record).ok();
        }
    }
}
