//! S-mode's interrupt controller: set up before a sleep as by an OS. After it, it must be
//! unchanged, and deliver interrupts.

use crate::{
    arch::{self, guard},
    check,
    machine::{GenerationId, Machine, UartChip},
    mmio, read_csr, write_csr,
};
use arrayvec::ArrayVec;
use poorwill_bare::{aplic, imsic};

/// External interrupts in `sie`/`sip`.
const EXTERNAL: usize = 1 << 9;

/// Which controller, and what was written to it.
#[derive(Debug)]
pub(crate) struct Chip {
    /// Registers and what they held.
    registers: ArrayVec<(usize, u32), 320>,
    /// IMSIC registers by their select number, and what they held.
    imsic: ArrayVec<(usize, usize), 8>,
    /// The PLIC context of the hart in question.
    context: usize,
    /// The generation ID.
    id: [u32; 4],
    /// The source of an APLIC that was left pending.
    pending: Option<usize>,
}

// PLIC, by its specification's memory map.
const PLIC_ENABLE: usize = 0x2000;
const PLIC_THRESHOLD: usize = 0x20_0000;
const PLIC_CLAIM: usize = 0x20_0004;

/// The identity by which the generation ID's interrupt reaches a hart, which has it off.
const OF_GENERATION_ID: usize = 45;

impl Chip {
    /// Sets the controller up; what it then holds is what must come back.
    pub(crate) fn set_up(machine: &Machine, hart: usize, number: usize) -> Self {
        let mut chip = Self {
            registers: ArrayVec::new(),
            imsic: ArrayVec::new(),
            context: 0,
            id: machine
                .generation_id
                .as_ref()
                .map_or([0; 4], GenerationId::read),
            pending: None,
        };
        let index = machine.index_of(hart);
        if let Some(plic) = machine.plic {
            chip.context = machine.plic_contexts[index];
            chip.set_up_plic(machine, plic, number);
        } else if let Some(aplic) = machine.aplic {
            if machine.has_imsic {
                chip.set_up_imsic(machine, number);
            }
            chip.set_up_aplic(machine, aplic, index, number);
        }
        chip
    }

    fn set_up_plic(&mut self, machine: &Machine, plic: usize, number: usize) {
        for source in 1..=machine.uart_interrupt + 8 {
            self.write(plic + 4 * source, cell((source + number) % 7 + 1));
        }
        let enables = plic + PLIC_ENABLE + self.context * 0x80;
        self.write(enables, (1 << machine.uart_interrupt) | (2 << (number % 4)));
        self.write(plic + PLIC_THRESHOLD + self.context * 0x1000, 0);
    }

    fn set_up_aplic(&mut self, machine: &Machine, aplic: usize, hart_index: usize, number: usize) {
        self.write(aplic, aplic::SENDS_MESSAGES);
        for source in 1..=machine.uart_interrupt + 8 {
            self.write(aplic + aplic::SOURCECFG + 4 * source, aplic::LEVEL_HIGH);
            let identity = cell(source + number % 3);
            let target = if machine.has_imsic { identity } else { 1 };
            self.write(
                aplic + aplic::TARGET + 4 * source,
                cell(hart_index) << 18 | target,
            );
        }
        if let Some(id) = &machine.generation_id {
            self.write(aplic + aplic::SOURCECFG + 4 * id.source, aplic::RISING_EDGE);
            mmio::write32(aplic + aplic::CLRIPNUM, cell(id.source));
            if machine.has_imsic {
                let target = cell(hart_index) << 18 | cell(OF_GENERATION_ID);
                self.write(aplic + aplic::TARGET + 4 * id.source, target);
                mmio::write32(aplic + aplic::SETIENUM, cell(id.source));
            }
        }
        mmio::write32(aplic + aplic::SETIENUM, cell(machine.uart_interrupt));
        let enables = aplic + aplic::SETIE;
        self.registers.push((enables, mmio::read32(enables)));
        if !machine.has_imsic {
            // Direct delivery: this hart's idelivery and ithreshold.
            mmio::write32(aplic, 0x100);
            self.registers[0].1 = mmio::read32(aplic);
            self.write(aplic + 0x4000 + hart_index * 32, 1);
            self.write(aplic + 0x4008 + hart_index * 32, 0);
        }
    }

