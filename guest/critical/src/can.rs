//! Kvaser's PCI CAN card: an SJA1000 in its PeliCAN mode, behind an S5920 bridge.

use poorwill_drivers::Registers;

/// Registers of the SJA1000 (data sheet, 6.4).
mod register {
    pub(super) const MODE: u64 = 0;
    pub(super) const COMMAND: u64 = 1;
    pub(super) const STATUS: u64 = 2;
    pub(super) const INTERRUPT: u64 = 3;
    pub(super) const INTERRUPT_ENABLE: u64 = 4;
    pub(super) const BUS_TIMING: [u64; 2] = [6, 7];
    pub(super) const OUTPUT_CONTROL: u64 = 8;
    /// The acceptance filter in reset mode, else the transmit buffer.
    pub(super) const BUFFER: u64 = 16;
    pub(super) const CLOCK_DIVIDER: u64 = 31;
}

const RESET_MODE: u8 = 1;
const SINGLE_FILTER: u8 = 1 << 3;
const TRANSMIT: u8 = 1;
const BUFFER_FREE: u8 = 1 << 2;
const TRANSMITTED: u8 = 1 << 3;
const TRANSMIT_INTERRUPT: u8 = 1 << 1;
/// PeliCAN mode; the receiver's comparator and the clock output are off.
const PELICAN: u8 = 1 << 7 | 1 << 6 | 1 << 3;
/// 500 kbit/s from the card's 16 MHz.
const BIT_RATE: [u8; 2] = [0x00, 0x1c];
/// Normal output, push-pull.
const PUSH_PULL: u8 = 0xda;

/// The bridge's interrupt control, and the bit that lets the card's interrupt through.
const INTCSR: u64 = 0x38;
const CARD_INTERRUPT: u32 = 0x2000;

/// The driver, for the registers of the bridge and of the controller.
#[derive(Debug)]
pub struct Can<B, C> {
    bridge: B,
    chip: C,
}

impl<B: Registers<u32>, C: Registers<u8>> Can<B, C> {
    /// A driver for the card's first two BARs.
    pub fn new(bridge: B, chip: C) -> Self {
        Can { bridge, chip }
    }

    /// Sets the card up from any state. Received frames raise no interrupt.
    pub fn start(&self) {
        self.chip.write(register::MODE, RESET_MODE);
        self.chip.write(register::CLOCK_DIVIDER, PELICAN);
        self.chip.write(register::MODE, RESET_MODE | SINGLE_FILTER);
        (0..8).for_each(|byte| self.chip.write(register::BUFFER + byte, 0));
        let timing = register::BUS_TIMING.into_iter().zip(BIT_RATE);
        timing.for_each(|(offset, value)| self.chip.write(offset, value));
        self.chip.write(register::OUTPUT_CONTROL, PUSH_PULL);
        self.chip
            .write(register::INTERRUPT_ENABLE, TRANSMIT_INTERRUPT);
        self.chip.write(register::MODE, SINGLE_FILTER);
        self.acknowledge();
        self.bridge.write(INTCSR, CARD_INTERRUPT);
    }

    /// The card is as [`start`](Self::start) has left it. After a power-off its bridge is not.
    pub fn has_kept_power(&self) -> bool {
        self.bridge.read(INTCSR) & CARD_INTERRUPT != 0
    }

    /// Sends a frame with an identifier of 11 bits; returns whether the controller took it. After
    /// a bus-off the controller is set up again, and the frame is not sent.
    pub fn send(&self, id: u16, data: [u8; 8]) -> bool {
        if self.chip.read(register::MODE) & RESET_MODE != 0 {
            self.start();
            return false;
        }
        if self.chip.read(register::STATUS) & BUFFER_FREE == 0 {
            return false;
        }
        let [high, low] = (id << 5).to_be_bytes();
        // A standard frame of eight bytes.
        let bytes = [8, high, low].into_iter().chain(data);
        for (offset, byte) in (register::BUFFER..).zip(bytes) {
            self.chip.write(offset, byte);
        }
        self.chip.write(register::COMMAND, TRANSMIT);
        true
    }

    /// The last frame was sent, and no other one waits.
    pub fn is_idle(&self) -> bool {
        let both = BUFFER_FREE | TRANSMITTED;
        self.chip.read(register::STATUS) & both == both
    }

    /// Acknowledges the interrupt; returns whether a frame has been sent.
    pub fn acknowledge(&self) -> bool {
        self.chip.read(register::INTERRUPT) & TRANSMIT_INTERRUPT != 0
    }
}
