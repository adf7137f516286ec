use crate::Operation;

/// Direction of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// A load; of fewer than 64 bits with sign extension or not.
    Load {
        /// With sign extension.
        signed: bool,
    },
    /// A store.
    Store,
}

/// The access of a load or store of an integer register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryAccess {
    /// Direction.
    pub direction: Direction,
    /// Bytes: 1, 2, 4 or 8.
    pub bytes: u64,
}

impl MemoryAccess {
    /// A loaded value as the register holds it.
    #[must_use]
    pub fn extended(self, loaded: u64) -> u64 {
        let unused = u64::BITS - 8 * self.bytes as u32;
        let value = loaded << unused;
        match self.direction {
            Direction::Load { signed: true } => (value.cast_signed() >> unused).cast_unsigned(),
            _ => value >> unused,
        }
    }
}

impl Operation {
    /// The access of a load or store of an integer register; `None` for other operations.
    #[must_use]
    pub fn memory_access(self) -> Option<MemoryAccess> {
        const SIGNED: Direction = Direction::Load { signed: true };
        const UNSIGNED: Direction = Direction::Load { signed: false };
        let (direction, bytes) = match self {
            Operation::Lb => (SIGNED, 1),
            Operation::Lh => (SIGNED, 2),
            Operation::Lw => (SIGNED, 4),
            Operation::Ld => (SIGNED, 8),
            Operation::Lbu => (UNSIGNED, 1),
            Operation::Lhu => (UNSIGNED, 2),
            Operation::Lwu => (UNSIGNED, 4),
            Operation::Sb => (Direction::Store, 1),
            Operation::Sh => (Direction::Store, 2),
            Operation::Sw => (Direction::Store, 4),
            Operation::Sd => (Direction::Store, 8),
            _ => return None,
        };
        Some(MemoryAccess { direction, bytes })
    }
}
