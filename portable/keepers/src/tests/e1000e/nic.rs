//! A driver with its controller.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::vec::Vec;

use poorwill_pci::Step;
use poorwill_pci::model::{ETHERNET, MSI_X, Node};

use super::model::*;
use crate::Window;
use crate::tests::board::RAM;
use crate::tests::machine::{FUNCTION, Fake};
use crate::tests::{Record, stop};

pub(super) const SENT: u64 = RAM + 0x1000;
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
pub(super) struct Nic {
    pub(super) machine: Fake,
    pub(super) model: Rc<RefCell<Model>>,
    pub(super) sent: u64,
    pub(super) received: Vec<u64>,
}

impl Nic {
    /// One that is up, in the middle of its rings.
    pub(super) fn new() -> Self {
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

    pub(super) fn write(&self, register: u64, value: u32) {
        self.machine.bar(0).write32(register, value);
    }

    pub(super) fn read(&self, register: u64) -> u32 {
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
    pub(super) fn send(&mut self, packets: u32) {
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
    pub(super) fn take(&self, packets: u32) {
        self.model.borrow_mut().budget = packets;
        self.model.borrow_mut().transmit(&self.machine.board);
    }

    pub(super) fn wire(&self) -> Vec<u64> {
        self.model.borrow().wire.clone()
    }

    /// Takes what was received out of its ring, from `place` on.
    pub(super) fn poll(&mut self, mut place: u32) -> u32 {
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

    pub(super) fn arrive(&self, packet: u64) -> bool {
        let mut model = self.model.borrow_mut();
        model.receive(&self.machine.board, packet)
    }

    /// The power fails and comes back.
    pub(super) fn cut(&self) -> Record {
        let record = stop(&self.machine).unwrap();
        self.machine.power_cycle();
        record
    }

    pub(super) fn state(&self) -> (BTreeMap<u64, u32>, u32) {
        let model = self.model.borrow();
        let mut registers = model.registers();
        // Its causes come and go.
        registers.remove(&0xc0);
        (registers, model.division)
    }

    pub(super) fn vectors(&self) -> Vec<u32> {
        let messages = self.machine.board.take_messages();
        messages.iter().map(|(_, data)| data - 10).collect()
    }
}

pub(super) fn plain() -> impl Iterator<Item = u64> {
    let offsets = |(first, count): (u64, u64)| (0..count).map(move |place| first + 4 * place);
    PLAIN.into_iter().flat_map(offsets)
}
