use poorwill_image::StateSection;
use poorwill_medium::nvme::ShutdownFacts;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::admin::AdminQueue;
use super::rings::Completion;
use crate::device::Device;
use crate::{KeeperError, Machine};

/// Of its sections.
pub(crate) const TAG: &[u8; 3] = b"NVM";

pub(super) const VERSION: u16 = 2;

/// What Go does with a controller.
pub(super) mod action {
    /// Nothing but its registers.
    pub(crate) const NONE: u32 = 0;
    /// The driver is told that it failed.
    pub(crate) const EVENT: u32 = 1;
    /// It is enabled, and executes commands again.
    pub(crate) const REPLAY: u32 = 2;
}

/// What is known of a controller's shutdown.
pub(super) mod known {
    pub(crate) const NOTHING: u32 = 0;
    /// How long it takes, and that no cache is lost by an abrupt one.
    pub(crate) const NO_CACHE: u32 = 1;
    /// The same with a volatile cache.
    pub(crate) const CACHE: u32 = 2;
}

/// What a controller is put back by.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct State {
    pub(super) configuration: u32,
    pub(super) admin_sizes: u32,
    pub(super) submissions: u64,
    pub(super) completions: u64,
    pub(super) memory_buffer: u64,
    pub(super) masked: u32,
    /// One of [`action`].
    pub(super) action: u32,
    /// The event, if there is one: the completion, and the address at which it goes.
    pub(super) event: [u32; 4],
    pub(super) event_at: u64,
    /// The message that tells of it; none at 0.
    pub(super) message_address: u64,
    pub(super) message_data: u32,
    /// Commands that are executed again.
    pub(super) commands: u32,
    /// Microseconds that a normal shutdown may take, for the next cut.
    pub(super) normal_us: u32,
    /// One of [`known`].
    pub(super) known: u32,
}

/// What a section holds: the state, and the queues whose commands are executed again.
pub(super) struct Kept<'s> {
    pub(super) state: &'s State,
    pub(super) queues: KeptQueues<'s>,
}

/// What is kept of a queue: of each command the first word, and the completions.
pub(super) struct KeptQueue<'s> {
    pub(super) head: &'s QueueHead,
    pub(super) firsts: &'s [u32],
    pub(super) completions: &'s [Completion],
}

/// What stands before each queue, in words; of addresses the lower half comes first.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct QueueHead {
    /// Of both rings.
    pub(super) addresses: [[u32; 2]; 2],
    /// Of both.
    pub(super) entries: [u32; 2],
    /// The queue's identifier; 0 is the admin queue.
    pub(super) id: u32,
    /// Commands that it has had.
    pub(super) commands: u32,
    /// Where the driver tells in memory how far it is, with commands and with completions:
    /// addresses, or 0 where it does not.
    pub(super) told_at: [[u32; 2]; 2],
    /// What it has told.
    pub(super) told: [u32; 2],
}

/// The queues, one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeptQueues<'s>(&'s [u8]);

impl<'s> Iterator for KeptQueues<'s> {
    type Item = KeptQueue<'s>;

    /// The next one; `None` where something else is there, or nothing.
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
    /// Reads a section.
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
    /// Keeps what is known of the controller's shutdown.
    pub(super) fn keep(&mut self, facts: Option<ShutdownFacts>) {
        (self.normal_us, self.known) = match facts {
            None => (0, known::NOTHING),
            Some(facts) if facts.has_cache => (facts.normal_us, known::CACHE),
            Some(facts) => (facts.normal_us, known::NO_CACHE),
        };
    }

    /// What is known of it.
    pub(super) fn shutdown_facts(&self) -> Option<ShutdownFacts> {
        (self.known != known::NOTHING).then_some(ShutdownFacts {
            normal_us: self.normal_us,
            has_cache: self.known == known::CACHE,
        })
    }

    /// Its admin queue.
    pub(super) fn admin<'d, 'a, M: Machine>(
        &self,
        device: &'d Device<'a, M>,
    ) -> Result<AdminQueue<'d, 'a, M>, KeeperError> {
        let addresses = [self.submissions, self.completions];
        AdminQueue::new(device, addresses, self.admin_sizes)
    }
}

/// Checks a section that is to be put back.
pub(crate) fn check(section: &StateSection<'_>) -> Result<(), KeeperError> {
    Kept::read(section).map(|_| ())
}
