//! A 16550 UART of which only the receiver is used.

use poorwill_drivers::Registers;

const DATA: u64 = 0;
const INTERRUPT_ENABLE: u64 = 1;
const FIFO_CONTROL: u64 = 2;
const LINE_CONTROL: u64 = 3;
const MODEM_CONTROL: u64 = 4;
const LINE_STATUS: u64 = 5;

/// Bytes of a receiver's FIFO.
const FIFO_BYTES: usize = 16;

/// The driver.
#[derive(Debug)]
pub struct Serial<R>(pub R);

impl<R: Registers<u8>> Serial<R> {
    /// Sets the UART up: an interrupt for each byte. Returns whether bytes were waiting, which are
    /// dropped.
    pub fn start(&self) -> bool {
        // Eight bits, no parity; the divisor is closed.
        self.0.write(LINE_CONTROL, 3);
        let had_bytes = self.read().is_some();
        // On, both cleared, an interrupt from the first byte.
        self.0.write(FIFO_CONTROL, 7);
        // OUT2, which lets interrupts through on many boards.
        self.0.write(MODEM_CONTROL, 8);
        self.0.write(INTERRUPT_ENABLE, 1);
        had_bytes
    }

    /// The bytes that wait, at most a FIFO of them.
    pub fn bytes(&self) -> impl Iterator<Item = u8> {
        core::iter::from_fn(|| self.read()).take(FIFO_BYTES)
    }

    fn read(&self) -> Option<u8> {
        (self.0.read(LINE_STATUS) & 1 != 0).then(|| self.0.read(DATA))
    }
}
