//! The OS's settings are captured and restored.

use super::*;

/// What a 16550 keeps of what is written to it.
#[derive(Debug, Default)]
struct Programmed {
    /// Writes to line control that it ignores, because it transfers a byte.
    ignored: Cell<u32>,
    sent: RefCell<Vec<u8>>,
    /// Looks at the line status until the last byte has left.
    idle_after: Cell<u32>,
    line_control: Cell<u8>,
    divisor: Cell<[u8; 2]>,
    /// By the register's number.
    others: RefCell<[u8; 8]>,
    fifo_control: Cell<u8>,
    /// The registers that were written, in order.
    written: RefCell<Vec<u64>>,
}

impl Registers<u8> for Programmed {
    fn read(&self, offset: u64) -> u8 {
        let is_open = self.line_control.get() & DIVISOR_OPEN != 0;
        match offset {
            register::DATA | register::IER if is_open => {
                self.divisor.get()[usize::try_from(offset).unwrap()]
            }
            register::FIFO => self.fifo_control.get() << 6 | self.fifo_control.get() << 7 | 1,
            register::DATA => panic!("a received byte is lost"),
            register::LSR => {
                let left = self.idle_after.get();
                self.idle_after.set(left.saturating_sub(1));
                if left == 0 { 0x60 } else { 0x20 }
            }
            register::LCR => self.line_control.get(),
            other => self.others.borrow()[usize::try_from(other).unwrap()],
        }
    }

    fn write(&self, offset: u64, value: u8) {
        self.written.borrow_mut().push(offset);
        let is_open = self.line_control.get() & DIVISOR_OPEN != 0;
        let place = usize::try_from(offset).unwrap();
        match offset {
            register::DATA | register::IER if is_open => {
                let mut divisor = self.divisor.get();
                divisor[place] = value;
                self.divisor.set(divisor);
            }
            register::DATA => self.sent.borrow_mut().push(value),
            register::FIFO => self.fifo_control.set(value & 1),
            register::LCR if self.ignored.get() > 0 => self.ignored.set(self.ignored.get() - 1),
            register::LCR => self.line_control.set(value),
            _ => self.others.borrow_mut()[place] = value,
        }
    }
}

impl Registers<u32> for Programmed {
    fn read(&self, _: u64) -> u32 {
        unreachable!("its registers are bytes")
    }

    fn write(&self, _: u64, _: u32) {
        unreachable!("its registers are bytes")
    }
}

#[test]
fn what_an_os_has_programmed_comes_back() {
    let described = devicetree::Ns16550 {
        base: 0,
        shift: 0,
        width: 1,
    };
    for line_control in [3, 3 | DIVISOR_OPEN] {
        let os = Programmed::default();
        os.divisor.set([12, 1]);
        os.fifo_control.set(1);
        *os.others.borrow_mut() = [0, 5, 0, 0, 11, 0, 0, 0x5a];
        os.line_control.set(line_control);
        let state = Ns16550::new(&os, &described).capture();
        assert_eq!(os.line_control.get(), line_control, "as it was");

        let after = Programmed::default();
        Ns16550::new(&after, &described).restore(&state);
        assert_eq!(after.line_control.get(), line_control);
        assert_eq!(after.divisor.get(), os.divisor.get());
        assert_eq!(after.fifo_control.get(), 1);
        assert_eq!(*after.others.borrow(), *os.others.borrow());
        let written = after.written.borrow();
        let last_of = |register| written.iter().rposition(|other| *other == register);
        assert!(last_of(register::IER) > last_of(register::FIFO));
    }
}

/// `DW_apb_uart` ignores line control while it is busy. The divisor's place then has other
/// registers.
#[test]
fn a_busy_uart_loses_and_sends_no_byte() {
    let described = devicetree::Ns16550 {
        base: 0,
        shift: 0,
        width: 1,
    };
    let programmed = |ignored| {
        let uart = Programmed::default();
        uart.divisor.set([12, 1]);
        *uart.others.borrow_mut() = [0, 5, 0, 0, 11, 0, 0, 0x5a];
        uart.line_control.set(3);
        uart.ignored.set(ignored);
        uart
    };
    for (ignored, is_known) in [(100, true), (u32::MAX, false)] {
        let os = programmed(ignored);
        let state = Ns16550::new(&os, &described).capture();
        assert_eq!(state.has_unknown_divisor, u8::from(!is_known));
        assert_eq!((state.interrupts, state.line_control), (5, 3));

        let after = Programmed::default();
        after.divisor.set([7, 7]);
        after.ignored.set(ignored);
        Ns16550::new(&after, &described).restore(&state);
        assert_eq!(*after.sent.borrow(), [0; 0]);
        assert_eq!(*after.others.borrow(), *os.others.borrow());
        let divisor = if is_known { [12, 1] } else { [7, 7] };
        assert_eq!(
            after.divisor.get(),
            divisor,
            "the previous stage's, or the OS's"
        );
    }
}

#[test]
fn the_last_line_leaves_before_the_settings_change() {
    let described = devicetree::Ns16550 {
        base: 0,
        shift: 0,
        width: 1,
    };
    let uart = Programmed::default();
    uart.idle_after.set(500);
    Line::new(Ns16550::new(&uart, &described)).drain();
    assert_eq!(uart.idle_after.get(), 0);
    // One that never becomes idle holds the wake for a limited time.
    uart.idle_after.set(u32::MAX);
    Line::new(Ns16550::new(&uart, &described)).drain();
    assert_eq!(uart.idle_after.get(), u32::MAX - PATIENCE);
}
