//! A census of the hart's registers for the OS. It tries each CSR number of U, S and H level. It
//! also tries each number of `siselect`, and of `vsiselect` for each guest interrupt file, through
//! each of the six windows. Each register that keeps a written bit gets a value, which it must
//! still have after a sleep or a cut.
//!
//! On the command line: `ms=N` waits N milliseconds, in which the power may fail. Without it the
//! machine is asked to sleep. `alarm_ms=N` sets the timer that wakes it.

mod registers;

use crate::{
    arch::{
        self, SSTATUS_MXR, SSTATUS_SUM,
        sleep::{self, Context, Outcome},
    },
    check,
    machine::Machine,
    memory::mix,
    read_csr, say, units, write_csr,
};
use arrayvec::ArrayVec;
use registers::{Place, Window};

/// CSRs that are not given a value, with the reason.
const EXCEPTIONS: &[(u16, &str)] = &[
    (0x015, "seed: entropy, and no state"),
    (
        0x100,
        "sstatus: looked at by itself, as it opens interrupts",
    ),
    (
        0x105,
        "stvec: where this case's own traps go; other cases look at it",
    ),
    (0x151, "sireg: a window"),
    (0x152, "sireg2: a window"),
    (0x153, "sireg3: a window"),
    (0x155, "sireg4: a window"),
    (0x156, "sireg5: a window"),
    (0x157, "sireg6: a window"),
    (
        0x15c,
        "stopei: a view of the interrupt file; a write claims",
    ),
    (
        0x180,
        "satp: zero at a wake by SBI's rule; it leads this case's own fetches",
    ),
    (0x251, "vsireg: a window"),
    (0x252, "vsireg2: a window"),
    (0x253, "vsireg3: a window"),
    (0x255, "vsireg4: a window"),
    (0x256, "vsireg5: a window"),
    (0x257, "vsireg6: a window"),
    (
        0x25c,
        "vstopei: a view of a guest's interrupt file; a write claims",
    ),
];

/// Bits that are not looked at, with the reason.
const UNSEEN: &[(u16, usize, &str)] = &[
    (
        0x104,
        !SIE_BITS,
        "sie: interrupts that the hart does not have (QEMU keeps their bits)",
    ),
    (0x144, STIP, "sip.STIP: a view of the timer"),
    (0x204, !SIE_BITS, "vsie: as sie"),
    (0x644, VSTIP, "hip.VSTIP: what hvip.VSTIP shows"),
    (
        0x645,
        STIP | VSTIP,
        "hvip: QEMU drops machine mode's writes to VSTIP where there is Sstc, and shows sip.STIP",
    ),
];

/// Supervisor software, timer and external interrupts, and counter overflow.
const SIE_BITS: usize = 1 << 1 | 1 << 5 | 1 << 9 | 1 << 13;
const STIP: usize = 1 << 5;
const VSTIP: usize = 1 << 6;

/// Of registers that are lost so many are named.
const MOST_TOLD: usize = 40;

/// Traps overwrite these: they get their values last, and are looked at first.
const OF_TRAPS: [u16; 3] = [0x141, 0x142, 0x143];

const SSTATUS: u16 = 0x100;
const SSTATUS_SPIE: usize = 1 << 5;
const SSTATUS_SPP: usize = 1 << 8;
/// The trap came from where a landing pad was expected (Zicfilp).
const SSTATUS_SPELP: usize = 1 << 23;
const SIE: u16 = 0x104;
const HIE: u16 = 0x604;
const STIMECMP: u16 = 0x14d;
/// `sctrctl`, whose bit 1 has branches of S-mode recorded: this case's own.
const SCTRCTL: u16 = 0x14e;
const SCTRCTL_S: usize = 1 << 1;
/// `sctrdepth`, and its value for the most records.
const SCTRDEPTH: u16 = 0x15f;
const MOST_RECORDS: usize = 4;
/// The first record, by `siselect`.
const FIRST_RECORD: u16 = 0x200;
/// An interrupt file's registers, by `siselect`.
const FILE: core::ops::Range<u16> = 0x70..0x100;

/// CSRs that let others keep something: `sstateen0`, `hideleg`, `henvcfg`, `hstateen0`.
const OPENS: [u16; 4] = [0x10c, 0x603, 0x60a, 0x60c];

/// A register, and the value that it is to keep.
#[derive(Clone, Copy, Debug)]
struct Held {
    place: Place,
    value: usize,
}

impl Held {
    fn is_csr(&self) -> bool {
        self.place.window == Window::Csr
    }

    /// The bits that are not looked at.
    fn unseen(&self) -> usize {
        let mut listed = UNSEEN.iter().filter(|_| self.is_csr());
        let own = listed.find(|(csr, ..)| *csr == self.place.number);
        own.map_or(0, |(_, bits, _)| *bits)
    }

    fn is_of_traps(&self) -> bool {
        self.is_csr() && OF_TRAPS.contains(&self.place.number)
    }
}

/// The most that any machine of the tests has.
type All = ArrayVec<Held, 1800>;

