/// What an OS expects to find in its free pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeContents {
    /// Nothing: it clears pages, if at all, when it begins to use them.
    Anything,
    /// Zeros, or what it expects is not known.
    Zeros,
}
