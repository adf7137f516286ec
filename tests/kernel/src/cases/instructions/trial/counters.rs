//! Reads of counters under all rights to them, and illegal instructions, whose every effect is known.
//! The same is checked of harts that have the counters, and of those whose reads machine mode
//! emulates.

use super::{HANDLER, ILLEGAL, MRET, OF_THE_CODE, PAGE, SDT, SPELP, SPIE, SPP, Trial, VIRTUAL};
use crate::{
    arch::{
        self, guest,
        os_csr::{
            self, HCOUNTEREN, HEDELEG, HTIMEDELTA, SCOUNTEREN, VSATP, VSCAUSE, VSEPC, VSTVAL,
        },
        sandbox::{self, Ended, Mode, PAGES, Start},
    },
    check, read_csr, write_csr,
};

const EBREAK: u32 = 0x0010_0073;
const BREAKPOINT: usize = 3;
/// `mret`; `csrr x6, mstatus`.
const ILLEGAL_ONES: [u32; 2] = [MRET, 0x3000_2373];
/// `cycle`, `time`, `instret`, whose bits of `scounteren` are 0, 1, 2.
const COUNTERS: [u32; 3] = [0xc00, 0xc01, 0xc02];
const TIME: usize = 1;
/// A guest's `time` is ahead by so much.
const AHEAD: usize = 1 << 60;

/// The registers; x5 is as a guest's handler leaves it.
const X: [usize; 32] = {
    let mut x = [0x5a5a; 32];
    x[5] = PAGES + 4;
    x
};

/// The instruction `csrrs x6, CSR, x0`, or one of its kind, with this source.
const fn of_x6(kind: u32, csr: u32, source: u32) -> u32 {
    csr << 20 | source << 15 | kind << 12 | 6 << 7 | 0x73
}

/// Forms that read: CSRRS, CSRRC, CSRRSI, CSRRCI, with nothing to write.
const READS: [(u32, u32); 4] = [(2, 0), (3, 0), (6, 0), (7, 0)];
/// Forms that write, even if nothing or zero: no caller may do that.
const WRITES: [(u32, u32); 8] = [
    (1, 0),
    (1, 5),
    (2, 5),
    (3, 5),
    (5, 0),
    (5, 1),
    (6, 1),
    (7, 1),
];

impl Trial {
    /// Reads each counter, and tries to write it, under all rights.
    pub(super) fn read_counters(&mut self) {
        self.set_guest(HTIMEDELTA, AHEAD);
        for open in 0..8 {
            for of_guests in [0, 7, open, 7 & !open] {
                self.set_guest(HCOUNTEREN, of_guests);
                check!(
                    os_csr::write(SCOUNTEREN, open).is_ok(),
                    "each hart has scounteren"
                );
                let may = match self.mode {
                    Mode::U => open,
                    Mode::S => 7,
                    Mode::Vs => of_guests,
                    Mode::Vu => of_guests & open,
                };
                for (number, csr) in COUNTERS.into_iter().enumerate() {
                    self.read_counter(number, csr, may >> number & 1 != 0);
                }
                if !self.this.has_hypervisor {
                    break;
                }
            }
        }
        self.set_guest(HTIMEDELTA, 0);
        for bits in ILLEGAL_ONES {
            self.fault(bits, ILLEGAL);
        }
        if self.mode.is_virtual() {
            self.fault_in_guest();
        }
    }

    fn set_guest(&self, csr: u16, value: usize) {
        let written = !self.this.has_hypervisor || os_csr::write(csr, value).is_ok();
        check!(written, "a hart with H has {csr:#x}");
    }

    fn read_counter(&mut self, number: usize, csr: u32, may: bool) {
        let mut before = 0;
        for (kind, source) in READS {
            let bits = of_x6(kind, csr, source);
            if !may {
                let denied = if self.mode.is_virtual() {
                    VIRTUAL
                } else {
                    ILLEGAL
                };
                self.fault(bits, denied);
                continue;
            }
            let ended = self.one(bits, BREAKPOINT, PAGES + 4, 0);
            let value = ended.x[6];
            let ahead = match number {
                TIME if self.mode.is_virtual() => AHEAD,
                _ => 0,
            };
            check!(
                value > before && value & AHEAD == ahead,
                "{bits:#x} in {:?} mode reads {value:#x}, after {before:#x}",
                self.mode
            );
            before = value;
        }
        for (kind, source) in WRITES {
            self.fault(of_x6(kind, csr, source), ILLEGAL);
        }
    }

