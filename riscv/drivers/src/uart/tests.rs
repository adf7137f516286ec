use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt::Write;

use poorwill_devicetree as devicetree;

use super::ns16550::{DIVISOR_OPEN, register};
use super::*;
use crate::Registers;

mod settings;
mod sifive;

/// A 16550 with FIFOs, its registers so many bytes wide and apart.
#[derive(Debug)]
struct Model {
    width: u32,
    shift: u32,
    sent: RefCell<Vec<u8>>,
    /// What has arrived; none for a break.
    arrived: RefCell<VecDeque<Option<u8>>>,
    /// Looks at the line status until the transmitter is empty again after a byte.
    slowness: u64,
    busy: Cell<u64>,
    looks: Cell<u64>,
    line_control: Cell<u8>,
}

impl Model {
    fn new(width: u32, shift: u32) -> Self {
        Model {
            width,
            shift,
            sent: RefCell::default(),
            arrived: RefCell::default(),
            slowness: 0,
            busy: Cell::new(0),
            looks: Cell::new(0),
            line_control: Cell::new(3),
        }
    }

    fn uart(&self) -> Line<Ns16550<&Self>> {
        let described = devicetree::Ns16550 {
            base: 0,
            shift: self.shift,
            width: self.width,
        };
        Line::new(Ns16550::new(self, &described))
    }

    fn number(&self, offset: u64) -> u64 {
        assert!(
            offset.is_multiple_of(1 << self.shift),
            "{offset:#x} is no register"
        );
        offset >> self.shift
    }

    fn get(&self, offset: u64) -> u8 {
        match self.number(offset) {
            register::DATA => {
                let byte = self.arrived.borrow_mut().pop_front();
                // A break reads as a zero.
                byte.flatten().unwrap_or(0)
            }
            register::LSR => {
                self.looks.set(self.looks.get() + 1);
                let busy = self.busy.get();
                self.busy.set(busy.saturating_sub(1));
                let mut status = if busy == 0 { 0x60 } else { 0 };
                match self.arrived.borrow().front() {
                    Some(None) => status |= 0x11,
                    Some(Some(_)) => status |= 0x01,
                    None => {}
                }
                status
            }
            register::LCR => self.line_control.get(),
            number => panic!("register {number} is the OS's"),
        }
    }

    fn put(&self, offset: u64, value: u8) {
        if self.number(offset) == register::LCR {
            let changed = self.line_control.replace(value) ^ value;
            return assert_eq!(changed, DIVISOR_OPEN, "other settings are the OS's");
        }
        assert_eq!(self.number(offset), register::DATA, "settings are the OS's");
        assert_eq!(self.busy.get(), 0, "a byte is lost");
        assert_eq!(
            self.line_control.get() & DIVISOR_OPEN,
            0,
            "the divisor is changed"
        );
        self.sent.borrow_mut().push(value);
        self.busy.set(self.slowness);
    }
}

impl Registers<u8> for Model {
    fn read(&self, offset: u64) -> u8 {
        assert_eq!(self.width, 1);
        self.get(offset)
    }

    fn write(&self, offset: u64, value: u8) {
        assert_eq!(self.width, 1);
        self.put(offset, value);
    }
}

impl Registers<u32> for Model {
    fn read(&self, offset: u64) -> u32 {
        assert_eq!(self.width, 4);
        // What lies beside a narrow register is anything.
        0xabcd_ef00 | u32::from(self.get(offset))
    }

    fn write(&self, offset: u64, value: u32) {
        assert_eq!(self.width, 4);
        self.put(offset, value.to_le_bytes()[0]);
    }
}

/// Transfers go on.
const ON: GoesOn<'static> = &|| true;

#[test]
fn bytes_go_out_and_come_in_whole() {
    for (width, shift) in [(1, 0), (1, 2), (4, 2)] {
        let model = Model {
            slowness: 1000,
            ..Model::new(width, shift)
        };
        let mut uart = model.uart();
        uart.send(b"a\nb\0\xff", ON).unwrap();
        assert_eq!(*model.sent.borrow(), b"a\nb\0\xff");
        model.arrived.borrow_mut().extend(b"12345".map(Some));
        let mut buffer = [0; 3];
        assert_eq!((uart.receive(&mut buffer), buffer), (3, *b"123"));
        assert_eq!(uart.receive(&mut buffer), 2);
        assert_eq!(uart.receive(&mut buffer), 0);
    }
}

#[test]
fn text_has_carriage_returns() {
    let model = Model::new(1, 0);
    model.uart().text(ON).write_str("\none!\ntwo\n\n").unwrap();
    assert_eq!(*model.sent.borrow(), b"\r\none!\r\ntwo\r\n\r\n");
}

