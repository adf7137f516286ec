use poorwill_image::Workspace;
use poorwill_memory::Page;

/// The memory that a sleep or a wake works in, which is the firmware's own. What is
/// in it does not matter.
#[derive(Debug)]
pub struct Work<'m> {
    /// To look at partition tables and partitions with.
    pub scratch: &'m mut Page,
    /// For the records of a sleep area.
    pub record: &'m mut Page,
    /// [`Workspace::pages_needed`] of them.
    pub workspace: &'m mut [Page],
}

impl<'m> Work<'m> {
    /// Pages that it takes on a machine with `os_pages` pages of OS memory.
    #[must_use]
    pub const fn pages_needed(os_pages: u64) -> u64 {
        2 + Workspace::pages_needed(os_pages)
    }

    /// Divides `pages`, at least [`pages_needed`](Self::pages_needed) of them; `None`
    /// where there are not even two.
    pub fn take(pages: &'m mut [Page]) -> Option<Self> {
        let ([scratch, record], workspace) = pages.split_first_chunk_mut()?;
        Some(Work {
            scratch,
            record,
            workspace,
        })
    }
}
