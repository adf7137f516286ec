//! What accesses of single instructions have reached so far.

/// Number of windows.
pub(super) const WINDOWS: usize = 2;

/// How an instruction finds the memory that it accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Site {
    /// By the distance of a window.
    Window(usize),
    /// By the distance of one of two windows, as a bit of the address tells.
    Both,
    /// By the stack's place.
    Stack,
    /// By the table of pages.
    Table,
}

/// Bits of a note below those of the address.
const KIND_BITS: u32 = 3;
const KIND: u16 = (1 << KIND_BITS) - 1;
const TABLE: u16 = KIND;
const STACK: u16 = KIND - 1;
const BOTH: u16 = KIND - 2;
const _: () = assert!(WINDOWS < BOTH as usize, "zero is no note");

/// Notes with the same hash.
const WAYS: usize = 4;
const SETS: usize = 4 << 10;

/// Notes about the accesses of instructions, by the hash of their addresses. A lost note costs time
/// alone, and so must one of another instruction.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct Notes([[u16; WAYS]; SETS]);

impl Notes {
    #[cfg(feature = "fake")]
    pub(super) const EMPTY: Notes = Notes([[0; WAYS]; SETS]);

    pub(super) fn clear(&mut self) {
        self.0.fill([0; WAYS]);
    }

    /// Where the note of an instruction may be, and the bits that tell it from others.
    fn place(pc: u64) -> (usize, u16) {
        let number = pc / 2;
        let tag = (number >> SETS.ilog2()) as u16;
        (number as usize % SETS, tag << KIND_BITS)
    }

    /// What is noted of the instruction at an address.
    pub(super) fn noted(&self, pc: u64) -> Option<Site> {
        let (set, tag) = Self::place(pc);
        let note = self.0[set].iter().find(|note| is_of(**note, tag))?;
        Some(match note & KIND {
            TABLE => Site::Table,
            STACK => Site::Stack,
            BOTH => Site::Both,
            window => Site::Window(usize::from(window) - 1),
        })
    }

    /// Notes what an instruction has reached, unless that is what would be guessed. One that reaches
    /// several kinds stays with the table. Returns how the instruction is translated.
    pub(super) fn note(&mut self, pc: u64, site: Site, guess: Option<Site>) -> Site {
        let site = match (self.noted(pc), site) {
            (None, site) if Some(site) == guess => return site,
            (None, site) => site,
            (Some(noted), site) if noted == site => site,
            (Some(Site::Window(_) | Site::Both), Site::Window(_)) => Site::Both,
            (Some(_), _) => Site::Table,
        };
        let kind = match site {
            Site::Window(number) => number as u16 + 1,
            Site::Stack => STACK,
            Site::Both => BOTH,
            Site::Table => TABLE,
        };
        let (set, tag) = Self::place(pc);
        let notes = &mut self.0[set];
        let place = (notes.iter().position(|note| is_of(*note, tag)))
            .or_else(|| notes.iter().position(|note| *note == 0))
            .unwrap_or(usize::from(tag >> KIND_BITS) % WAYS);
        notes[place] = tag | kind;
        site
    }
}

/// Returns whether a note is of the instruction with a tag.
fn is_of(note: u16, tag: u16) -> bool {
    note & KIND != 0 && note & !KIND == tag
}
