//! What harts ask of memory.

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A load that missed the hart's cache.
    Load,
    /// A store that missed the hart's cache: it reads the line.
    Store,
    /// An instruction fetch that missed the hart's cache.
    Fetch,
    /// A dirty line leaves the hart's cache.
    WriteBack,
    /// An instruction writes a dirty line back.
    Flush,
    /// An instruction waits for the hart's earlier accesses.
    Fence,
}

impl Kind {
    /// All kinds. A trace gives each the number of its place.
    pub const ALL: [Kind; 6] = [
        Kind::Load,
        Kind::Store,
        Kind::Fetch,
        Kind::WriteBack,
        Kind::Flush,
        Kind::Fence,
    ];
}

/// A request of a hart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its kind.
    pub kind: Kind,
    /// The line's number in the machine's memory: 64 bytes each. Zero for a fence.
    pub line: u32,
    /// Instructions of the hart since its last request.
    pub instructions: u64,
}

/// Each hart's requests, in its own order.
pub trait Source {
    /// Number of harts.
    fn harts(&self) -> usize;

    /// The hart's next request; `None`: it has no more.
    fn next(&mut self, hart: usize) -> Option<Request>;

    /// Instructions of the hart in all, those after its last request included.
    fn instructions(&self, hart: usize) -> u64;
}