    fn set_up_imsic(&mut self, machine: &Machine, number: usize) {
        let identity = machine.uart_interrupt + number % 3;
        imsic::write(
            imsic::EIP0,
            imsic::read(imsic::EIP0) & !(1 << OF_GENERATION_ID),
        );
        for (select, value) in [
            (imsic::EIDELIVERY, 1),
            (imsic::EITHRESHOLD, 0),
            (imsic::EIE0, 1 << identity | 1 << 40),
        ] {
            imsic::write(select, value);
            self.imsic.push((select, imsic::read(select)));
        }
    }

    /// Writes a register, and keeps what it then holds: fields may be fixed.
    fn write(&mut self, address: usize, value: u32) {
        mmio::write32(address, value);
        self.registers.push((address, mmio::read32(address)));
    }

    /// Checks that every register is as it was.
    pub(crate) fn check(&self, machine: &Machine) {
        self.check_pending(machine);
        for &(address, was) in &self.registers {
            let now = mmio::read32(address);
            check!(
                now == was,
                "interrupt controller register {address:#x}: {now:#x}, was {was:#x}"
            );
        }
        for &(select, was) in &self.imsic {
            let now = imsic::read(select);
            check!(
                now == was,
                "IMSIC register {select:#x}: {now:#x}, was {was:#x}"
            );
        }
        let set_up = !self.registers.is_empty();
        check!(
            set_up,
            "there is a controller to look at (PLIC {:x?}, APLIC {:x?})",
            machine.plic,
            machine.aplic
        );
    }

    /// Checks that there is a new generation ID, and its interrupt pending, if and
    /// only if the machine slept. The hart does not take it, so pending it stays: in its
    /// interrupt file, where it has one.
    pub(crate) fn check_generation_id(&self, machine: &Machine, slept: bool) {
        let (Some(id), Some(aplic)) = (&machine.generation_id, machine.aplic) else {
            return;
        };
        let now = id.read();
        check!(
            (now != self.id) == slept,
            "the generation ID is {now:x?}, was {:x?}",
            self.id
        );
        let (pending, bit) = if machine.has_imsic {
            (imsic::read(imsic::EIP0), OF_GENERATION_ID)
        } else {
            let pending = mmio::read32(aplic + aplic::SETIP + id.source / 32 * 4);
            (pending as usize, id.source % 32)
        };
        check!(
            (pending & 1 << bit != 0) == slept,
            "the generation ID's interrupt: {pending:#x}, slept: {slept}"
        );
    }

    /// Makes a source pending that no device drives and that is not enabled: so it is to
    /// stay, as long as the machine is cut at the most. A PLIC has none like that.
    pub(crate) fn leave_pending(&mut self, machine: &Machine) {
        let Some(aplic) = machine.aplic else { return };
        let source = machine.uart_interrupt + 9;
        self.write(aplic + aplic::SOURCECFG + 4 * source, aplic::RISING_EDGE);
        mmio::write32(aplic + aplic::SETIPNUM, cell(source));
        self.pending = Some(source);
        self.check_pending(machine);
    }

    /// Checks that the source that was left pending is.
    fn check_pending(&self, machine: &Machine) {
        if let Some((source, aplic)) = self.pending.zip(machine.aplic) {
            let found = mmio::read32(aplic + aplic::SETIP + source / 32 * 4);
            check!(
                found & 1 << (source % 32) != 0,
                "source {source} is pending: {found:#x}"
            );
        }
    }

    /// Checks that the console's interrupt reaches this hart, by letting the
    /// UART say that it has room to send.
    pub(crate) fn check_delivery(&self, machine: &Machine) {
        let old = raise_console(machine);
        let cause = guard::wait_for_interrupt(EXTERNAL, machine.timebase);
        check!(
            cause == Some(arch::interrupt_cause(EXTERNAL)),
            "the console's interrupt arrives: {cause:x?}"
        );
        calm_console(machine, old);
        self.acknowledge(machine);
    }

    /// Checks that a byte on the console interrupts this hart.
    pub(crate) fn check_byte(&self, machine: &Machine) {
        const SECONDS: u64 = 10;
        let cause = guard::wait_for_interrupt(EXTERNAL, SECONDS * machine.timebase);
        check!(
            cause == Some(arch::interrupt_cause(EXTERNAL)),
            "a byte's interrupt arrives: {cause:x?}"
        );
        self.acknowledge(machine);
    }

    /// Claims and completes whatever is pending.
    fn acknowledge(&self, machine: &Machine) {
        if let Some(plic) = machine.plic {
            let claim = plic + PLIC_CLAIM + self.context * 0x1000;
            let source = mmio::read32(claim);
            check!(
                source as usize == machine.uart_interrupt,
                "the PLIC names source {source}"
            );
            mmio::write32(claim, source);
        } else if machine.has_imsic {
            let identity = imsic::claim();
            check!(
                identity.is_some(),
                "the IMSIC names an identity: {identity:x?}"
            );
        }
    }
}

