//! One domain of a modelled APLIC.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use crate::Registers;

/// DOMAINCFG's writable bits (AIA, 4.5.1).
pub(super) const DELIVERY_MODE: u32 = 1 << 2;
const INTERRUPT_ENABLE: u32 = 1 << 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Machine mode's, with children.
    Root,
    /// A leaf whose interrupts go to harts by wire, and can go by messages: both
    /// delivery modes work.
    Direct,
    /// A leaf whose interrupts go by messages, once it is told so.
    Msi,
}

/// What software has programmed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Programmed {
    pub(super) domain: u32,
    /// By source; none for what is zero.
    pub(super) modes: BTreeMap<u32, u32>,
    pub(super) targets: BTreeMap<u32, u32>,
    /// By word.
    pub(super) enables: BTreeMap<u32, u32>,
    /// By offset.
    pub(super) controls: BTreeMap<u64, u32>,
    pub(super) addresses: [u32; 4],
}

#[derive(Debug)]
pub(super) struct Model {
    kind: Kind,
    pub(super) sources: u32,
    harts: usize,
    state: RefCell<Programmed>,
    pending: RefCell<Vec<u32>>,
    must_be_off: Cell<bool>,
}

impl Model {
    pub(super) fn new(kind: Kind, sources: u32, harts: usize) -> Self {
        Model {
            kind,
            sources,
            harts,
            state: RefCell::default(),
            pending: RefCell::default(),
            must_be_off: Cell::new(false),
        }
    }

    /// Only DOMAINCFG has a known value afterwards (AIA, 4.6).
    pub(super) fn reset(&self) {
        self.state.borrow_mut().domain = 0;
    }

    /// Leaves in the registers what nobody expects there.
    pub(super) fn spoil(&self) {
        let mut state = self.state.borrow_mut();
        state.modes = (1..=self.sources).map(|source| (source, 1)).collect();
        state.targets = (1..=self.sources).map(|source| (source, 0x5a)).collect();
        let mask = |word| (word, self.mask(word));
        state.enables = (0..=self.sources / 32).map(mask).collect();
    }

    pub(super) fn forbid_changes_while_enabled(&self) {
        self.must_be_off.set(true);
    }

    pub(super) fn programmed(&self) -> Programmed {
        self.state.borrow().clone()
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.state.borrow().domain & INTERRUPT_ENABLE != 0
    }

    pub(super) fn pending(&self) -> Vec<u32> {
        self.pending.borrow().clone()
    }

    /// The child domain that the source is delegated to.
    pub(super) fn child_of(&self, source: u32) -> Option<u32> {
        let mode = self.state.borrow().modes.get(&source).copied()?;
        (mode & 1 << 10 != 0).then_some(mode & 0x3ff)
    }

    /// Where a machine-level message for the hart goes (AIA, 4.9.1).
    pub(super) fn machine_file(&self, index: u64) -> u64 {
        let [low, high, ..] = self.state.borrow().addresses;
        self.file(index, low, high, high >> 20 & 7)
    }

    /// Where a supervisor-level message for the hart goes (AIA, 4.9.1).
    pub(super) fn os_file(&self, index: u64) -> u64 {
        let [_, _, low, high] = self.state.borrow().addresses;
        self.file(index, low, high, high >> 20 & 7)
    }

    fn file(&self, index: u64, low: u32, high: u32, low_shift: u32) -> u64 {
        let widths = self.state.borrow().addresses[1];
        let (low_width, high_width) = (widths >> 12 & 0xf, widths >> 16 & 7);
        let high_shift = widths >> 24 & 0x1f;
        let base = u64::from(high & 0xfff) << 32 | u64::from(low);
        let group = index >> low_width & ((1 << high_width) - 1);
        let hart = index & ((1 << low_width) - 1);
        (base | group << (high_shift + 12) | hart << low_shift) << 12
    }

    /// Bits of the word that stand for a source.
    fn mask(&self, word: u32) -> u32 {
        (0..32)
            .filter(|bit| (1..=self.sources).contains(&(32 * word + bit)))
            .fold(0, |mask, bit| mask | 1 << bit)
    }

    fn source(&self, offset: u64, first: u64) -> u32 {
        let source = 1 + u32::try_from((offset - first) / 4).unwrap();
        assert!(source <= self.sources, "{offset:#x} belongs to no source");
        source
    }

    fn word(&self, offset: u64, first: u64) -> u32 {
        let word = u32::try_from((offset - first) / 4).unwrap();
        assert!(
            word <= self.sources / 32,
            "{offset:#x} belongs to no source"
        );
        word
    }