    /// The instruction raises this exception.
    fn fault(&mut self, bits: u32, cause: usize) {
        let ended = self.one(bits, cause, PAGES, bits as usize);
        check!(ended.x[6] == X[6], "{bits:#x} changes x6: {ended:x?}");
    }

    /// Runs the instruction, and a breakpoint after it. It ends like this, and leaves all that is
    /// not a matter of the trap, and all registers but x6.
    fn one(&mut self, bits: u32, cause: usize, pc: usize, value: usize) -> Ended {
        for (half, bits) in [bits, bits >> 16, EBREAK, EBREAK >> 16]
            .into_iter()
            .enumerate()
        {
            self.code[half] = (bits & 0xffff) as u16;
        }
        self.map(false);
        let random = self.random.next() & OF_THE_CODE & !(SPELP | SDT);
        let of_mode = if matches!(self.mode, Mode::S | Mode::Vs) {
            SPP
        } else {
            0
        };
        write_csr!("sstatus", read_csr!("sstatus") & !OF_THE_CODE | random);
        let start = Start {
            mode: self.mode,
            pc: PAGES,
            status: read_csr!("sstatus"),
            hypervisor: self.hypervisor(),
            x: X,
        };
        let ended = sandbox::run(&start, self.ticks);
        let status = start.status & !(arch::SSTATUS_SIE | SPP) | SPIE | of_mode;
        let from_guest = match self.mode {
            Mode::U | Mode::S => 0,
            Mode::Vs => guest::HSTATUS_SPV | guest::HSTATUS_SPVP,
            Mode::Vu => guest::HSTATUS_SPV,
        };
        let of_traps = guest::HSTATUS_SPV | guest::HSTATUS_SPVP | guest::HSTATUS_GVA;
        let hypervisor = start.hypervisor & !of_traps | from_guest;
        // By the specification GVA is set with a breakpoint's address. QEMU does that only if the
        // breakpoint goes to machine mode.
        let open = if cause == BREAKPOINT {
            guest::HSTATUS_GVA
        } else {
            0
        };
        check!(
            (
                ended.cause,
                ended.pc,
                ended.status,
                ended.hypervisor & !open
            ) == (cause, pc, status, hypervisor)
                && (cause == BREAKPOINT || bits == MRET || ended.value == value),
            "{bits:#x} in {:?} mode is exception {cause} at {pc:#x}, value {value:#x}, sstatus {status:#x}, hstatus {hypervisor:#x}: {ended:x?}",
            self.mode
        );
        let others = (1..32).filter(|&number| number != 6);
        let changed = others.filter(|&number| ended.x[number] != X[number]);
        check!(
            changed.count() == 0,
            "{bits:#x} changes registers: {ended:x?}"
        );
        self.count(&ended, false);
        ended
    }

    /// A guest that handles illegal instructions itself.
    fn fault_in_guest(&mut self) {
        self.set_guest(HEDELEG, 1 << ILLEGAL);
        self.set_guest(VSATP, 0);
        self.set_guest(os_csr::VSTVEC, PAGES + HANDLER * PAGE);
        for bits in ILLEGAL_ONES {
            let ended = self.one(bits, BREAKPOINT, PAGES + 4, 0);
            let found = [VSEPC, VSCAUSE, VSTVAL].map(|csr| os_csr::read(csr).unwrap_or(0));
            check!(
                found[..2] == [PAGES + 4, ILLEGAL] && (bits == MRET || found[2] == bits as usize),
                "{bits:#x} in {:?} mode, for the guest: {found:x?}, {ended:x?}",
                self.mode
            );
        }
        self.set_guest(HEDELEG, 0);
    }
}
