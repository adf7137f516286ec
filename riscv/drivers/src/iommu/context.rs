use super::IdentityMap;

/// What a device reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// No memory: each access faults.
    Closed,
    /// All memory, by physical addresses: for a device that only machine mode programs.
    PassThrough,
    /// The memory of a map.
    Mapped(IdentityMap),
}

/// Words of a context (2.1.2).
pub(super) const TRANSLATION_CONTROL: u64 = 0;
const ATTRIBUTES: usize = 2;
const FIRST_STAGE: usize = 3;
/// Words of the wide format; the base format has the first four.
pub(super) const MAX_WORDS: usize = 8;

/// Translation control: the context is valid (2.1.3.1). All other features are off.
const VALID: u64 = 1;

/// Lowest bit of the address space number in the attributes (2.1.3.3).
const SPACE: u32 = 12;
const SPACE_BITS: u64 = (1 << 20) - 1;

impl Context {
    /// Its words. The second stage and the special treatment of messages are off.
    pub(super) fn words(&self) -> [u64; MAX_WORDS] {
        let mut words = [0; MAX_WORDS];
        match self {
            Context::Closed => {}
            Context::PassThrough => words[0] = VALID,
            Context::Mapped(map) => {
                words[0] = VALID;
                words[ATTRIBUTES] = u64::from(map.space()) << SPACE;
                words[FIRST_STAGE] = map.first_stage();
            }
        }
        words
    }
}

/// The address space number in a context, which may be invalid; `None` without tables.
pub(super) fn space_of(word: impl Fn(u64) -> u64) -> Option<u32> {
    let has_tables = word(FIRST_STAGE as u64) >> 60 != 0;
    let space = word(ATTRIBUTES as u64) >> SPACE & SPACE_BITS;
    has_tables.then(|| u32::try_from(space).unwrap_or(u32::MAX))
}