#[test]
fn a_transmitter_that_never_empties_ends_each_wait() {
    let model = Model::new(1, 0);
    let mut uart = model.uart();
    uart.send(b"x", ON).unwrap();
    model.busy.set(u64::MAX);
    model.looks.set(0);
    assert_eq!(uart.send(&[0; 100_000], ON), Err(Unsent::Stuck { sent: 0 }));
    assert_eq!(model.looks.get(), u64::from(PATIENCE));
    // It is not waited for again and again.
    for _ in 0..100 {
        uart.text(ON).write_str("poorwill: a line\n").unwrap_err();
    }
    assert_eq!(model.looks.get(), u64::from(PATIENCE) + 100);
    assert_eq!(*model.sent.borrow(), b"x");
}

#[test]
fn a_transmitter_that_goes_on_is_used_again() {
    let model = Model {
        slowness: 20,
        ..Model::new(1, 0)
    };
    let mut uart = model.uart();
    model.busy.set(u64::from(PATIENCE) + 100);
    assert_eq!(uart.send(b"ab", ON), Err(Unsent::Stuck { sent: 0 }));
    model.busy.set(0);
    uart.send(b"cd", ON).unwrap();
    assert_eq!(*model.sent.borrow(), b"cd");
}

#[test]
fn what_was_sent_before_it_stuck_is_told() {
    let model = Model {
        slowness: u64::MAX,
        ..Model::new(4, 2)
    };
    assert_eq!(model.uart().send(b"ab", ON), Err(Unsent::Stuck { sent: 1 }));
}

#[test]
fn a_break_is_told_once_and_typing_is_left_to_the_os() {
    let model = Model::new(1, 0);
    let uart = model.uart();
    assert_eq!(uart.chip().events(), LineEvents::default());
    model.arrived.borrow_mut().extend([None, Some(b'k')]);
    let event = |input, line_break| LineEvents { input, line_break };
    assert_eq!(uart.chip().events(), event(false, true));
    assert_eq!(uart.chip().events(), event(true, false));
    assert_eq!(uart.chip().events(), event(true, false));
    assert_eq!(uart.receive(&mut [0]), 1);
}

/// One that takes a byte whenever a call is about to give up on it does not hold the hart
/// for as many times as there are bytes.
#[test]
fn all_bytes_of_a_call_share_its_patience() {
    let slowness = u64::from(PATIENCE) / 4;
    let model = Model {
        slowness,
        ..Model::new(1, 0)
    };
    let mut uart = model.uart();
    let Err(Unsent::Stuck { sent }) = uart.send(&[b'x'; 256], ON) else {
        panic!("256 bytes are taken at this pace");
    };
    assert!((3..=5).contains(&sent), "{sent}");
    let polls = u64::from(PATIENCE) + 256;
    assert!(model.looks.get() <= polls, "{}", model.looks.get());
}

/// At 115,200 baud 256 bytes take 22 ms, and the power lasts for 16: a transfer ends at the next
/// look behind the power-fail line, whatever is left, and tells how much was sent.
#[test]
fn a_transfer_ends_within_a_look_once_it_is_to() {
    let slowness = 100;
    let model = Model {
        slowness,
        ..Model::new(1, 0)
    };
    let bytes: Vec<u8> = (0..=255).collect();
    for fails_at in [0, 1, 99, 100, 101, 5000, 25_000] {
        let (from, sent_before) = (model.looks.get(), model.sent.borrow().len());
        let goes_on = || model.looks.get() - from < fails_at;
        let mut uart = model.uart();
        let Err(Unsent::Ended { sent }) = uart.send(&bytes, &goes_on) else {
            panic!("256 bytes take longer than {fails_at} looks");
        };
        assert_eq!(model.looks.get() - from, fails_at, "not a look more");
        assert_eq!(model.sent.borrow()[sent_before..], bytes[..sent]);
        // What is left goes out in another call; the transmitter is not taken for stuck.
        uart.send(&bytes[sent..], ON).unwrap();
        assert_eq!(model.sent.borrow()[sent_before..], bytes[..]);
    }
}

#[test]
fn a_line_that_is_said_ends_likewise_and_leaves_it_open() {
    let model = Model {
        slowness: 10,
        ..Model::new(1, 0)
    };
    let mut uart = model.uart();
    assert!(!uart.is_amid_line());
    let goes_on = || model.looks.get() < 100;
    let text = "poorwill: a line that takes a while\n";
    uart.text(&goes_on).write_str(text).unwrap_err();
    assert!((100..=101).contains(&model.looks.get()));
    assert!(uart.is_amid_line() && model.sent.borrow().len() < text.len());
    uart.text(ON).write_str("\n").unwrap();
    assert!(!uart.is_amid_line());
    uart.send(b"$ ", ON).unwrap();
    assert!(uart.is_amid_line(), "an OS's prompt");
}

