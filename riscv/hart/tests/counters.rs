//! Reads of `cycle`, `time` and `instret` that machine mode makes for the OS, against the rules of
//! the specifications.
#![allow(missing_docs, reason = "a test")]

use std::cell::RefCell;
use std::collections::BTreeMap;

use poorwill_hart::emulation::{Counter, CounterRead, Fault, cause, redirect};
use poorwill_hart::{Csr, CsrAccess};
use proptest::prelude::*;

/// Bits of `mstatus`: the trap's mode, its virtualization, and a guest's address in `mtval`.
const MPP_S: u64 = 1 << 11;
const MPV: u64 = 1 << 39;
const GVA: u64 = 1 << 38;
/// UXL and SXL of 64 bits.
const WIDE: u64 = 2 << 32 | 2 << 34;

const ILLEGAL: u64 = 2;
const VIRTUAL: u64 = 22;

#[derive(Debug, Default)]
struct Hart(RefCell<BTreeMap<u16, u64>>);

impl Hart {
    fn with(csrs: &[(Csr, u64)]) -> Self {
        let csrs = csrs.iter().map(|(csr, value)| (csr.number(), *value));
        Hart(RefCell::new(csrs.collect()))
    }

    fn get(&self, csr: Csr) -> u64 {
        self.read_csr(csr).unwrap_or_else(|| panic!("{csr:?}"))
    }
}

impl CsrAccess for Hart {
    fn read_csr(&self, csr: Csr) -> Option<u64> {
        self.0.borrow().get(&csr.number()).copied()
    }

    fn write_csr(&self, csr: Csr, value: u64) {
        if let Some(own) = self.0.borrow_mut().get_mut(&csr.number()) {
            *own = value;
        }
    }
}

/// CSRRW, CSRRS, CSRRC (1, 2, 3), CSRRWI, CSRRSI, CSRRCI (5, 6, 7), of `csr`, to a register.
const fn access(kind: u32, csr: u32, source: u32, to: u32) -> u32 {
    csr << 20 | source << 15 | kind << 12 | to << 7 | 0x73
}

const COUNTERS: [(u32, Counter); 3] = [
    (0xc00, Counter::Cycle),
    (0xc01, Counter::Time),
    (0xc02, Counter::Instructions),
];

/// The caller's mode, as `mstatus` has it; whether `scounteren` and `hcounteren` bind it; and the
/// exception of a denied read. Privileged specification, 3.1.11 and 12.1.1.5; H extension, 18.2.6
/// and 18.6.1: a guest's denied read is a virtual instruction, as `mcounteren` has all three bits.
const MODES: [(&str, u64, bool, bool, u64); 4] = [
    ("S", MPP_S, false, false, ILLEGAL),
    ("U", 0, true, false, ILLEGAL),
    ("VS", MPV | MPP_S, false, true, VIRTUAL),
    ("VU", MPV, true, true, VIRTUAL),
];

#[test]
fn each_mode_reads_what_its_rights_allow() {
    for (mode, status, by_scounteren, by_hcounteren, denied) in MODES {
        for (place, (csr, counter)) in COUNTERS.into_iter().enumerate() {
            for open in 0..64 {
                let (scounteren, hcounteren) = (open & 7, open >> 3);
                let hart = Hart::with(&[
                    (Csr::Scounteren, scounteren),
                    (Csr::Hcounteren, hcounteren),
                    (Csr::Htimedelta, 1000),
                    (Csr::Hstatus, 2 << 32),
                    (Csr::Vsstatus, 2 << 32),
                ]);
                let is_open = |bits: u64| bits >> place & 1 != 0;
                let allowed = (!by_scounteren || is_open(scounteren))
                    && (!by_hcounteren || is_open(hcounteren));
                let read = CounterRead::of(access(2, csr, 0, 10), status | WIDE, &hart);
                let what = format!("{counter:?} in {mode}, {scounteren:#b}, {hcounteren:#b}");
                if !allowed {
                    assert_eq!(read, Err(denied), "{what}");
                    continue;
                }
                let read = read.unwrap_or_else(|cause| panic!("{what}: {cause}"));
                assert_eq!(read.counter, counter, "{what}");
                let mut x = [7; 32];
                assert_eq!(read.complete(&mut x, 5), 4, "{what}");
                let is_shifted = by_hcounteren && counter == Counter::Time;
                let mut after = [7; 32];
                after[10] = if is_shifted { 1005 } else { 5 };
                assert_eq!(x, after, "{what}");
            }
        }
    }
}

/// A hart without H has neither `hcounteren` nor guests.
#[test]
fn a_hart_without_guests_serves_its_own() {
    let hart = Hart::with(&[(Csr::Scounteren, 0b010)]);
    let time = access(2, 0xc01, 0, 1);
    assert!(CounterRead::of(time, WIDE, &hart).is_ok());
    assert!(CounterRead::of(time, WIDE | MPP_S, &hart).is_ok());
    assert_eq!(
        CounterRead::of(access(2, 0xc00, 0, 1), WIDE, &hart),
        Err(ILLEGAL)
    );
}

