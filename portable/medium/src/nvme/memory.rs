use poorwill_memory::Page;
use zerocopy::{FromBytes, IntoBytes, KnownLayout};

/// The most transfers in flight.
pub const DEPTH: usize = 32;

/// The queues and lists that a controller shares with the driver: 148 KiB.
///
/// Each controller in use needs its own. The device accesses it from
/// [`Controller::start`](super::Controller::start) until
/// [`Controller::stop`](super::Controller::stop) succeeds; if that fails, until a reset.
#[derive(Debug, FromBytes, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct QueueMemory {
    pub(super) admin_submissions: Page,
    pub(super) admin_completions: Page,
    pub(super) submissions: Page,
    pub(super) completions: Page,
    pub(super) answer: Page,
    pub(super) lists: [Page; DEPTH],
}

impl QueueMemory {
    /// Memory for a controller.
    pub const EMPTY: QueueMemory = QueueMemory {
        admin_submissions: Page::ZERO,
        admin_completions: Page::ZERO,
        submissions: Page::ZERO,
        completions: Page::ZERO,
        answer: Page::ZERO,
        lists: [Page::ZERO; DEPTH],
    };
}

impl QueueMemory {
    /// Takes the memory for a controller from the start of `pages`, and zeroes it. Also
    /// returns the remaining pages. `None` if there are too few pages.
    #[must_use]
    pub fn take(pages: &mut [Page]) -> Option<(&mut QueueMemory, &mut [Page])> {
        let own = size_of::<QueueMemory>() / size_of::<Page>();
        let (own, rest) = pages.split_at_mut_checked(own)?;
        own.fill(Page::ZERO);
        let own = QueueMemory::mut_from_bytes(own.as_mut_bytes()).ok()?;
        Some((own, rest))
    }
}

/// The address that a device must use for `pointer`'s target.
///
/// Machine mode runs without translation, so this is the pointer's value. Only this
/// function relies on that.
#[must_use]
#[inline]
pub fn physical_address<T>(pointer: *const T) -> u64 {
    pointer.expose_provenance() as u64
}
