use poorwill_image::StateSection;
use poorwill_medium::nvme::ShutdownFacts;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::admin::AdminQueue;
use super::rings::Completion;
use crate::device::Device;
use crate::{KeeperError, Machine};

/// The tag of its sections.
pub(crate) const TAG: &[u8; 3] = b"NVM";

pub(super) const VERSION: u16 = 2;

/// The steps of Go for a controller.
pub(super) mod action {
    /// Restore only the registers.
    pub(crate) const NONE: u32 = 0;
    /// Report an error to the driver.
    pub(crate) const EVENT: u32 = 1;
    /// Enable it, and repeat the setup commands.
    pub(crate) const REPLAY: u32 = 2;
}

/// The known facts of a controller's shutdown.
pub(super) mod known {
    pub(crate) const NOTHING: u32 = 0;
    /// The duration is known, and the controller has no volatile cache.
    pub(crate) const NO_CACHE: u32 = 1;
    /// The duration is known, and the controller has a volatile cache.
    pub(crate) const CACHE: u32 = 2;
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct State {
    pub(super) configuration: u32,
    pub(super) admin_sizes: u32,
    pub(super) submissions: u64,
    pub(super) completions: u64,
    pub(super) memory_buffer: u64,
    pub(super) masked: u32,
    /// The step of Go: one of [`action`].
    pub(super) action: u32,
    /// The completion of the event request; zeros if there is no event to send.
    pub(super) event: [u32; 4],
    pub(super) event_at: u64,
    /// The message that announces the event; 0: no message.
    pub(super) message_address: u64,
    pub(super) message_data: u32,
    /// The number of commands to repeat.
    pub(super) commands: u32,
    /// The duration of a normal shutdown in microseconds, for the next cut.
    pub(super) normal_us: u32,
    /// The known shutdown facts: one of [`known`].
    pub(super) known: u32,
}

/// A section's contents: the state, and the queues whose commands are repeated.
pub(super) struct Kept<'s> {
    pub(super) state: &'s State,
    pub(super) queues: KeptQueues<'s>,
}

/// A saved queue: the first word of each command, and all completions.
pub(super) struct KeptQueue<'s> {
    pub(super) head: &'s QueueHead,
    pub(super) firsts: &'s [u32],
    pub(super) completions: &'s [Completion],
}

/// The header of a saved queue, as 32-bit words. An address is two words, the lower half first.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct QueueHead {
    /// The addresses of the two rings: commands, then completions.
    pub(super) addresses: [[u32; 2]; 2],
    /// The numbers of entries of the two rings, in the same order.
    pub(super) entries: [u32; 2],
    /// The queue's identifier; 0: the admin queue.
    pub(super) id: u32,
    pub(super) commands: u32,
    /// The addresses of the queue's two entries in the doorbell buffer; 0: not used.
    pub(super) told_at: [[u32; 2]; 2],
    /// The values of these entries.
    pub(super) told: [u32; 2],
}

#[derive(Clone, Copy, Debug)]
pub(super) struct KeptQueues<'s>(&'s [u8]);

impl<'s> Iterator for KeptQueues<'s> {
    type Item = KeptQueue<'s>;

    /// The next queue; `None` at the end, or if the bytes are not a queue.
    fn next(&mut self) -> Option<Self::Item> {
        let (head, rest) = QueueHead::ref_from_prefix(self.0).ok()?;
        let count = usize::try_from(head.commands).ok()?;
        let [commands, completions] = head.entries;
        if head.commands >= commands || head.commands > completions {
            return None;
        }
        let (firsts, rest) = <[u32]>::ref_from_prefix_with_elems(rest, count).ok()?;
        let (completions, rest) = <[Completion]>::ref_from_prefix_with_elems(rest, count).ok()?;
        *self = KeptQueues(rest);
        Some(KeptQueue {
            head,
            firsts,
            completions,
        })
    }
}

impl<'s> Kept<'s> {
    pub(super) fn read(section: &StateSection<'s>) -> Result<Self, KeeperError> {
        let refused = || KeeperError::from(section.refuse());
        let (state, queues) = State::ref_from_prefix(section.payload).map_err(|_| refused())?;
        let queues = KeptQueues(queues);
        let mut rest = queues;
        rest.by_ref().for_each(drop);
        let is_whole = rest.0.is_empty();
        if section.version != VERSION
            || state.action > action::REPLAY
            || state.known > known::CACHE
            || !is_whole
        {
            return Err(refused());
        }
        Ok(Kept { state, queues })
    }
}

impl State {
    pub(super) fn keep(&mut self, facts: Option<ShutdownFacts>) {
        (self.normal_us, self.known) = match facts {
            None => (0, known::NOTHING),
            Some(facts) if facts.has_cache => (facts.normal_us, known::CACHE),
            Some(facts) => (facts.normal_us, known::NO_CACHE),
        };
    }

    pub(super) fn shutdown_facts(&self) -> Option<ShutdownFacts> {
        (self.known != known::NOTHING).then_some(ShutdownFacts {
            normal_us: self.normal_us,
            has_cache: self.known == known::CACHE,
        })
    }

    pub(super) fn admin<'d, 'a, M: Machine>(
        &self,
        device: &'d Device<'a, M>,
    ) -> Result<AdminQueue<'d, 'a, M>, KeeperError> {
        let addresses = [self.submissions, self.completions];
        AdminQueue::new(device, addresses, self.admin_sizes)
    }
}

pub(crate) fn check(section: &StateSection<'_>) -> Result<(), KeeperError> {
    Kept::read(section).map(|_| ())
}
