use poorwill_image::Digest;
use poorwill_memory::checksum;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::reason::CutReason;

/// Bytes of a line: the size of a line in most caches, but no code relies on that.
pub const LINE_BYTES: usize = 64;

/// Words of a line.
const WORDS: usize = LINE_BYTES / 8;

/// Words of a line's contents.
pub(super) const SAYS_WORDS: usize = WORDS - 3;

/// The first word of every line. Its lowest byte becomes the kind of the line.
const MAGIC: u64 = u64::from_le_bytes(*b"\0PWCUT\0\x01");

/// Kinds of lines.
mod kind {
    pub(super) const BEGUN: u64 = 1;
    pub(super) const COMMITTED: u64 = 2;
    pub(super) const CONSUMED: u64 = 3;
    pub(super) const PART: u64 = 4;
    pub(super) const WEAR: u64 = 5;
}

/// A line of the record: its kind, the sequence number of the cut, contents, and a checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
pub struct Line([u64; WORDS]);

/// The contents of a consumed line for a cut that was resumed, until its OS ends in order.
const RUNS: u64 = 1;

/// First bits of the number of wear registers, and of the ticks after the last quiet device, in the last
/// word of a commit.
const WEAR_WORDS_SHIFT: u32 = 8;
const AFTER_SHIFT: u32 = 16;
/// The bits between both.
const WEAR_WORDS_MASK: u64 = 0xff;
/// The most ticks that fit there. Longer times are given as this one.
const MOST_AFTER: u64 = u64::MAX >> AFTER_SHIFT;

/// The contents of a line.
type Says = [u64; SAYS_WORDS];

/// Why a machine is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutCause {
    /// The power fails.
    PowerFailed,
    /// The OS asks for a sleep.
    Requested,
}

/// The contents of a commit line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Commit {
    /// Digest of all entries.
    pub(super) digest: Digest,
    /// Digests are tags.
    pub(super) is_tagged: bool,
    /// Ticks of `time` that Stop took.
    pub(super) ticks: u64,
    /// Ticks of these from the last quiet device on.
    pub(super) after: u64,
    /// The cause of the cut.
    pub(super) cause: CutCause,
    /// Number of words of wear registers.
    pub(super) wear_words: u64,
}

/// The contents of the entry of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartEntry {
    /// Bytes of the part's contents.
    pub bytes: u64,
    /// Digest of the contents.
    pub digest: Digest,
}

impl Line {
    /// An empty line.
    pub const EMPTY: Line = Line([0; WORDS]);

    fn new(kind: u64, sequence: u64, says: Says) -> Self {
        let [a, b, c, d, e] = says;
        let mut words = [MAGIC | kind, sequence, a, b, c, d, e, 0];
        words[WORDS - 1] = checksum::of_words(&words[..WORDS - 1]);
        Line(words)
    }

    /// The sequence number and the contents, if the line is complete and of this kind.
    fn read(&self, kind: u64) -> Option<(u64, Says)> {
        let [first, sequence, a, b, c, d, e, sum] = self.0;
        let is_whole = sum == checksum::of_words(&self.0[..WORDS - 1]);
        (is_whole && first == MAGIC | kind).then_some((sequence, [a, b, c, d, e]))
    }

    /// Begun: the cut was not finished, for this reason.
    pub(super) fn begun(sequence: u64, reason: CutReason) -> Self {
        let (code, value) = reason.to_words();
        Self::new(kind::BEGUN, sequence, [code, value, 0, 0, 0])
    }

    pub(super) fn read_begun(&self) -> Option<(u64, CutReason)> {
        let (sequence, [code, value, ..]) = self.read(kind::BEGUN)?;
        Some((sequence, CutReason::from_words(code, value)))
    }

    /// Committed: the cut is complete.
    pub(super) fn committed(sequence: u64, commit: Commit) -> Self {
        let [low, high] = commit.digest.to_words();
        let is_requested = u64::from(commit.cause == CutCause::Requested);
        let after = commit.after.min(MOST_AFTER) << AFTER_SHIFT;
        let told = is_requested | commit.wear_words << WEAR_WORDS_SHIFT | after;
        let says = [low, commit.ticks, high, commit.is_tagged.into(), told];
        Self::new(kind::COMMITTED, sequence, says)
    }

