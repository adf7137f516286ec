//! A PLIC by its specification, and QEMU 10's.
#![allow(clippy::cast_possible_truncation, reason = "numbers here are small")]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use crate::Registers;

/// Priority levels 0 to 7; the other bits are read-only zeros (WARL).
pub(crate) const LEVELS: u32 = 7;

/// The kind of PLIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The specification's: a request is latched until it is claimed. Its gateway is closed until
    /// the claim is completed.
    Specified,
    /// QEMU 10's: a rising level counts, and a claim clears it. The threshold limits claims.
    Qemu,
}

/// A PLIC. An access outside its registers is an error of the driver.
#[derive(Debug)]
pub(crate) struct Model {
    kind: Kind,
    pub(crate) sources: usize,
    contexts: usize,
    pub(crate) state: RefCell<Programmed>,
    gateways: RefCell<Vec<Gateway>>,
    /// Number of reads of claim registers; each changes pending bits.
    pub(crate) claims: Cell<usize>,
}

/// The programmed values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Programmed {
    /// By source.
    pub(crate) priorities: BTreeMap<usize, u32>,
    /// By context and word.
    pub(crate) enables: BTreeMap<(usize, usize), u32>,
    /// By context.
    pub(crate) thresholds: BTreeMap<usize, u32>,
}

/// A source's.
#[derive(Clone, Copy, Debug, Default)]
struct Gateway {
    is_high: bool,
    is_pending: bool,
    /// A request was let through, and not completed.
    is_closed: bool,
}

enum Register {
    Priority(usize),
    Pending(usize),
    Enable(usize, usize),
    Threshold(usize),
    Claim(usize),
}

impl Gateway {
    fn forward(&mut self, kind: Kind) {
        match kind {
            Kind::Specified if self.is_high && !self.is_closed => {
                self.is_closed = true;
                self.is_pending = true;
            }
            Kind::Specified => {}
            Kind::Qemu => self.is_pending |= self.is_high,
        }
    }

    fn claim(&mut self) {
        self.is_pending = false;
        self.is_closed = true;
    }

    fn complete(&mut self, kind: Kind) {
        self.is_closed = false;
        if kind == Kind::Specified {
            self.forward(kind);
        }
    }
}

impl Model {
    /// A PLIC after a reset: its registers hold any value.
    pub(crate) fn new(kind: Kind, sources: usize, contexts: usize) -> Self {
        let model = Model {
            kind,
            sources,
            contexts,
            state: RefCell::default(),
            gateways: RefCell::new(vec![Gateway::default(); sources + 1]),
            claims: Cell::new(0),
        };
        for context in 0..contexts {
            model.write(0x20_0000 + 0x1000 * context as u64, LEVELS);
        }
        model
    }

    fn register(&self, offset: u64) -> Register {
        assert!(offset.is_multiple_of(4), "{offset:#x} is not aligned");
        let offset = usize::try_from(offset).unwrap();
        let register = match offset {
            0x4..0x1000 => Register::Priority(offset / 4),
            0x1000..0x1080 => Register::Pending((offset - 0x1000) / 4),
            0x2000..0x1f_2000 => Register::Enable((offset - 0x2000) / 0x80, offset % 0x80 / 4),
            0x20_0000.. if offset % 0x1000 == 0 => {
                Register::Threshold((offset - 0x20_0000) / 0x1000)
            }
            0x20_0000.. if offset % 0x1000 == 4 => Register::Claim((offset - 0x20_0000) / 0x1000),
            _ => panic!("no register lies at {offset:#x}"),
        };
        let exists = match register {
            Register::Priority(source) => source <= self.sources,
            Register::Pending(word) => word <= self.sources / 32,
            Register::Enable(context, word) => context < self.contexts && word <= self.sources / 32,
            Register::Threshold(context) | Register::Claim(context) => context < self.contexts,
        };
        assert!(exists, "{offset:#x} belongs to no source or context");
        register
    }

    /// A device raises or lowers its line.
    pub(crate) fn set_level(&self, source: usize, is_high: bool) {
        let gateway = &mut self.gateways.borrow_mut()[source];
        gateway.is_high = is_high;
        gateway.forward(self.kind);
    }