pub(super) fn run(machine: &Machine, _hart: usize) {
    units::turn_on();
    // What these close is not there to be counted.
    for opens in OPENS {
        Place::csr(opens).write(usize::MAX);
    }
    let mut all = All::new();
    for number in registers::csrs() {
        if EXCEPTIONS.iter().all(|(exception, _)| *exception != number) {
            look_at(Place::csr(number), &mut all);
        }
    }
    let csrs = all.len();
    Place::csr(SCTRDEPTH).write(MOST_RECORDS);
    for number in registers::selected() {
        Place::windows(Window::Supervisor, number).for_each(|place| look_at(place, &mut all));
    }
    let selected = all.len() - csrs;
    let guests = registers::guests();
    for guest in 0..=guests {
        // With a guest's number there is its interrupt file beside what there is without.
        let selected = registers::selected().filter(|number| guest == 0 || FILE.contains(number));
        for number in selected {
            Place::windows(Window::Guest(guest), number).for_each(|place| look_at(place, &mut all));
        }
    }
    let of_guests = all.len() - csrs - selected;
    say!("census: csrs={csrs} selected={selected} guests={guests} of_guests={of_guests}");
    check!(csrs > 15, "{csrs} CSRs keep what is written");
    hold(machine, &mut all);
    tell(&all);
    let status = hold_status();
    say!("census: holds {} registers", all.len());
    let waits_ms = machine.number("ms", 0) as u64;
    let kept_status = if waits_ms > 0 {
        let end = machine.in_ms(waits_ms);
        while arch::time() < end {
            core::hint::spin_loop();
        }
        usize::MAX
    } else {
        let mut context = Context::default();
        let outcome = sleep::suspend(0, &mut context);
        let Outcome::Woke(found) = outcome else {
            check!(false, "the machine did not sleep: {outcome:?}");
            return;
        };
        check!(found.satp == 0, "satp is zero: {:#x}", found.satp);
        // The wake enters the OS as SBI has it: SIE is off, and SPIE is not promised.
        !SSTATUS_SPIE
    };
    compare(&all, status, kept_status);
}

/// Notes the register if it keeps a bit.
fn look_at(place: Place, all: &mut All) {
    if place.sticking() != 0 {
        all.push(Held { place, value: 0 });
    }
}

/// Says what is held; of control transfer records the first alone.
fn tell(all: &All) {
    for held in all
        .iter()
        .filter(|held| held.place.number <= FIRST_RECORD || held.is_csr())
    {
        say!("census: {} holds {:#x}", held.place, held.value);
    }
}

/// Gives each register a value that it has not had.
fn hold(machine: &Machine, all: &mut All) {
    for held in all.iter().filter(|held| !held.is_of_traps()) {
        give(machine, held.place);
    }
    // One may be another's alias, or have closed it: what counts is what they hold at the end.
    for held in &mut *all {
        held.value = held.place.read().unwrap_or(0);
    }
    for held in all.iter_mut().filter(|held| held.is_of_traps()) {
        give(machine, held.place);
        held.value = held.place.read().unwrap_or(0);
    }
}

fn give(machine: &Machine, place: Place) {
    let before = place.read();
    let guest = match place.window {
        Window::Guest(guest) => u64::from(guest),
        Window::Csr | Window::Supervisor => 0,
    };
    let seed = guest << 32 | u64::from(place.number) << 8 | u64::from(place.register);
    let random = word(mix(seed));
    for value in [random, !random, usize::MAX, random | 1] {
        let value = match (place.window, place.number) {
            (Window::Csr, STIMECMP) => {
                let alarm_ms = machine.number("alarm_ms", 1_000_000) as u64;
                word(machine.in_ms(alarm_ms))
            }
            // None is taken while `sstatus.SIE` is clear.
            (Window::Csr, SIE) => arch::TIMER | 1 << 13,
            (Window::Csr, HIE) => usize::MAX,
            (Window::Csr, SCTRDEPTH) => MOST_RECORDS,
            (Window::Csr, SCTRCTL) => value & !SCTRCTL_S,
            _ => value,
        };
        place.write(value);
        if place.read() != before {
            return;
        }
    }
}

fn word(number: u64) -> usize {
    usize::try_from(number).expect("rv64's registers have 64 bits")
}

fn hold_status() -> usize {
    let bits = SSTATUS_SUM | SSTATUS_MXR | SSTATUS_SPP | SSTATUS_SPIE | SSTATUS_SPELP;
    write_csr!("sstatus", read_csr!("sstatus") | bits);
    read_csr!("sstatus")
}

fn compare(all: &All, status: usize, kept_status: usize) {
    let now = read_csr!("sstatus");
    let of_traps = all.iter().filter(|held| held.is_of_traps());
    let found: ArrayVec<_, 8> = of_traps.map(|held| (*held, held.place.read())).collect();
    let others = all.iter().filter(|held| !held.is_of_traps());
    let found = (found.into_iter()).chain(others.map(|held| (*held, held.place.read())));
    let (mut kept, mut lost) = (0, 0);
    for (held, now) in found {
        let unseen = held.unseen();
        if now.is_some_and(|now| (now ^ held.value) & !unseen == 0) {
            kept += 1;
        } else {
            lost += 1;
            if lost > MOST_TOLD {
                continue;
            }
            say!("FAIL: {}: {now:x?}, was {:#x}", held.place, held.value);
        }
    }
    check!(
        (now ^ status) & kept_status == 0,
        "CSR {SSTATUS:#x}: {now:#x}, was {status:#x}"
    );
    // What follows is not to be interrupted by what was set here.
    write_csr!("sie", 0);
    say!("census: kept={kept} lost={lost}");
    check!(lost == 0, "{lost} registers are not as they were");
}
