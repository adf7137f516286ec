//! Exceptions from instructions that must raise them.

use super::{CLOSED, DATA, ILLEGAL, LANDING_PADS, PAGE, SOFTWARE_CHECK, SPELP, Trial};
use crate::{
    arch::{
        os_csr,
        sandbox::{Mode, PAGES},
    },
    check,
};

impl Trial {
    /// Raises each exception of the mode by an instruction that is known to: what random ones
    /// do not come to in a short run.
    pub(super) fn raise_each(&mut self) {
        const TO_X5: u32 = 0x0002_8067; // jr x5
        const LOAD: u32 = 0x0002_b303; // ld x6, 0(x5)
        const STORE: u32 = 0x0062_b023; // sd x6, 0(x5)
        const RESERVE: u32 = 0x1002_a32f; // lr.w x6, (x5)
        const BREAK: u32 = 0x0010_0073; // ebreak
        const CALL: u32 = 0x0000_0073; // ecall
        const OF_HYPERVISORS: u32 = 0x6000_2373; // csrr x6, hstatus
        const MISALIGNED: usize = PAGES + DATA * PAGE + 2;
        const CLOSED_PAGE: usize = PAGES + CLOSED * PAGE;
        const NO_PAGE: usize = PAGES + 16 * PAGE;
        let faults = match self.mode.is_virtual() {
            true => [20, 21, 23],
            false => [12, 13, 15],
        };
        let call = match self.mode {
            Mode::U | Mode::Vu => Some(8),
            Mode::Vs => Some(10),
            Mode::S => None,
        };
        let virtual_instruction = self.mode.is_virtual().then_some(22);
        for (instruction, x5, cause) in [
            (BREAK, 0, Some(3)),
            (RESERVE, MISALIGNED, Some(4)),
            (TO_X5, CLOSED_PAGE, Some(1)),
            (LOAD, CLOSED_PAGE, Some(5)),
            (STORE, CLOSED_PAGE, Some(7)),
            (TO_X5, NO_PAGE, Some(faults[0])),
            (LOAD, NO_PAGE, Some(faults[1])),
            (STORE, NO_PAGE, Some(faults[2])),
            (CALL, 0, call),
            (OF_HYPERVISORS, 0, virtual_instruction),
        ] {
            let Some(cause) = cause else { continue };
            let halves = [instruction, instruction >> 16].map(|half| (half & 0xffff) as u16);
            self.code[..2].copy_from_slice(&halves);
            self.map(false);
            let mut x = [0; 32];
            x[5] = x5;
            let ended = self.enter(x);
            check!(
                ended.cause == cause && self.came_from_here(&ended),
                "{instruction:#x} in {:?} mode is exception {cause}: {ended:x?}",
                self.mode
            );
            self.count(&ended, false);
        }
    }

    /// A program that must land on landing pads jumps to none: the OS learns of it as the
    /// specification says (Zicfilp).
    pub(super) fn miss_landing_pad(&mut self) {
        // jr t1
        const JUMP: [u16; 2] = [0x0067, 0x0003];
        const TARGET: usize = PAGES + 64;
        const MISSING_PAD: usize = 2;
        self.code[..2].copy_from_slice(&JUMP);
        self.map(false);
        for pads in [0, LANDING_PADS] {
            check!(
                os_csr::write(os_csr::SENVCFG, pads).is_ok(),
                "senvcfg is there"
            );
            let mut x = [0; 32];
            x[6] = TARGET;
            let ended = self.enter(x);
            let found = (ended.cause, ended.value, ended.status & SPELP != 0);
            let expected = match pads {
                0 => (ILLEGAL, 0, false),
                _ => (SOFTWARE_CHECK, MISSING_PAD, true),
            };
            self.count(&ended, false);
            check!(
                found == expected && ended.pc == TARGET,
                "a jump to no landing pad, with senvcfg {pads:#x}: {ended:x?}"
            );
        }
    }
}
