//! The OS's stacks. Where one lies in one piece, a block finds its place once, and accesses it by the
//! stack pointer's distance from there.

use arrayvec::ArrayVec;
use poorwill_memory::PAGE_BYTES;

use super::leaf;

/// `sp`
pub(super) const STACK_POINTER: u8 = 2;

/// Addresses that are mapped at one distance, to memory that takes loads and stores.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stack {
    pub(super) start: u64,
    pub(super) bytes: u64,
    pub(super) physical: u64,
    /// log2 of the bytes of its largest leaf.
    pub(super) shift: u8,
}

impl Stack {
    /// No address is near it: its start is no virtual address.
    pub(super) const NOWHERE: Stack = Stack {
        start: 1 << 62,
        bytes: PAGE_BYTES,
        physical: 0,
        shift: leaf::PAGE_SHIFT,
    };

    fn has(&self, address: u64) -> bool {
        address.wrapping_sub(self.start) < self.bytes
    }

    /// Returns whether one of its leaves may have an address.
    fn may_have(&self, address: u64) -> bool {
        let last = self.start.wrapping_add(self.bytes - 1);
        self.has(address)
            || [self.start, last]
                .iter()
                .any(|end| leaf::has(*end, self.shift, address))
    }
}

/// Stacks that were used lately.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    known: ArrayVec<Stack, 8>,
    /// The place of the next one, of those.
    next: usize,
    /// Index of the stack that was chosen last.
    last: usize,
}

impl Stacks {
    pub(super) fn with(&self, address: u64) -> Option<Stack> {
        self.known.iter().copied().find(|stack| stack.has(address))
    }

    /// As [`with`](Self::with), for a hart that goes on there: it mostly does so on the same stack.
    pub(super) fn choose(&mut self, address: u64) -> Option<Stack> {
        let last = self.known.get(self.last).copied();
        if last.is_some_and(|stack| stack.has(address)) {
            return last;
        }
        self.last = self.known.iter().position(|stack| stack.has(address))?;
        Some(self.known[self.last])
    }

    /// Forgets the stacks whose leaves may have an address.
    pub(super) fn forget_near(&mut self, address: u64) {
        self.known.retain(|stack| !stack.may_have(address));
    }

    pub(super) fn keep(&mut self, stack: Stack) {
        if self.known.is_full() {
            self.next %= self.known.len();
            self.known[self.next] = stack;
            self.next += 1;
        } else {
            self.known.push(stack);
        }
    }
}

/// What a check has found: [`STACK`](super::writer::STACK) is the place of the stack pointer at that time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checked {
    /// Bytes by which the stack pointer has moved since then.
    pub(super) moved: i32,
    /// The stack has the bytes from `low` up to `high` around that place.
    pub(super) low: i32,
    pub(super) high: i32,
}

impl Checked {
    pub(super) fn has(&self, offset: i32, bytes: i32) -> bool {
        self.low <= offset && offset + bytes <= self.high
    }
}
