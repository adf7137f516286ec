use crate::Direction;

use super::DEPTH;

/// The purpose of a command, which determines the handling of its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A transfer of [`Medium::start`](crate::Medium::start) with its tag.
    Started(u32),
    /// A part of a blocking transfer.
    Awaited,
    /// A blocking flush.
    Flush,
    /// A flush of [`Medium::start_flush`](crate::Medium::start_flush) with its tag.
    StartedFlush(u32),
}

impl Purpose {
    /// Returns whether polling returns its tag. Otherwise a caller waits for it.
    pub(super) fn has_tag(self) -> bool {
        matches!(self, Purpose::Started(_) | Purpose::StartedFlush(_))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnderWay {
    pub(super) purpose: Purpose,
    pub(super) direction: Direction,
    /// The offset on the medium in bytes.
    pub(super) offset: u64,
    id: u16,
}

/// The commands in flight. Each has a slot, which also owns a PRP list.
///
/// A command's identifier combines its slot and a running number, so that a repeated or
/// late completion is not mistaken for another command's.
#[derive(Debug)]
pub(super) struct Slots {
    slots: [Option<UnderWay>; DEPTH],
    /// Bit n is set while slot n is free.
    free: u32,
    depth: u16,
    round: u16,
}

/// Identifiers must not reach 0xffff, which means "no command" in error logs.
const ROUNDS: u16 = u16::MAX / 32;
const _: () = assert!(DEPTH == 32, "an identifier has 5 bits for the slot");

impl Slots {
    /// Creates `depth` slots, 1 to [`DEPTH`].
    pub(super) fn new(depth: u16) -> Self {
        Slots {
            slots: [None; DEPTH],
            free: u32::MAX >> (32 - u32::from(depth)),
            depth,
            round: 0,
        }
    }

    pub(super) fn depth(&self) -> u16 {
        self.depth
    }

    pub(super) fn under_way(&self) -> usize {
        usize::from(self.depth) - self.free.count_ones() as usize
    }

    /// The slot that [`Slots::take`] will use next; `None` if no slot is free.
    pub(super) fn next(&self) -> Option<usize> {
        (self.free != 0).then(|| self.free.trailing_zeros() as usize)
    }

    /// Takes the next slot, which must be free, for a command. Returns the command's
    /// identifier.
    pub(super) fn take(&mut self, purpose: Purpose, direction: Direction, offset: u64) -> u16 {
        #[allow(clippy::cast_possible_truncation, reason = "at most 32")]
        let slot = self.free.trailing_zeros() as u16;
        let id = self.round << 5 | slot;
        self.round = (self.round + 1) % ROUNDS;
        self.free &= !(1 << slot);
        self.slots[usize::from(slot)] = Some(UnderWay {
            purpose,
            direction,
            offset,
            id,
        });
        id
    }

    /// Frees the slot of command `id`; `None` if it is not in flight.
    pub(super) fn finish(&mut self, id: u16) -> Option<UnderWay> {
        let slot = usize::from(id & 31);
        let command = self.slots[slot].take_if(|command| command.id == id)?;
        self.free |= 1 << slot;
        Some(command)
    }
}