/// Takes an interrupt of the console at the hart's context of a PLIC, with S-mode's interrupts off:
/// waits for it, claims it, and completes it.
pub(crate) fn take_console_interrupt(machine: &Machine, hart: usize) {
    let plic = machine.plic.expect("a PLIC");
    let context = machine.plic_contexts[machine.index_of(hart)];
    let (enables, claim) = (
        plic + PLIC_ENABLE + context * 0x80,
        plic + PLIC_CLAIM + context * 0x1000,
    );
    mmio::write32(plic + 4 * machine.uart_interrupt, 1);
    mmio::write32(plic + PLIC_THRESHOLD + context * 0x1000, 0);
    mmio::write32(enables, 1 << machine.uart_interrupt);
    write_csr!("sie", EXTERNAL);
    let old = raise_console(machine);
    poorwill_bare::hart::wait();
    let pending = read_csr!("sip");
    check!(
        pending & EXTERNAL != 0,
        "the console interrupts: {pending:#x}"
    );
    let source = mmio::read32(claim);
    check!(
        source == cell(machine.uart_interrupt),
        "the console's source is claimed: {source}"
    );
    calm_console(machine, old);
    mmio::write32(claim, source);
    mmio::write32(enables, 0);
    let pending = read_csr!("sip");
    check!(
        pending & EXTERNAL == 0,
        "it interrupts no more: {pending:#x}"
    );
    write_csr!("sie", 0);
}

/// The 16550's register of that name.
const INTERRUPT_ENABLE: usize = 1;
/// SiFive's: transmit control, with the watermark below which there is room; and the enables.
const TRANSMIT_CONTROL: usize = 8;
const ENABLES: usize = 0x10;

/// Has the console's interrupt be raised: it has room to send. Returns what was set there before,
/// for [`calm_console`].
pub(crate) fn raise_console(machine: &Machine) -> [u32; 2] {
    match machine.uart_chip {
        UartChip::Ns16550 => {
            const ROOM_TO_SEND: u8 = 2;
            let enables = machine.uart + INTERRUPT_ENABLE;
            let old = mmio::read8(enables);
            mmio::write8(enables, 0);
            mmio::write8(enables, ROOM_TO_SEND);
            [old.into(), 0]
        }
        UartChip::SiFive => {
            const SENDS: u32 = 1;
            const WATERMARK: u32 = 1 << 16;
            const ROOM_TO_SEND: u32 = 1;
            let registers = [ENABLES, TRANSMIT_CONTROL].map(|register| machine.uart + register);
            let old = registers.map(mmio::read32);
            mmio::write32(registers[1], SENDS | WATERMARK);
            mmio::write32(registers[0], ROOM_TO_SEND);
            old
        }
    }
}

/// Ends what [`raise_console`] began.
pub(crate) fn calm_console(machine: &Machine, [enables, control]: [u32; 2]) {
    match machine.uart_chip {
        UartChip::Ns16550 => {
            let enables = enables.try_into().expect("what a register of 8 bits held");
            mmio::write8(machine.uart + INTERRUPT_ENABLE, enables);
        }
        UartChip::SiFive => {
            mmio::write32(machine.uart + ENABLES, enables);
            mmio::write32(machine.uart + TRANSMIT_CONTROL, control);
        }
    }
}

/// Checks that the console's receiver holds this byte, and no further one.
pub(crate) fn check_received(machine: &Machine, byte: u8) {
    const RECEIVED: usize = 0;
    const LINE_STATUS: usize = 5;
    let receive = || match machine.uart_chip {
        UartChip::Ns16550 => {
            let has_byte = mmio::read8(machine.uart + LINE_STATUS) & 1 != 0;
            has_byte.then(|| mmio::read8(machine.uart + RECEIVED))
        }
        UartChip::SiFive => {
            const RECEIVE: usize = 4;
            const EMPTY: u32 = 1 << 31;
            let word = mmio::read32(machine.uart + RECEIVE);
            (word & EMPTY == 0).then_some((word & 0xff) as u8)
        }
    };
    let found = [receive(), receive()];
    check!(
        found == [Some(byte), None],
        "the receiver holds {byte:#x}: {found:x?}"
    );
}

/// A number for a register of 32 bits.
fn cell(number: usize) -> u32 {
    u32::try_from(number).expect("numbers of sources and harts are small")
}
