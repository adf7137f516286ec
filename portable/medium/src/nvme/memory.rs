use poorwill_memory::Page;
use zerocopy::{FromBytes, IntoBytes, KnownLayout};

/// Most transfers that may be in flight at once.
pub const DEPTH: usize = 32;

/// The memory that a controller shares: its queues and lists. 148 KiB.
///
/// One for each controller in use. The device accesses it from
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
    /// The memory for a controller at the front of `pages`, all zeros, and what is
    /// behind it; `None` where there are too few.
    #[must_use]
    pub fn take(pages: &mut [Page]) -> Option<(&mut QueueMemory, &mut [Page])> {
        let own = size_of::<QueueMemory>() / size_of::<Page>();
        let (own, rest) = pages.split_at_mut_checked(own)?;
        own.fill(Page::ZERO);
        let own = QueueMemory::mut_from_bytes(own.as_mut_bytes()).ok()?;
        Some((own, rest))
    }
}

/// The address by which a device reaches what `pointer` points at.
///
/// Machine mode runs without translation, so it is the pointer itself; this is
/// the one place that relies on it.
#[must_use]
#[inline]
pub fn physical_address<T>(pointer: *const T) -> u64 {
    pointer.expose_provenance() as u64
}