    fn is_enabled(&self, context: usize, source: usize) -> bool {
        let state = self.state.borrow();
        let enables = state.enables.get(&(context, source / 32));
        enables.is_some_and(|word| word & (1 << (source % 32)) != 0)
    }

    fn priority(&self, source: usize) -> u32 {
        let state = self.state.borrow();
        state.priorities.get(&source).copied().unwrap_or(0)
    }

    fn threshold(&self, context: usize) -> u32 {
        self.state.borrow().thresholds[&context]
    }

    /// Whether a pending source interrupts the context: it is enabled, and its priority exceeds
    /// the threshold.
    pub(crate) fn is_notified(&self, context: usize, source: usize) -> bool {
        self.is_enabled(context, source) && self.priority(source) > self.threshold(context)
    }

    /// Whether any source interrupts the context.
    pub(crate) fn interrupts(&self, context: usize) -> bool {
        let is_pending = |source: &usize| self.gateways.borrow()[*source].is_pending;
        let mut pending = (1..=self.sources).filter(is_pending);
        pending.any(|source| self.is_notified(context, source))
    }

    /// Clears and returns the first pending source of the highest priority.
    fn claim(&self, context: usize) -> u32 {
        self.claims.set(self.claims.get() + 1);
        let least = match self.kind {
            Kind::Specified => 0,
            Kind::Qemu => self.threshold(context),
        };
        let mut gateways = self.gateways.borrow_mut();
        let is_there = |source: &usize| {
            let gateway = gateways[*source];
            let is_open = self.kind == Kind::Specified || !gateway.is_closed;
            gateway.is_pending
                && is_open
                && self.is_enabled(context, *source)
                && self.priority(*source) > least
        };
        let found = (1..=self.sources).rev().filter(is_there);
        let Some(source) = found.max_by_key(|source| self.priority(*source)) else {
            return 0;
        };
        gateways[source].claim();
        source as u32
    }
}

impl Registers<u32> for Model {
    fn read(&self, offset: u64) -> u32 {
        let register = self.register(offset);
        if let Register::Claim(context) = register {
            return self.claim(context);
        }
        let state = self.state.borrow();
        let found = match register {
            Register::Priority(source) => state.priorities.get(&source),
            Register::Enable(context, word) => state.enables.get(&(context, word)),
            Register::Threshold(context) => state.thresholds.get(&context),
            Register::Pending(word) => {
                let gateways = self.gateways.borrow();
                let bits = gateways.iter().skip(32 * word).take(32).enumerate();
                return bits.fold(0, |bits, (bit, gateway)| {
                    bits | u32::from(gateway.is_pending) << bit
                });
            }
            Register::Claim(_) => unreachable!(),
        };
        found.copied().unwrap_or(0)
    }

    fn write(&self, offset: u64, value: u32) {
        match self.register(offset) {
            Register::Priority(source) => {
                let mut state = self.state.borrow_mut();
                state.priorities.insert(source, value & LEVELS);
            }
            Register::Enable(context, word) => {
                // There is no source 0, and no source past the last.
                let exists = |bit: &u32| (1..=self.sources).contains(&(32 * word + *bit as usize));
                let mask = (0..32).filter(exists).fold(0, |mask, bit| mask | 1 << bit);
                let mut state = self.state.borrow_mut();
                state.enables.insert((context, word), value & mask);
            }
            Register::Threshold(context) => {
                let mut state = self.state.borrow_mut();
                state.thresholds.insert(context, value & LEVELS);
            }
            Register::Claim(context) => {
                let source = value as usize;
                assert!(source <= self.sources, "{source} is no source");
                // "If the completion ID does not match an interrupt source that is currently
                // enabled for the target, the completion is silently ignored."
                if self.kind == Kind::Qemu || self.is_enabled(context, source) {
                    self.gateways.borrow_mut()[source].complete(self.kind);
                }
            }
            Register::Pending(_) => panic!("pending bits are read-only"),
        }
    }
}
