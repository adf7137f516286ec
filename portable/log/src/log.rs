use core::fmt::{self, Display, Write};

use arrayvec::ArrayString;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The size of a log in bytes.
pub const LOG_BYTES: usize = 3584;

/// The size of its text in bytes. At least one byte stays free.
pub const TEXT_BYTES: usize = LOG_BYTES - 16;

/// The maximal bytes of a line with its time and newline. Longer lines are cut.
pub const MAX_LINE: usize = 240;

/// Marks memory as a log: "PWILLOG" and the version.
const MAGIC: u64 = u64::from_le_bytes(*b"PWILLOG\x01");

/// The start of a panic's line, for which [`Log::panic_line`] searches.
const PANIC: &str = "panic on hart ";

const START: &str = "start";

/// Begins a line about a domain. The domain's name follows, and then a colon or a space.
const ABOUT: &str = "domain ";

/// The message of a panic.
pub type PanicLine = ArrayString<MAX_LINE>;

/// The last lines, oldest first: complete lines, each after its time. Before [`Log::begin`] this
/// memory may hold any bytes; `begin` empties an invalid log.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Log {
    magic: u64,
    length: u64,
    text: [u8; TEXT_BYTES],
}

impl Log {
    /// Owner and version of its section of an image's state.
    pub const SECTION: (u32, u16) = (u32::from_le_bytes(*b"LOGT"), 1);

    /// A log without lines.
    #[must_use]
    pub fn new() -> Self {
        Log {
            magic: MAGIC,
            length: 0,
            text: [0; TEXT_BYTES],
        }
    }

    /// Checks whether memory holds the last start's log. Other contents, such as those after a
    /// power-on, become an empty log.
    fn open(&mut self) -> bool {
        let is_log = self.magic == MAGIC && self.length != 0 && self.checked().is_some();
        if !is_log {
            self.magic = MAGIC;
            self.length = 0;
        }
        is_log
    }

    /// The lines, or nothing if the log is invalid.
    #[must_use]
    pub fn text(&self) -> &str {
        self.checked().unwrap_or_default()
    }

    /// The text if it is valid: whole lines of printable characters.
    fn checked(&self) -> Option<&str> {
        let text = core::str::from_utf8(self.bytes()?).ok()?;
        let is_right = |c: char| c == '\n' || !c.is_control();
        let is_whole = text.is_empty() || text.ends_with('\n');
        (is_whole && text.chars().all(is_right)).then_some(text)
    }

    /// The bytes of the text, unchecked, if the length is in range.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        let length = usize::try_from(self.length).ok()?;
        self.text.get(..length).filter(|_| length < TEXT_BYTES)
    }

    /// Adds a line. Drops the oldest lines if there is no room.
    pub fn add(&mut self, line: &LogLine) {
        self.append(line.bytes());
    }

    /// The lines that a domain may read, unchecked: its own, and those about no domain. An empty
    /// name reads all.
    pub(crate) fn lines_for(&self, reader: &str) -> impl Iterator<Item = &[u8]> {
        let lines = self
            .bytes()
            .unwrap_or_default()
            .split_inclusive(|byte| *byte == b'\n');
        lines.filter(move |line| match about(line) {
            Some(domain) => reader.is_empty() || domain == reader.as_bytes(),
            None => true,
        })
    }

    /// Puts the last lines of `older` before its own, if there is room.
    pub fn prepend(&mut self, older: &str) {
        let own = self.bytes().unwrap_or_default().len();
        let room = TEXT_BYTES - 1 - own;
        let kept = last_lines(older.as_bytes(), room);
        self.text.copy_within(..own, kept.len());
        self.text[..kept.len()].copy_from_slice(kept);
        self.length = (kept.len() + own) as u64;
    }

    /// Prepares the log for a new start. After a reset, returns the panic that ended the previous
    /// start, if there was one.
    pub fn begin(&mut self) -> Option<PanicLine> {
        let panic_line = self.open().then(|| self.panic_line()).flatten();
        self.add(&LogLine::new(0, START));
        panic_line
    }

    /// The last panic line of the latest start.
    fn panic_line(&self) -> Option<PanicLine> {
        // A start whose lines fill the whole log has lost its first line.
        let text = self.text();
        let last = text.rsplit_once(" start\n").map_or(text, |(_, last)| last);
        // The text must follow the time directly: a start may repeat the panic line of an earlier
        // one.
        let said = last.lines().rev().filter_map(|line| line.split_once("] "));
        let line = said
            .map(|(_, said)| said)
            .find(|said| said.starts_with(PANIC))?;
        ArrayString::from(line).ok()
    }

    fn append(&mut self, line: &[u8]) {
        // Each console line is appended here, so the text is checked only when it is read.
        let own = self.bytes().unwrap_or_default();
        let kept = last_lines(own, TEXT_BYTES - 1 - line.len()).len();
        let gone = own.len() - kept;
        self.text.copy_within(gone..gone + kept, 0);
        self.text[kept..kept + line.len()].copy_from_slice(line);
        self.length = (kept + line.len()) as u64;
    }
}

