//! Registers by number: instructions made for each CSR, with traps caught.

use crate::arch::{self, guard};
use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};

/// Where a register is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Window {
    /// It is a CSR.
    Csr,
    /// By `siselect`.
    Supervisor,
    /// By `vsiselect`, with that number in `hstatus.VGEIN`.
    Guest(u8),
}

/// A register.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) window: Window,
    /// A CSR's number, or what the select register holds.
    pub(super) number: u16,
    /// Which of the six windows.
    pub(super) register: u8,
}

const SISELECT: u16 = 0x150;
const VSISELECT: u16 = 0x250;
const HSTATUS: u16 = 0x600;
const HGEIE: u16 = 0x607;
/// `hstatus.VGEIN`.
const VGEIN: usize = 0x3f << VGEIN_SHIFT;
const VGEIN_SHIFT: u32 = 12;
/// `sireg` to `sireg6`, from `siselect`.
const WINDOWS: [u16; 6] = [1, 2, 3, 5, 6, 7];

/// The CSR numbers of U, S and H level that can be written.
pub(super) fn csrs() -> impl Iterator<Item = u16> {
    (0..0x1000).filter(|number| number >> 8 & 3 != 3 && number >> 10 != 3)
}

/// What select registers take.
pub(super) fn selected() -> impl Iterator<Item = u16> {
    0..0x1000
}

/// How many guest interrupt files there are: `hgeie` has a bit for each.
pub(super) fn guests() -> u8 {
    let Some(before) = read_csr(HGEIE) else {
        return 0;
    };
    write_csr(HGEIE, usize::MAX);
    let files = read_csr(HGEIE).unwrap_or(0).count_ones();
    write_csr(HGEIE, before);
    u8::try_from(files).expect("a register has 64 bits")
}

impl Place {
    pub(super) fn csr(number: u16) -> Self {
        Place {
            window: Window::Csr,
            number,
            register: 0,
        }
    }

    /// The six registers that a number selects.
    pub(super) fn windows(window: Window, number: u16) -> impl Iterator<Item = Place> {
        (1..=6).map(move |register| Place {
            window,
            number,
            register,
        })
    }

    /// What it holds; `None` where there is no such register.
    pub(super) fn read(self) -> Option<usize> {
        self.access(read_csr)
    }

    /// Writes it, where it is.
    pub(super) fn write(self, value: usize) {
        self.access(|csr| write_csr(csr, value));
    }

    fn access<R>(self, access: impl Fn(u16) -> Option<R>) -> Option<R> {
        let window = |select: u16| {
            let before = read_csr(select)?;
            write_csr(select, self.number.into())?;
            let result = if read_csr(select) == Some(self.number.into()) {
                access(select + WINDOWS[usize::from(self.register) - 1])
            } else {
                None
            };
            write_csr(select, before);
            result
        };
        match self.window {
            Window::Csr => access(self.number),
            Window::Supervisor => window(SISELECT),
            Window::Guest(guest) => {
                let before = read_csr(HSTATUS)?;
                let of_guest = usize::from(guest) << VGEIN_SHIFT;
                write_csr(HSTATUS, before & !VGEIN | of_guest)?;
                let result = window(VSISELECT);
                write_csr(HSTATUS, before);
                result
            }
        }
    }

    /// The bits that keep what is written; none where there is no such register. It holds
    /// what it held.
    pub(super) fn sticking(self) -> usize {
        let Some(before) = self.read() else { return 0 };
        let patterns = [0, usize::MAX, usize::MAX / 3, usize::MAX / 3 * 2];
        // Of the many that select registers reach, those four tell enough.
        let bits = match self.window {
            Window::Csr => usize::BITS,
            Window::Supervisor | Window::Guest(_) => 0,
        };
        let single = (0..bits).map(|bit| before ^ 1 << bit);
        let mut changed = 0;
        for value in patterns.into_iter().chain(single) {
            self.write(value);
            changed |= self.read().unwrap_or(before) ^ before;
        }
        self.write(before);
        changed
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place {
            number, register, ..
        } = self;
        match self.window {
            Window::Csr => write!(f, "CSR {number:#x}"),
            Window::Supervisor => write!(f, "siselect {number:#x}, sireg{register}"),
            Window::Guest(guest) => {
                write!(f, "VGEIN {guest}, vsiselect {number:#x}, vsireg{register}")
            }
        }
    }
}

/// An instruction, and a return.
#[repr(align(4096))]
struct Code([AtomicU32; 2]);

const RETURN: u32 = 0x0000_8067;
static CODE: Code = Code([AtomicU32::new(RETURN), AtomicU32::new(RETURN)]);

/// Runs a CSR instruction on a0, of that form and with that source register.
fn run(csr: u16, form: u32, source: u32, value: usize) -> Option<usize> {
    const A0: u32 = 10;
    const SYSTEM: u32 = 0x73;
    let instruction = u32::from(csr) << 20 | source << 15 | form << 12 | A0 << 7 | SYSTEM;
    CODE.0[0].store(instruction, Ordering::Relaxed);
    arch::fence_i();
    guard::call(CODE.0.as_ptr().addr(), value).ok()
}

fn read_csr(csr: u16) -> Option<usize> {
    const SET: u32 = 2;
    run(csr, SET, 0, 0)
}

fn write_csr(csr: u16, value: usize) -> Option<usize> {
    const SWAP: u32 = 1;
    run(csr, SWAP, 10, value)
}