/// Lines of a domain without the UART.
fn lines(text: &str) -> impl FnMut(&mut PrintedLine) -> bool {
    let mut lines = poorwill_log::Lines::new();
    assert_eq!(lines.take(text.as_bytes()), text.len());
    move |into| lines.next("b", into)
}

#[test]
fn a_call_of_a_domain_without_the_uart_polls_at_most_16_times() {
    for slowness in [0, 1, 5, 100, u64::MAX] {
        let model = Model {
            slowness,
            ..Model::new(1, 0)
        };
        let mut uart = model.uart();
        let mut next = lines("one\ntwo\nthree, and a line that is longer than sixteen bytes\n");
        let mut calls = 0;
        loop {
            let before = model.looks.get();
            let printed = uart.print_some(&mut next, 0, ON);
            assert!(model.looks.get() - before <= 16, "at most 16 polls");
            calls += 1;
            if printed.is_all || calls == 10_000 {
                break;
            }
        }
        assert_eq!(calls < 10_000, slowness < u64::MAX);
        if slowness < u64::MAX {
            let all =
                "b: one\r\nb: two\r\nb: three, and a line that is longer than sixteen bytes\r\n";
            assert_eq!(*model.sent.borrow(), all.as_bytes());
        }
    }
}

#[test]
fn an_open_divisor_is_not_written() {
    let model = Model::new(1, 0);
    let mut uart = model.uart();
    let mut next = lines("one\n");
    model.line_control.set(3 | DIVISOR_OPEN);
    let nothing = Printed {
        is_some: false,
        is_all: false,
    };
    let before = model.looks.get();
    assert_eq!(uart.print_some(&mut next, 0, ON), nothing);
    assert_eq!(uart.print_some(&mut next, HOLD_BACK_MS - 1, ON), nothing);
    assert_eq!(model.looks.get(), before);
    model.line_control.set(3);
    let all = Printed {
        is_some: true,
        is_all: true,
    };
    assert_eq!(uart.print_some(&mut next, 0, ON), all);
    assert_eq!(*model.sent.borrow(), b"b: one\r\n");
}

#[test]
fn an_open_divisor_holds_lines_back_for_a_while() {
    let model = Model::new(1, 0);
    let mut uart = model.uart();
    let mut next = lines("one\n");
    model.line_control.set(3 | DIVISOR_OPEN);
    assert!(!uart.print_some(&mut next, 7, ON).is_some);
    assert!(uart.print_some(&mut next, 7 + HOLD_BACK_MS, ON).is_all);
    assert_eq!(*model.sent.borrow(), b"b: one\r\n");
    assert_eq!(model.line_control.get(), 3 | DIVISOR_OPEN, "the OS's still");
    // The time begins anew after the divisor was closed.
    model.line_control.set(3);
    assert!(uart.print_some(&mut lines("two\n"), 500, ON).is_all);
    model.line_control.set(3 | DIVISOR_OPEN);
    assert!(!uart.print_some(&mut lines("three\n"), 501, ON).is_some);
}

#[test]
fn an_unfinished_line_holds_lines_back_for_a_while() {
    let model = Model::new(1, 0);
    let mut uart = model.uart();
    let mut next = lines("one\ntwo\n");
    uart.send(b"$ ", ON).unwrap();
    assert!(!uart.print_some(&mut next, 7, ON).is_some);
    // More of the line does not hold them back for longer.
    uart.send(b"ls", ON).unwrap();
    assert!(!uart.print_some(&mut next, 6 + HOLD_BACK_MS, ON).is_some);
    while !uart.print_some(&mut next, 7 + HOLD_BACK_MS, ON).is_all {}
    assert_eq!(*model.sent.borrow(), b"$ ls\r\nb: one\r\nb: two\r\n");
}

#[test]
fn other_text_ends_a_line_that_was_begun_and_lines_begin_no_other() {
    let model = Model::new(1, 0);
    let mut uart = model.uart();
    let mut next = lines("a line that is longer than sixteen bytes\nlast\n");
    uart.print_some(&mut next, 0, ON);
    assert_eq!(model.sent.borrow().len(), 16);
    uart.text(ON).write_str("poorwill: text\n").unwrap();
    uart.print_some(&mut next, 0, ON);
    uart.send(b"$ ", ON).unwrap();
    let all = "b: a line that is longer than sixteen bytes\r\npoorwill: text\r\nb: last\r\n$ ";
    assert_eq!(*model.sent.borrow(), all.as_bytes());
    let mut next = lines("later\n");
    assert!(
        !uart.print_some(&mut next, 0, ON).is_some,
        "within the owner's line"
    );
    uart.send(b"\n", ON).unwrap();
    assert!(uart.print_some(&mut next, 0, ON).is_all);
    // Without power nothing begins.
    let mut next = lines("late\n");
    assert!(!uart.print_some(&mut next, 0, &|| false).is_some);
}