impl Default for Log {
    fn default() -> Self {
        Self::new()
    }
}

/// The name of the domain that a line is about.
fn about(line: &[u8]) -> Option<&[u8]> {
    let time = line.iter().position(|byte| *byte == b']')?;
    name_in(line[time..].strip_prefix(b"] ")?)
}

/// The name of the domain that the text of a line begins with.
fn name_in(said: &[u8]) -> Option<&[u8]> {
    let name = said.strip_prefix(ABOUT.as_bytes())?;
    let end = name.iter().position(|byte| b": \n".contains(byte))?;
    Some(&name[..end])
}

/// The last complete lines of a text that fit into `room` bytes.
fn last_lines(text: &[u8], room: usize) -> &[u8] {
    let Some(over) = text.len().checked_sub(room).filter(|over| *over != 0) else {
        return text;
    };
    // The line that the limit cuts in two is dropped as well.
    let end = text[over - 1..].iter().position(|byte| *byte == b'\n');
    end.map_or(&[], |end| &text[over + end..])
}

/// A line with its time and its newline. It is made before the log is locked, since that takes longer
/// than adding it.
#[derive(Clone, Debug)]
pub struct LogLine {
    bytes: [u8; MAX_LINE],
    /// Without the newline.
    length: usize,
}

impl LogLine {
    /// A line with the time `ms` in milliseconds. Text past [`MAX_LINE`] is cut.
    pub fn new(ms: u64, line: impl Display) -> Self {
        let mut new = LogLine {
            bytes: [0; MAX_LINE],
            length: 0,
        };
        let (seconds, rest) = (ms / 1000, ms % 1000);
        // An error only means that the line was shortened.
        write!(new, "[{seconds}.{rest:03}] {line}").unwrap_or_default();
        new.bytes[new.length] = b'\n';
        new
    }

    /// As [`new`](Self::new), a line about a domain with this name. The name is put before the line,
    /// unless the line begins with it. A machine's only domain has no name.
    pub fn about(domain: &str, ms: u64, line: impl Display) -> Self {
        if domain.is_empty() {
            return Self::new(ms, line);
        }
        let mut said = ArrayString::<MAX_LINE>::new();
        // A part without room is dropped.
        write!(said, "{line}").unwrap_or_default();
        match name_in(said.as_bytes()) == Some(domain.as_bytes()) {
            true => Self::new(ms, said),
            false => Self::new(ms, format_args!("{ABOUT}{domain}: {said}")),
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..=self.length]
    }
}

impl Write for LogLine {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        for c in part.chars().map(|c| if c.is_control() { ' ' } else { c }) {
            let end = self.length + c.len_utf8();
            if end >= MAX_LINE {
                return Err(fmt::Error);
            }
            c.encode_utf8(&mut self.bytes[self.length..end]);
            self.length = end;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zerocopy::FromZeros;

    use super::*;

    #[test]
    fn lines_have_their_time() {
        let mut log = Log::new();
        log.add(&LogLine::new(0, "cold boot: no image"));
        log.add(&LogLine::new(61_007, format_args!("two\nlines are {}", 1)));
        let text = "[0.000] cold boot: no image\n[61.007] two lines are 1\n";
        assert_eq!(log.text(), text);
        let mut again = log.clone();
        assert!(again.open(), "a reset keeps it");
        assert_eq!(again, log);
    }

    #[test]
    fn a_domain_reads_no_line_about_another_one() {
        let mut log = Log::new();
        log.add(&LogLine::new(0, "cold boot"));
        log.add(&LogLine::about("side0", 1, "park"));
        log.add(&LogLine::about("side1", 2, "domain side0: said by side1"));
        log.add(&LogLine::about(
            "side1",
            3,
            "domain side1 ends: its OS has shut down",
        ));
        log.add(&LogLine::new(4, "domain side10: starts"));
        let read = |reader| {
            let lines = log.lines_for(reader).map(|line| line.to_vec());
            String::from_utf8(lines.flatten().collect()).unwrap()
        };
        assert_eq!(read(""), log.text());
        assert_eq!(
            read("side0"),
            "[0.000] cold boot\n[0.001] domain side0: park\n"
        );
        assert_eq!(
            read("side1"),
            "[0.000] cold boot\n[0.002] domain side1: domain side0: said by side1\n\
             [0.003] domain side1 ends: its OS has shut down\n"
        );
        assert_eq!(read("other"), "[0.000] cold boot\n");
    }

