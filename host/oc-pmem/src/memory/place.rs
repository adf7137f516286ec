//! Where a line lies: randomiser, Start-Gap, DIMM and group.

use super::randomise::Randomiser;
use super::start_gap::{Move, StartGap};
use crate::parameters::{Name, Parameters};

/// The seed of the static randomiser.
const SEED: u64 = 0x706f_6f72_7769_6c6c;

/// A line's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The DIMM.
    pub dimm: usize,
    /// The group, counted over all DIMMs.
    pub group: usize,
    /// The line within the group.
    pub line: u64,
    /// The line within the memory.
    pub slot: u64,
}

/// The map from lines to places.
#[derive(Clone, Debug)]
pub struct Map {
    randomiser: Option<Randomiser>,
    levels: StartGap,
    /// 32 bits, in which hosts divide several times as fast as in 64.
    dimms: u32,
    /// Groups, or banks, of a DIMM.
    units: u32,
}

impl Map {
    /// PRAM's map, with its wear levelling.
    #[must_use]
    pub fn of_pram(parameters: &Parameters) -> Self {
        let lines = parameters.lines();
        let is_random = parameters.is_on(Name::Randomise);
        Map {
            randomiser: is_random.then(|| Randomiser::new(lines, SEED)),
            levels: StartGap::new(lines, parameters.get(Name::Gap)),
            dimms: narrow(parameters.get(Name::Dimms)),
            units: narrow(parameters.get(Name::Groups)),
        }
    }

    /// DRAM's map: neighbours lie on different DIMMs, then in different banks.
    #[must_use]
    pub fn of_dram(parameters: &Parameters) -> Self {
        Map {
            randomiser: None,
            levels: StartGap::new(parameters.lines(), 0),
            dimms: narrow(parameters.get(Name::Dimms)),
            units: narrow(parameters.get(Name::Banks)),
        }
    }

    /// The place of a line now. Lines beyond the memory wrap around.
    #[must_use]
    pub fn place(&self, line: u32, lines: u64) -> Place {
        let line = u64::from(line);
        let line = if line < lines { line } else { line % lines };
        let line = (self.randomiser.as_ref()).map_or(line, |randomiser| randomiser.place(line));
        self.of_slot(self.levels.slot(line))
    }

    /// Number of DIMMs.
    #[must_use]
    pub fn dimms(&self) -> usize {
        self.dimms as usize
    }

    /// The slot of a group's line: the reverse of [`Map::of_slot`].
    #[must_use]
    pub fn slot_of(&self, group: usize, line: u64) -> u64 {
        let (units, group) = (u64::from(self.units), group as u64);
        (line * units + group % units) * u64::from(self.dimms) + group / units
    }

    /// Counts a write. The move that it causes, if it does.
    pub fn written(&mut self) -> Option<Move> {
        self.levels.written()
    }

    /// The place of a slot.
    #[must_use]
    pub fn of_slot(&self, slot: u64) -> Place {
        let wide = narrow(slot);
        let (row, dimm) = (wide / self.dimms, wide % self.dimms);
        let (line, unit) = (row / self.units, row % self.units);
        Place {
            dimm: dimm as usize,
            group: (dimm * self.units + unit) as usize,
            line: line.into(),
            slot,
        }
    }
}

/// A slot or a count in 32 bits. The parameters' ranges have no more.
fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
