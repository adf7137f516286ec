//! The 82574 over a cut.

mod model;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::vec::Vec;

use poorwill_medium::pci::Step;
use poorwill_medium::pci::model::{ETHERNET, MSI_X, Node};
use proptest::prelude::*;

use self::model::*;
use super::board::RAM;
use super::machine::{FUNCTION, Fake};
use super::{Record, go, go_with_power_failures, stop};
use crate::{KeeperError, Window};

const SENT: u64 = RAM + 0x1000;
const RECEIVED: u64 = RAM + 0x2000;
const RING: u32 = 8;

/// What a driver sets and relies on; where the registers are that take any value.
const PLAIN: [(u64, u64); 27] = [
    (0x18, 1),
    (0x28, 3),
    (0x38, 1),
    (0xc4, 1),
    (0xdc, 2),
    (0xe8, 5),
    (0x170, 1),
    (0x410, 1),
    (0x2160, 1),
    (0x2168, 1),
    (0x2804, 1),
    (0x2820, 1),
    (0x2828, 2),
    (0x2900, 3),
    (0x3804, 1),
    (0x382c, 1),
    (0x3840, 1),
    (0x3900, 3),
    (0x3928, 1),
    (0x3940, 1),
    (0x5000, 1),
    (0x5008, 1),
    (0x5200, 160),
    (0x5600, 128),
    (0x5818, 1),
    (0x5c00, 42),
    (0xb600, 3),
];

/// A driver with its controller.
struct Nic {
    machine: Fake,
    model: Rc<RefCell<Model>>,
    sent: u64,
    received: Vec<u64>,
}

impl Nic {
    /// One that is up, in the middle of its rings.
    fn new() -> Self {
        let step = Step {
            device: FUNCTION.device,
            function: 0,
        };
        let mut node = Node::new(step, ETHERNET);
        node.define(0, 0x10d3_8086, 0);
        node.bar(0, 0x2_0000, false);
        node.bar(3, 0x4000, false);
        node.define(MSI_X, 0x0004_0011, 0xc000_0000);
        node.define(MSI_X + 4, 3, 0);
        let model = Rc::new(RefCell::new(Model::default()));
        let machine = Fake::new(node, &[0, 3], model.clone());
        let nic = Nic {
            machine,
            model,
            sent: 0,
            received: Vec::new(),
        };
        nic.probe();
        nic
    }

    fn write(&self, register: u64, value: u32) {
        self.machine.bar(0).write32(register, value);
    }

    fn read(&self, register: u64) -> u32 {
        self.machine.bar(0).read32(register)
    }

    fn probe(&self) {
        for vector in 0..5 {
            for (dword, value) in [(0, 0x2800_0000), (2, 10 + vector), (3, 0)] {
                let offset = u64::from(16 * vector) + 4 * dword;
                self.machine.bar(3).write32(offset, value);
            }
        }
        self.write(PBA, 0x0010_0018);
        self.write(CTRL, 1 << 26);
        while self.machine.board.pass() < 5000 {}
        for (place, register) in plain().enumerate() {
            let value = 0x1_0001 * u32::try_from(place + 1).unwrap();
            self.write(
                register,
                value & if register == 0x18 { !0x3000 } else { !0 },
            );
        }
        self.write(0x2820, 0x20);
        self.write(CTRL, 0x0014_0240);
        self.write(IVAR, 0x000a_0908);
        for (register, value) in [(TDBAL, SENT), (RDBAL, RECEIVED)] {
            self.write(register, value.try_into().unwrap());
        }
        for (register, value) in [(TDLEN, 16 * RING), (RDLEN, 16 * RING)] {
            self.write(register, value);
        }
        for register in [TDH, TDT, RDH] {
            self.write(register, 5);
        }
        self.write(RDT, 4);
        // What lies in rings from earlier.
        for place in 0..u64::from(RING) {
            self.machine.board.set_word(SENT + 16 * place, 900 + place);
        }
        self.write(TCTL, 0x3_f0fa);
        self.write(RCTL, 0x0400_8002);
        self.write(IMS, RXQ0 | TXQ0 | OTHER | 4);
    }

    /// Queues packets.
    fn send(&mut self, packets: u32) {
        for _ in 0..packets {
            let tail = self.model.borrow().get(TDT);
            let descriptor = SENT + 16 * u64::from(tail);
            self.sent += 1;
            self.machine.board.set_word(descriptor, self.sent);
            self.machine.board.set_word(descriptor + 8, 0);
            self.write(TDT, (tail + 1) % RING);
        }
    }

    /// The wire takes more.
    fn take(&self, packets: u32) {
        self.model.borrow_mut().budget = packets;
        self.model.borrow_mut().transmit(&self.machine.board);
    }

    fn wire(&self) -> Vec<u64> {
        self.model.borrow().wire.clone()
    }

    /// Takes what was received out of its ring, from `place` on.
    fn poll(&mut self, mut place: u32) -> u32 {
        let board = &self.machine.board;
        loop {
            let descriptor = RECEIVED + 16 * u64::from(place);
            if board.word(descriptor + 8) & 1 == 0 {
                return place;
            }
            board.set_word(descriptor + 8, 0);
            self.received.push(board.word(descriptor));
            place = (place + 1) % RING;
        }
    }

    fn arrive(&self, packet: u64) -> bool {
        let mut model = self.model.borrow_mut();
        model.receive(&self.machine.board, packet)
    }

    /// The power fails and comes back.
    fn cut(&self) -> Record {
        let record = stop(&self.machine).unwrap();
        self.machine.power_cycle();
        record
    }

    fn state(&self) -> (BTreeMap<u64, u32>, u32) {
        let model = self.model.borrow();
        let mut registers = model.registers();
        // Its causes come and go.
        registers.remove(&0xc0);
        (registers, model.division)
    }

    fn vectors(&self) -> Vec<u32> {
        let messages = self.machine.board.take_messages();
        messages.iter().map(|(_, data)| data - 10).collect()
    }
}

fn plain() -> impl Iterator<Item = u64> {
    let offsets = |(first, count): (u64, u64)| (0..count).map(move |place| first + 4 * place);
    PLAIN.into_iter().flat_map(offsets)
}

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
    go(&nic.machine, &record).unwrap();
    let mut twice = nic.state();
    twice.0.remove(&IMS);
    assert_eq!(twice, once);
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