    #[test]
    fn memory_that_is_no_log_becomes_an_empty_one() {
        let mut log = Log::new_zeroed();
        assert!(!log.open());
        assert_eq!(log, Log::new());
        log.add(&LogLine::new(1, "a line"));
        for spoil in [
            |log: &mut Log| log.length += 1,
            |log: &mut Log| log.length = u64::MAX,
            |log: &mut Log| log.length = TEXT_BYTES as u64,
            |log: &mut Log| log.text[3] = 0xff,
            |log: &mut Log| log.text[3] = 7,
            |log: &mut Log| log.magic ^= 1 << 56,
        ] {
            let mut log = log.clone();
            spoil(&mut log);
            assert!(!log.open());
            assert_eq!(log.text(), "");
        }
    }

    #[test]
    fn the_panic_that_ended_the_last_start_is_told_once() {
        let mut log = Log::new_zeroed();
        assert_eq!(log.begin(), None);
        log.add(&LogLine::new(5, "cold boot: no image"));
        assert_eq!(log.begin(), None, "a reset without one");
        log.add(&LogLine::new(7, "panic on hart 1: first"));
        log.add(&LogLine::new(9, "panic on hart 0: second"));
        log.add(&LogLine::new(9, "panic at here"));
        let panic_line = log.begin();
        assert_eq!(panic_line.as_deref(), Some("panic on hart 0: second"));
        assert_eq!(log.begin(), None, "told once");
        assert!(log.text().contains("panic on hart 1: first\n"));
    }

    #[test]
    fn what_an_image_brings_comes_first_and_its_end_counts() {
        let mut log = Log::new();
        log.add(&LogLine::new(1, "woken"));
        log.prepend("[0.100] older\n[0.200] asleep\n");
        assert_eq!(log.text(), "[0.100] older\n[0.200] asleep\n[0.001] woken\n");
        let long = "x".repeat(9) + "\n";
        log.prepend(&long.repeat(TEXT_BYTES));
        assert!(
            log.text()
                .ends_with("xx\n[0.100] older\n[0.200] asleep\n[0.001] woken\n")
        );
        assert!(log.text().len() < TEXT_BYTES && log.text().len() >= TEXT_BYTES - 10);
        assert!(
            log.text()
                .lines()
                .all(|line| line.len() == 9 || line.starts_with('['))
        );
    }

    #[test]
    fn a_told_panic_is_not_told_again() {
        let mut log = Log::new_zeroed();
        log.begin();
        log.add(&LogLine::new(7, "panic on hart 1: first"));
        let panic_line = log.begin().unwrap();
        // As `start_log` does, through `say!`.
        log.add(&LogLine::new(
            0,
            format_args!("the previous boot panicked: {panic_line}"),
        ));
        log.add(&LogLine::new(5, "cold boot: no image"));
        assert_eq!(log.begin(), None, "this start was ended by a plain reset");
    }

    #[test]
    fn a_panic_behind_many_lines_is_told() {
        let mut log = Log::new_zeroed();
        log.begin();
        for ms in 0..200 {
            log.add(&LogLine::new(ms, "sleep refused: a hart is running"));
        }
        log.add(&LogLine::new(201, "panic on hart 0: late"));
        assert_eq!(log.begin().as_deref(), Some("panic on hart 0: late"));
    }

    proptest! {
        #[test]
        fn any_lines_leave_a_log_with_the_last_of_them(
            lines in prop::collection::vec((any::<u64>(), ".{0,300}"), 1..80),
        ) {
            let mut log = Log::new();
            let mut all = String::new();
            for (ms, line) in &lines {
                log.add(&LogLine::new(*ms, line));
                let mut one = Log::new();
                one.add(&LogLine::new(*ms, line));
                prop_assert!(one.text().len() <= MAX_LINE);
                all += one.text();
            }
            prop_assert!(all.ends_with(log.text()));
            prop_assert!(all.len() < TEXT_BYTES || log.text().len() + MAX_LINE >= TEXT_BYTES);
            prop_assert!(log.clone().open());
        }

        #[test]
        fn any_bytes_are_opened(bytes in prop::collection::vec(any::<u8>(), LOG_BYTES), length in 0_u64..4000) {
            let mut log = Log::read_from_bytes(&bytes).unwrap();
            log.open();
            (log.magic, log.length) = (MAGIC, length);
            log.open();
            log.add(&LogLine::new(1, "a line"));
            prop_assert!(log.text().ends_with("a line\n"));
        }
    }
}
