//! The drivers, against models of their devices.

use std::cell::RefCell;
use std::collections::VecDeque;

use poorwill_critical::{CAN_ID, Can, Heartbeat, Serial};
use poorwill_drivers::Registers;

/// An SJA1000 that sends at once, and its bridge.
struct Card {
    mode: u8,
    status: u8,
    interrupt: u8,
    enabled: u8,
    clock: u8,
    buffer: [u8; 16],
    bridge: u32,
    sent: Vec<Vec<u8>>,
}

type Model = RefCell<Card>;

struct Bridge<'a>(&'a Model);
struct Chip<'a>(&'a Model);

impl Registers<u32> for Bridge<'_> {
    fn read(&self, offset: u64) -> u32 {
        assert_eq!(offset, 0x38);
        self.0.borrow().bridge
    }

    fn write(&self, offset: u64, value: u32) {
        assert_eq!(offset, 0x38);
        self.0.borrow_mut().bridge = value;
    }
}

impl Registers<u8> for Chip<'_> {
    fn read(&self, offset: u64) -> u8 {
        let mut card = self.0.borrow_mut();
        match offset {
            0 => card.mode,
            2 => card.status,
            3 => std::mem::take(&mut card.interrupt),
            _ => panic!("register {offset} is not for reading"),
        }
    }

    fn write(&self, offset: u64, value: u8) {
        let mut card = self.0.borrow_mut();
        let resets = card.mode & 1 != 0;
        match offset {
            0 => card.mode = value,
            1 => {
                assert!(!resets && value == 1);
                let frame = card.buffer[..11].to_vec();
                card.sent.push(frame);
                card.interrupt |= 2;
            }
            4 => card.enabled = value,
            6..=8 => assert!(resets, "register {offset} is fixed outside of reset mode"),
            16..=30 => {
                let place = usize::try_from(offset - 16).expect("a small number");
                card.buffer[place] = value;
            }
            31 => {
                assert!(resets, "the clock divider is fixed outside of reset mode");
                card.clock = value;
            }
            _ => panic!("register {offset} is not for writing"),
        }
    }
}

fn card(mode: u8) -> Model {
    RefCell::new(Card {
        mode,
        status: 0x0c,
        interrupt: 0xff,
        enabled: 0xff,
        clock: 0,
        buffer: [0xff; 16],
        bridge: 0,
        sent: Vec::new(),
    })
}

#[test]
fn a_card_in_any_state_is_set_up_and_sends() {
    for mode in [0, 1, 8, 9, 0x1f] {
        let model = card(mode);
        let can = Can::new(Bridge(&model), Chip(&model));
        can.start();
        assert!(!can.acknowledge(), "an interrupt is left from before");
        assert_eq!((model.borrow().mode, model.borrow().enabled), (8, 2));
        assert_eq!(
            (model.borrow().clock, model.borrow().bridge),
            (0xc8, 0x2000)
        );
        let beat = Heartbeat {
            sequence: 7,
            age_us: Some(5),
            lateness_100ns: 3,
        };
        assert!(can.send(CAN_ID, beat.data()) && can.is_idle());
        assert!(can.acknowledge() && !can.acknowledge());
        // 0x123, left-aligned in two bytes after the frame's kind and length.
        let frame = [8, 0x24, 0x60, 7, 0, 0, 0, 5, 0, 3, 0];
        assert_eq!(model.borrow().sent, [frame]);
    }
}

#[test]
fn a_power_off_shows_in_the_bridge_and_a_bus_off_does_not() {
    let model = card(1);
    let can = Can::new(Bridge(&model), Chip(&model));
    assert!(!can.has_kept_power());
    can.start();
    model.borrow_mut().mode = 9;
    assert!(can.has_kept_power());
    model.replace(card(1).into_inner());
    assert!(!can.has_kept_power());
}

#[test]
fn a_full_buffer_takes_no_frame_and_a_bus_off_sets_the_card_up_again() {
    let model = card(1);
    let can = Can::new(Bridge(&model), Chip(&model));
    can.start();
    model.borrow_mut().status = 0;
    assert!(!can.send(CAN_ID, [0; 8]) && !can.is_idle());
    model.borrow_mut().status = 0x0c;
    model.borrow_mut().mode = 9;
    assert!(!can.send(CAN_ID, [0; 8]));
    assert!(model.borrow().sent.is_empty());
    assert!(can.send(CAN_ID, [0; 8]));
}

/// A receiver with these bytes.
struct Line(RefCell<VecDeque<u8>>);

impl Registers<u8> for Line {
    fn read(&self, offset: u64) -> u8 {
        let mut bytes = self.0.borrow_mut();
        match offset {
            0 => bytes.pop_front().expect("a byte"),
            5 => u8::from(!bytes.is_empty()),
            _ => panic!("register {offset} is not for reading"),
        }
    }

    fn write(&self, offset: u64, value: u8) {
        if (offset, value & 2) == (2, 2) {
            self.0.borrow_mut().clear();
        }
    }
}

#[test]
fn a_start_drops_what_waits_and_says_so() {
    let serial = Serial(Line(RefCell::new(VecDeque::from([b's'; 3]))));
    assert!(serial.start());
    assert!(!serial.start());
    assert_eq!(serial.bytes().count(), 0);
    serial.0.0.borrow_mut().extend([b'a'; 20]);
    assert_eq!(serial.bytes().count(), 16);
    assert_eq!(serial.bytes().count(), 4);
}
