use super::memory::DeviceMemory;

/// A command, as words.
pub type Command = [u64; 8];

/// A command's identifier.
#[must_use]
pub fn identifier(command: &Command) -> u64 {
    command[0] >> 16 & 0xffff
}

/// A submission queue and its completion queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueuePair {
    /// The queues' addresses: submissions, completions. 0: there is no such queue.
    pub addresses: [u64; 2],
    /// The queues' numbers of entries.
    pub entries: [u64; 2],
    /// The index of the next command.
    pub head: u64,
    /// The index of the next completion.
    pub tail: u64,
    is_old_phase: bool,
}

impl QueuePair {
    #[must_use]
    pub fn new(addresses: [u64; 2], entries: [u64; 2]) -> Self {
        QueuePair {
            addresses,
            entries,
            ..QueuePair::default()
        }
    }

    /// Whether there are both queues.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        !self.addresses.contains(&0)
    }

    /// Takes the next command before `tail`.
    ///
    /// # Panics
    ///
    /// When `tail` is past the queue's end.
    pub fn fetch(&mut self, memory: &impl DeviceMemory, tail: u64) -> Option<Command> {
        assert!(tail < self.entries[0], "a tail beyond its queue");
        if self.head == tail {
            return None;
        }
        let at = self.addresses[0] + self.head * 64;
        self.head = (self.head + 1) % self.entries[0];
        Some(core::array::from_fn(|word| {
            memory.load(at + 8 * word as u64)
        }))
    }

    /// The index of the completion after the next.
    #[must_use]
    pub fn next_tail(&self) -> u64 {
        (self.tail + 1) % self.entries[1]
    }

    /// Writes the second word of the next completion, with the right phase tag or the wrong one.
    pub fn put(&self, memory: &impl DeviceMemory, word: u64, has_right_phase: bool) {
        let phase = u64::from(self.is_old_phase != has_right_phase);
        let at = self.addresses[1] + 16 * self.tail + 8;
        memory.store(at, word & !(1 << 48) | phase << 48);
    }

    /// Advances to the next completion.
    pub fn advance(&mut self) {
        self.tail = self.next_tail();
        self.is_old_phase ^= self.tail == 0;
    }

    /// Creates the queue of an admin command (opcodes 1 and 5).
    ///
    /// # Panics
    ///
    /// When it is longer than CAP allows.
    pub fn create(&mut self, command: &Command, capabilities: u64) {
        let entries = (command[5] >> 16 & 0xffff) + 1;
        let most = (capabilities & 0xffff) + 1;
        assert!(
            entries <= most,
            "{entries} entries, and {most} are the most"
        );
        let which = usize::from(command[0] as u8 == 5);
        (self.addresses[which], self.entries[which]) = (command[3], entries);
    }
}
