use poorwill_image::Workspace;
use poorwill_memory::Page;

/// The firmware's work memory for a sleep or a wake. Its initial contents do not matter.
#[derive(Debug)]
pub struct Work<'m> {
    /// For reads of partition tables and partitions.
    pub scratch: &'m mut Page,
    /// For the records of a sleep area.
    pub record: &'m mut Page,
    /// The [`Workspace`], of [`Workspace::pages_needed`] pages.
    pub workspace: &'m mut [Page],
}

impl<'m> Work<'m> {
    /// Number of pages of work memory on a machine with `os_pages` pages of OS memory.
    #[must_use]
    pub const fn pages_needed(os_pages: u64) -> u64 {
        2 + Workspace::pages_needed(os_pages)
    }

    /// Divides `pages`, at least [`pages_needed`](Self::pages_needed) of them; `None` if there are
    /// fewer than two.
    pub fn take(pages: &'m mut [Page]) -> Option<Self> {
        let ([scratch, record], workspace) = pages.split_first_chunk_mut()?;
        Some(Work {
            scratch,
            record,
            workspace,
        })
    }
}