    pub(super) fn read_committed(&self) -> Option<(u64, Commit)> {
        let (sequence, [low, ticks, high, is_tagged, told]) = self.read(kind::COMMITTED)?;
        let commit = Commit {
            digest: Digest::from_words([low, high]),
            is_tagged: is_tagged != 0,
            ticks,
            after: told >> AFTER_SHIFT,
            cause: match told & 1 {
                0 => CutCause::PowerFailed,
                _ => CutCause::Requested,
            },
            wear_words: told >> WEAR_WORDS_SHIFT & WEAR_WORDS_MASK,
        };
        Some((sequence, commit))
    }

    /// Consumed: all cuts up to this one were resumed or discarded.
    pub(super) fn consumed(sequence: u64) -> Self {
        Self::new(kind::CONSUMED, sequence, [0; _])
    }

    /// Consumed: the same, and the machine has resumed the last of them, and runs since.
    pub(super) fn running(sequence: u64) -> Self {
        Self::new(kind::CONSUMED, sequence, [RUNS, 0, 0, 0, 0])
    }

    pub(super) fn read_consumed(&self) -> Option<u64> {
        Some(self.read(kind::CONSUMED)?.0)
    }

    /// The number of the cut that the machine has resumed, if it was running at its end or runs
    /// now.
    pub(super) fn read_running(&self) -> Option<u64> {
        let (sequence, [state, ..]) = self.read(kind::CONSUMED)?;
        (state == RUNS).then_some(sequence)
    }

    /// The entry of a part in this cut.
    #[must_use]
    pub fn part(sequence: u64, entry: PartEntry) -> Self {
        let [low, high] = entry.digest.to_words();
        Self::new(kind::PART, sequence, [entry.bytes, low, high, 0, 0])
    }

    /// Reads the entry of a part.
    #[must_use]
    pub fn read_part(&self) -> Option<(u64, PartEntry)> {
        let (sequence, [bytes, low, high, ..]) = self.read(kind::PART)?;
        let digest = Digest::from_words([low, high]);
        Some((sequence, PartEntry { bytes, digest }))
    }

    /// A line of wear registers. They were read after the rest of this cut was in memory.
    pub(super) fn wear(sequence: u64, words: [u64; SAYS_WORDS]) -> Self {
        Self::new(kind::WEAR, sequence, words)
    }

    pub(super) fn read_wear(&self) -> Option<(u64, [u64; SAYS_WORDS])> {
        self.read(kind::WEAR)
    }

    /// All words of the line.
    pub(super) fn words(&self) -> &[u64; WORDS] {
        &self.0
    }

    /// The checksum, which stands for the whole line.
    pub(super) fn checksum(&self) -> u64 {
        self.0[WORDS - 1]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_is_read_as_what_it_was_written_as() {
        let reason = CutReason::HartNotStopped(3);
        assert_eq!(Line::begun(7, reason).read_begun(), Some((7, reason)));
        let commit = Commit {
            digest: Digest::from_words([9, 11]),
            is_tagged: true,
            ticks: 10,
            after: 4,
            cause: CutCause::Requested,
            wear_words: 3,
        };
        assert_eq!(
            Line::committed(8, commit).read_committed(),
            Some((8, commit))
        );
        let entry = PartEntry {
            bytes: 12,
            digest: commit.digest,
        };
        assert_eq!(Line::part(8, entry).read_part(), Some((8, entry)));
        assert_eq!(Line::consumed(8).read_consumed(), Some(8));
        let wear = [1, 2, 3, 4, 5];
        assert_eq!(Line::wear(8, wear).read_wear(), Some((8, wear)));
        assert_eq!(Line::consumed(8).read_committed(), None);
        assert_eq!(Line::EMPTY.read_consumed(), None);
        let running = Line::running(8);
        assert_eq!(running.read_consumed(), Some(8));
        assert_eq!(running.read_running(), Some(8));
        assert_eq!(Line::consumed(8).read_running(), None);
    }

    proptest! {
        /// Where some words of the new line have reached memory and others not, it is
        /// neither, or the old one or the new one.
        #[test]
        fn a_torn_line_says_nothing(old: u64, new: u64, reached: u8) {
            let commit = Commit {
                digest: Digest::from_words([old, new]),
                is_tagged: true,
                ticks: new,
                after: 0,
                cause: CutCause::PowerFailed,
                wear_words: 0,
            };
            let (old, new) = (Line::consumed(old), Line::committed(new, commit));
            let torn = Line(core::array::from_fn(|word| {
                if reached >> word & 1 == 1 { new.0[word] } else { old.0[word] }
            }));
            let is_either = torn == old || torn == new;
            let is_read = torn.read_consumed().is_some() || torn.read_committed().is_some();
            prop_assert_eq!(is_read, is_either);
        }
    }
}