/// Zicsr, table 7.1: CSRRS and CSRRC write unless the source is `x0`, their immediate forms unless
/// it is 0, CSRRW and CSRRWI always.
#[test]
fn only_reads_that_write_nothing_are_served() {
    let hart = Hart::with(&[(Csr::Scounteren, 0)]);
    for kind in 0..8 {
        for source in 0..32 {
            for csr in 0..0x1000 {
                let bits = access(kind, csr, source, 31);
                let is_counter = COUNTERS.iter().any(|(own, _)| *own == csr);
                let expected = is_counter && [2, 3, 6, 7].contains(&kind) && source == 0;
                let read = CounterRead::of(bits, MPP_S | WIDE, &hart);
                assert_eq!(read.is_ok(), expected, "{bits:#x}");
                assert!(expected || read == Err(ILLEGAL), "{bits:#x}");
            }
        }
    }
    for opcode in (0..0x80).filter(|&opcode| opcode != 0x73) {
        let bits = access(2, 0xc01, 0, 31) & !0x7f | opcode;
        assert_eq!(CounterRead::of(bits, MPP_S | WIDE, &hart), Err(ILLEGAL));
    }
}

#[test]
fn the_result_goes_to_its_register_alone() {
    let hart = Hart::default();
    for to in 0..32 {
        let bits = access(3, 0xc02, 0, to);
        let read = CounterRead::of(bits, MPP_S | WIDE, &hart).expect("S-mode may read it");
        let mut x = [7; 32];
        assert_eq!(read.complete(&mut x, u64::MAX), 4);
        let changed = (0..32).filter(|&number| x[number] != 7);
        let expected: Vec<usize> = (to != 0).then_some(to as usize).into_iter().collect();
        assert_eq!(changed.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn a_caller_with_narrow_registers_is_not_served() {
    let time = access(2, 0xc01, 0, 1);
    let read = |status, hstatus, vsstatus| {
        let hart = Hart::with(&[
            (Csr::Scounteren, 7),
            (Csr::Hcounteren, 7),
            (Csr::Hstatus, hstatus),
            (Csr::Vsstatus, vsstatus),
        ]);
        CounterRead::of(time, status, &hart).err()
    };
    let [narrow, wide] = [1 << 32, 2 << 32];
    assert_eq!(read(2 << 34 | narrow, wide, wide), Some(ILLEGAL), "U");
    assert_eq!(
        read(2 << 34 | narrow | MPP_S, wide, wide),
        None,
        "S above narrow U"
    );
    assert_eq!(read(1 << 34 | wide | MPP_S, wide, wide), Some(ILLEGAL), "S");
    assert_eq!(read(WIDE | MPV | MPP_S, narrow, wide), Some(ILLEGAL), "VS");
    assert_eq!(
        read(WIDE | MPV | MPP_S, wide, narrow),
        None,
        "VS above narrow VU"
    );
    assert_eq!(read(WIDE | MPV, wide, narrow), Some(ILLEGAL), "VU");
}

/// H extension, 18.2.1: GVA is for addresses. QEMU sets it in `mstatus` for an instruction, too.
#[test]
fn a_guests_instruction_is_no_address() {
    for cause in [cause::ILLEGAL_INSTRUCTION, cause::VIRTUAL_INSTRUCTION] {
        let hart = Hart::with(&[
            (Csr::Hstatus, 1 << 6),
            (Csr::Hedeleg, 0),
            (Csr::Sepc, 0),
            (Csr::Scause, 0),
            (Csr::Stval, 0),
        ]);
        let fault = Fault {
            cause,
            pc: 0x8000_0000,
            status: WIDE | MPV | MPP_S | GVA,
            value: 0xc010_2573,
            instruction: 0,
            guest_address: 0,
            satp: 0,
        };
        redirect(&fault, &hart);
        let [spv, spvp] = [1 << 7, 1 << 8];
        assert_eq!(hart.get(Csr::Hstatus), spv | spvp);
        let found = [Csr::Sepc, Csr::Scause, Csr::Stval].map(|csr| hart.get(csr));
        assert_eq!(found, [fault.pc, cause, fault.value]);
    }
}

proptest! {
    /// No instruction makes it panic, and a served one is one of the three.
    #[test]
    fn anything_may_be_illegal(bits: u32, status: u64, open: u64) {
        let hart = Hart::with(&[(Csr::Scounteren, open), (Csr::Hcounteren, !open)]);
        if CounterRead::of(bits, status, &hart).is_ok() {
            prop_assert!((0xc00..=0xc02).contains(&(bits >> 20)));
        }
    }
}