    fn control(&self, offset: u64) -> u64 {
        let hart = (offset - 0x4000) / 32;
        assert!(hart < self.harts as u64, "{offset:#x} belongs to no hart");
        assert!(
            [0, 8].contains(&(offset % 32)),
            "{offset:#x} is not to be accessed"
        );
        offset
    }

    /// A source that is not active has neither target nor enable (AIA, 4.5.2).
    fn set_mode(state: &mut Programmed, source: u32, mode: u32) {
        if mode == 0 || mode & 1 << 10 != 0 {
            state.targets.remove(&source);
            if let Some(word) = state.enables.get_mut(&(source / 32)) {
                *word &= !(1 << (source % 32));
            }
        } else if !is_active(state, source) {
            state.targets.insert(source, 0xa5);
        }
        state.modes.insert(source, mode);
        state.modes.retain(|_, mode| *mode != 0);
    }
}

fn is_active(state: &Programmed, source: u32) -> bool {
    state
        .modes
        .get(&source)
        .is_some_and(|mode| mode & 1 << 10 == 0)
}

impl Registers<u32> for Model {
    fn read(&self, offset: u64) -> u32 {
        let state = self.state.borrow();
        let found = match offset {
            0 => return 0x80 << 24 | state.domain,
            0x4..0x1000 => state.modes.get(&self.source(offset, 4)),
            0x1c00..0x1c80 => {
                let word = self.word(offset, 0x1c00);
                let pending = self.pending.borrow();
                let of_word = pending.iter().filter(|source| *source / 32 == word);
                return of_word.fold(0, |bits, source| bits | 1 << (source % 32));
            }
            0x1e00..0x1e80 => state.enables.get(&self.word(offset, 0x1e00)),
            0x3004..0x4000 => state.targets.get(&self.source(offset, 0x3004)),
            0x4000.. => state.controls.get(&self.control(offset)),
            _ => panic!("no register to be read lies at {offset:#x}"),
        };
        found.copied().unwrap_or(0)
    }

    #[allow(clippy::too_many_lines, reason = "one register after the other")]
    fn write(&self, offset: u64, value: u32) {
        let off = !self.must_be_off.get() || !self.is_enabled();
        assert!(
            off || offset == 0,
            "{offset:#x} changes while interrupts are enabled"
        );
        let mut state = self.state.borrow_mut();
        match offset {
            0 => {
                let mode = if self.kind == Kind::Root {
                    0
                } else {
                    DELIVERY_MODE
                };
                let changed = (state.domain ^ value) & mode != 0;
                state.domain = value & (INTERRUPT_ENABLE | mode);
                if changed {
                    // Nobody knows the targets any more (AIA, 4.5.16).
                    state
                        .targets
                        .values_mut()
                        .for_each(|target| *target ^= 0x5a);
                }
            }
            0x4..0x1000 => {
                let is_delegation = value & 1 << 10 != 0;
                let mode = match self.kind {
                    Kind::Root if is_delegation => value & 0x7ff,
                    _ if is_delegation => 0,
                    _ => value & 7,
                };
                Self::set_mode(&mut state, self.source(offset, 4), mode);
            }
            0x1bc0..0x1bd0 if self.kind == Kind::Root => {
                state.addresses[usize::try_from(offset - 0x1bc0).unwrap() / 4] = value;
            }
            0x1c00..0x1c80 => {
                let word = self.word(offset, 0x1c00);
                let sources = (0..32).filter(|bit| value >> bit & 1 != 0);
                let sources = sources.map(|bit| 32 * word + bit);
                let sources = sources.filter(|source| is_active(&state, *source));
                self.pending.borrow_mut().extend(sources);
            }
            0x1cdc => {
                if is_active(&state, value) {
                    self.pending.borrow_mut().push(value);
                }
            }
            0x1e00..0x1e80 => {
                let word = self.word(offset, 0x1e00);
                let active = (0..32).filter(|bit| is_active(&state, 32 * word + bit));
                let active = active.fold(0, |mask, bit| mask | 1 << bit);
                *state.enables.entry(word).or_default() |= value & active;
            }
            0x1f00..0x1f80 => {
                let word = self.word(offset, 0x1f00);
                *state.enables.entry(word).or_default() &= !value;
            }
            0x3004..0x4000 => {
                let source = self.source(offset, 0x3004);
                if is_active(&state, source) {
                    state.targets.insert(source, value);
                }
            }
            0x4000.. => {
                let offset = self.control(offset);
                state.controls.insert(offset, value);
            }
            _ => panic!("no register to be written lies at {offset:#x}"),
        }
    }
}
