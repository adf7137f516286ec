//! Dead devices, and lines that are lost for good.

use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

use crate::parameters::Parameters;

/// What the controller can still answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The line as its devices hold it.
    Whole,
    /// Half of the line is on a dead device, and parity gives it.
    Halved,
    /// The containment bit: the line is lost.
    Contained,
}

/// A memory's faults.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    /// Dead devices of each group, 0 to 2.
    dead: Vec<u8>,
    /// Slots to which Start-Gap moved a lost line, and which nothing has written since.
    lost: BTreeSet<u64>,
}

impl Faults {
    /// The dead devices of a PRAM of that many groups.
    pub(super) fn of_pram(parameters: &Parameters, groups: usize) -> Self {
        let mut dead = vec![0; groups];
        for device in parameters.dead() {
            dead[device / 2] += 1;
        }
        Faults {
            dead,
            lost: BTreeSet::new(),
        }
    }

    /// Dead devices of the group.
    pub(super) fn dead(&self, group: usize) -> u8 {
        self.dead.get(group).copied().unwrap_or_default()
    }

    /// Whether the slot has a lost line, though its devices may be whole.
    pub(super) fn is_lost(&self, slot: u64) -> bool {
        !self.lost.is_empty() && self.lost.contains(&slot)
    }

    /// A whole line was written to the slot.
    pub(super) fn written(&mut self, slot: u64) {
        if !self.lost.is_empty() {
            self.lost.remove(&slot);
        }
    }

    /// Start-Gap wrote a lost line to the slot: it must not seem to be right there.
    pub(super) fn lose(&mut self, slot: u64) {
        self.lost.insert(slot);
    }
}
