use poorwill_memory::Page;

/// The memory that a sleep or a wake works in, which is the firmware's own. What is
/// in it does not matter.
#[derive(Debug)]
pub struct Work<'m> {
    /// To look at partition tables and partitions with.
    pub scratch: &'m mut Page,
    /// For the records of a sleep area.
    pub record: &'m mut Page,
    /// [`poorwill_image::Workspace::pages_needed`] of them.
    pub workspace: &'m mut [Page],
}
