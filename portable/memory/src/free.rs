/// The contents that an OS expects in its free pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeContents {
    /// Any contents: it initialises pages when it takes them.
    Anything,
    /// Zeros; also used if the expectation is unknown.
    Zeros,
}
