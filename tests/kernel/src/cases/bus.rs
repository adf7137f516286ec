//! The registers of devices on the bus of memory are as before a sleep: of all UARTs, and of the
//! clock. A byte that is typed after the sleep interrupts.
//!
//! The console is a real 16550. Memory stands for others, of both kinds: a wake writes their registers
//! there.

use crate::{
    arch::sleep::{self, Context, Outcome},
    check, clock,
    irqchip::Chip,
    machine::Machine,
    mmio, say,
};

mod register {
    pub(super) const DATA: usize = 0;
    pub(super) const INTERRUPTS: usize = 1;
    pub(super) const FIFO: usize = 2;
    pub(super) const LINE: usize = 3;
    pub(super) const MODEM: usize = 4;
    pub(super) const SCRATCH: usize = 7;
}

/// Line control: the divisor is at the first two registers.
const DIVISOR_OPEN: u8 = 1 << 7;

/// Unusual settings: interrupts for received bytes and the modem; 7 bits, even parity, 2 stop bits;
/// a slow divisor.
const INTERRUPTS: u8 = 0b1001;
const LINE: u8 = 0b1_1110;
const MODEM: u8 = 0b1011;
const SCRATCH: u8 = 0xa5;
const DIVISOR: [u8; 2] = [0x23, 0x01];
const FIFOS: u8 = 0xc1;

/// Settings of the memory that stands for another UART. It has no separate divisor.
const OTHER: [(usize, u8); 4] = [
    (register::INTERRUPTS, 5),
    (register::LINE, 0x1b),
    (register::MODEM, 0xb),
    (register::SCRATCH, 0x5a),
];

/// Settings of the memory that stands for SiFive's UART: transmit and receive control, the interrupts
/// that are enabled, and the divisor.
const SIFIVE: [(usize, u32); 4] = [(8, 0x1_0003), (0xc, 0x3_0001), (0x10, 2), (0x18, 289)];

pub(super) fn run(machine: &Machine, hart: usize) {
    let chip = Chip::set_up(machine, hart, 1);
    program(machine.uart);
    for other in &machine.other_uarts {
        (OTHER.iter()).for_each(|(register, value)| mmio::write8(other + register, *value));
    }
    for sifive in &machine.sifive_uarts {
        (SIFIVE.iter()).for_each(|(register, value)| mmio::write32(sifive + register, *value));
    }
    const HOUR_MS: u64 = 3_600_000;
    clock::set_alarm(machine, HOUR_MS);
    let alarm = clock::alarm(machine);
    let mut context = Context::default();
    let Outcome::Woke(_) = sleep::suspend(0, &mut context) else {
        check!(false, "the sleep is refused");
        return;
    };
    check_registers(machine.uart);
    for other in &machine.other_uarts {
        for (register, value) in OTHER {
            let found = mmio::read8(other + register);
            check!(
                found == value,
                "UART {other:#x}, {register}: {found:#x}, not {value:#x}"
            );
        }
    }
    for sifive in &machine.sifive_uarts {
        for (register, value) in SIFIVE {
            let found = mmio::read32(sifive + register);
            check!(
                found == value,
                "SiFive's UART {sifive:#x}, {register:#x}: {found:#x}, not {value:#x}"
            );
        }
    }
    let found = clock::alarm(machine);
    check!(found == alarm, "the alarm: {found:x?}, not {alarm:x?}");
    let others = machine.other_uarts.len() + machine.sifive_uarts.len();
    say!("bus: {others} other UARTs, type a key");
    chip.check_byte(machine);
    let byte = mmio::read8(machine.uart + register::DATA);
    check!(byte == b'k', "the byte is {byte:#x}");
}

fn program(uart: usize) {
    let write = |register, value| mmio::write8(uart + register, value);
    write(register::LINE, LINE | DIVISOR_OPEN);
    write(register::DATA, DIVISOR[0]);
    write(register::INTERRUPTS, DIVISOR[1]);
    write(register::LINE, LINE);
    write(register::FIFO, FIFOS);
    write(register::MODEM, MODEM);
    write(register::SCRATCH, SCRATCH);
    write(register::INTERRUPTS, INTERRUPTS);
}

fn check_registers(uart: usize) {
    let read = |register| mmio::read8(uart + register);
    let found = [
        register::INTERRUPTS,
        register::LINE,
        register::MODEM,
        register::SCRATCH,
    ]
    .map(read);
    let wanted = [INTERRUPTS, LINE, MODEM, SCRATCH];
    check!(
        found == wanted,
        "IER, LCR, MCR and SCR: {found:x?}, not {wanted:x?}"
    );
    let fifos = read(register::FIFO) & 0xc0;
    check!(fifos == 0xc0, "the FIFOs: {fifos:#x}");
    mmio::write8(uart + register::LINE, LINE | DIVISOR_OPEN);
    let divisor = [register::DATA, register::INTERRUPTS].map(read);
    mmio::write8(uart + register::LINE, LINE);
    check!(
        divisor == DIVISOR,
        "the divisor: {divisor:x?}, not {DIVISOR:x?}"
    );
}
