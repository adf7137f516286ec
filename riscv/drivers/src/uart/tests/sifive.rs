use super::*;

/// SiFive's UART, with FIFOs of eight bytes.
#[derive(Debug, Default)]
struct Model {
    sent: RefCell<Vec<u8>>,
    waiting: RefCell<VecDeque<u8>>,
    arrived: RefCell<VecDeque<u8>>,
    transmit_control: Cell<u32>,
    receive_control: Cell<u32>,
    interrupts: Cell<u32>,
    divisor: Cell<u32>,
    /// Looks at the transmitter for each byte that leaves.
    slowness: u32,
    looks: Cell<u32>,
    written: RefCell<Vec<u64>>,
}

const BYTES: usize = 8;

impl Model {
    fn watermark(control: u32) -> usize {
        usize::try_from(control >> 16 & 7).unwrap()
    }

    /// Time goes on by one look.
    fn look(&self) {
        self.looks.set(self.looks.get() + 1);
        if self.looks.get() > self.slowness && self.transmit_control.get() & 1 != 0 {
            self.looks.set(0);
            let byte = self.waiting.borrow_mut().pop_front();
            self.sent.borrow_mut().extend(byte);
        }
    }
}

impl Registers<u32> for Model {
    fn read(&self, offset: u64) -> u32 {
        self.look();
        match offset {
            0 => u32::from(self.waiting.borrow().len() == BYTES) << 31,
            4 => (self.arrived.borrow_mut().pop_front()).map_or(1 << 31, u32::from),
            8 => self.transmit_control.get(),
            0xc => self.receive_control.get(),
            0x14 => {
                let few =
                    self.waiting.borrow().len() < Self::watermark(self.transmit_control.get());
                let is_on = self.receive_control.get() & 1 != 0;
                let many =
                    self.arrived.borrow().len() > Self::watermark(self.receive_control.get());
                u32::from(few) | u32::from(is_on && many) << 1
            }
            0x10 => self.interrupts.get(),
            0x18 => self.divisor.get(),
            other => panic!("there is no register {other:#x}"),
        }
    }

    fn write(&self, offset: u64, value: u32) {
        self.written.borrow_mut().push(offset);
        match offset {
            0 => {
                assert!(self.waiting.borrow().len() < BYTES, "a byte is lost");
                self.waiting.borrow_mut().push_back(value.to_le_bytes()[0]);
            }
            8 => self.transmit_control.set(value),
            0xc => self.receive_control.set(value),
            0x10 => self.interrupts.set(value),
            0x18 => {
                assert!(self.waiting.borrow().is_empty(), "a byte is destroyed");
                self.divisor.set(value);
            }
            other => panic!("register {other:#x} is the OS's"),
        }
    }
}

impl Registers<u8> for Model {
    fn read(&self, _: u64) -> u8 {
        unreachable!("its registers are words")
    }

    fn write(&self, _: u64, _: u8) {
        unreachable!("its registers are words")
    }
}

fn line(chip: &Model) -> Line<AnyUart<&Model>> {
    let described = devicetree::Uart::Sifive { base: 0 };
    let uart = AnyUart::new(chip, &described);
    uart.turn_on();
    Line::new(uart)
}

#[test]
fn a_slow_transmitter_loses_no_byte() {
    for slowness in [0, 1, 40] {
        let chip = Model {
            slowness,
            ..Model::default()
        };
        let mut line = line(&chip);
        let bytes: Vec<u8> = (0..16_384_u32).map(|n| n.to_le_bytes()[0]).collect();
        for part in bytes.chunks(256) {
            line.send(part, ON).unwrap();
        }
        line.drain();
        assert!(*chip.sent.borrow() == bytes, "slowness {slowness}");
    }
}

/// A reset turns both directions off. Bits of the other settings are the previous stage's.
#[test]
fn a_start_turns_it_on_and_changes_no_more() {
    let chip = Model::default();
    chip.transmit_control.set(1 << 1 | 3 << 16);
    chip.receive_control.set(2 << 16);
    let line = line(&chip);
    assert_eq!(chip.transmit_control.get(), 1 | 1 << 1 | 3 << 16);
    assert_eq!(chip.receive_control.get(), 1 | 2 << 16);
    line.drain();
    assert_eq!(
        chip.transmit_control.get(),
        1 | 1 << 1 | 3 << 16,
        "as it was"
    );
}

/// The OS has closed the receiver, or waits for more bytes.
#[test]
fn a_byte_at_rest_is_seen_and_stays() {
    for of_the_os in [0, 1 | 3 << 16] {
        let chip = Model::default();
        let mut line = line(&chip);
        chip.receive_control.set(of_the_os);
        line.chip_mut().open_input();
        assert!(!line.chip().events().input);
        chip.arrived.borrow_mut().push_back(b'k');
        for _ in 0..3 {
            let seen = line.chip().events();
            assert!(seen.input && !seen.line_break);
        }
        line.chip_mut().close_input();
        assert_eq!(chip.receive_control.get(), of_the_os);
        let mut buffer = [0; 2];
        assert_eq!((line.receive(&mut buffer), buffer[0]), (1, b'k'));
    }
}

/// Also those of a sleep that is saved while the firmware waits for a byte.
#[test]
fn what_an_os_has_set_comes_back() {
    let os = Model::default();
    let mut asleep = line(&os);
    let set = |chip: &Model| {
        chip.transmit_control.set(1 | 1 << 16);
        chip.receive_control.set(3 << 16);
        chip.interrupts.set(2);
        chip.divisor.set(289);
    };
    set(&os);
    let before = asleep.chip().capture();
    asleep.chip_mut().open_input();
    assert_eq!(asleep.chip().capture(), before, "amid a rest");

    let after = Model::default();
    let awake = line(&after);
    after.written.borrow_mut().clear();
    awake.chip().restore(&before);
    assert_eq!(awake.chip().capture(), before);
    assert_eq!(after.written.borrow().last(), Some(&0x10), "interrupts");

    after.written.borrow_mut().clear();
    awake.chip().restore(&before);
    assert!(!after.written.borrow().contains(&0x18), "the same rate");
}

#[test]
fn a_stuck_transmitter_stops_no_machine() {
    let chip = Model {
        slowness: u32::MAX,
        ..Model::default()
    };
    let mut line = line(&chip);
    assert_eq!(line.send(&[0; 20], ON), Err(Unsent::Stuck { sent: BYTES }));
    let looks = chip.looks.get();
    assert_eq!(line.send(b"x", ON), Err(Unsent::Stuck { sent: 0 }));
    assert_eq!(chip.looks.get() - looks, 1, "polled once");
}
