//! The critical guest's frames on the CAN bus, as QEMU's trace of register writes shows them.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, ensure};

/// QEMU's event for each write to a device's register.
pub const WRITES: &str = "memory_region_ops_write";

/// QEMU's name for the registers of the card's SJA1000.
const CHIP: &str = "'kvaser_pci-sja'";

/// Registers of the chip: its command register, and the first byte of its buffer's data, the frame's
/// number, least significant byte first.
const COMMAND: u64 = 1;
const DATA: u64 = 19;

/// A frame on the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Time since 1970, of the host.
    pub at: Duration,
    pub sequence: u32,
}

/// Reads a trace while QEMU writes it.
#[derive(Debug)]
struct Trace {
    file: PathBuf,
    opened: Option<File>,
    /// A line that is not complete yet.
    rest: Vec<u8>,
    /// The number in the chip's buffer.
    data: [u8; 4],
}

impl Trace {
    /// The trace in this file, which need not exist yet.
    fn new(file: &Path) -> Self {
        Trace {
            file: file.to_owned(),
            opened: None,
            rest: Vec::new(),
            data: [0; 4],
        }
    }

    /// The frames since the last call.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or a line of the chip does not have the expected form.
    fn new_frames(&mut self) -> anyhow::Result<Vec<Frame>> {
        if self.opened.is_none() {
            match File::open(&self.file) {
                Ok(file) => self.opened = Some(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error).context("QEMU's trace"),
            }
        }
        let Some(file) = &mut self.opened else {
            return Ok(Vec::new());
        };
        file.read_to_end(&mut self.rest).context("QEMU's trace")?;
        let whole = self.rest.iter().rposition(|byte| *byte == b'\n');
        let lines: Vec<u8> = self.rest.drain(..whole.map_or(0, |end| end + 1)).collect();
        let mut frames = Vec::new();
        for line in String::from_utf8_lossy(&lines).lines() {
            if line.ends_with(CHIP) {
                let frame = self.take(line);
                frames.extend(frame.with_context(|| format!("QEMU's trace has {line:?}"))?);
            }
        }
        Ok(frames)
    }

    /// Takes a write to the chip. `None`: the line is malformed.
    fn take(&mut self, line: &str) -> Option<Option<Frame>> {
        let after = |name| line.split(' ').skip_while(move |word| *word != name).nth(1);
        let number = |name| u64::from_str_radix(after(name)?.strip_prefix("0x")?, 16).ok();
        // The chip's BAR has 128 bytes.
        let (register, value) = (number("addr")? % 128, number("value")?);
        let byte = register
            .checked_sub(DATA)
            .and_then(|byte| usize::try_from(byte).ok());
        if let Some(byte) = byte.and_then(|byte| self.data.get_mut(byte)) {
            *byte = u8::try_from(value).ok()?;
        }
        if register != COMMAND || value & 1 == 0 {
            return Some(None);
        }
        let (_, time) = line.split(':').next()?.split_once('@')?;
        Some(Some(Frame {
            at: Duration::try_from_secs_f64(time.parse().ok()?).ok()?,
            sequence: u32::from_le_bytes(self.data),
        }))
    }
}

/// The frames on the bus, each with the number after the one before it.
#[derive(Debug)]
pub struct Bus {
    trace: Trace,
    last: Option<Frame>,
    count: usize,
}

impl Bus {
    /// The frames of the trace in this file, which need not exist yet.
    #[must_use]
    pub fn new(trace: &Path) -> Self {
        Bus {
            trace: Trace::new(trace),
            last: None,
            count: 0,
        }
    }

    /// The frames since the last call.
    ///
    /// # Errors
    ///
    /// The trace cannot be read, or a frame is lost or repeated.
    pub fn new_frames(&mut self) -> anyhow::Result<Vec<Frame>> {
        let frames = self.trace.new_frames()?;
        check_numbers(self.last.as_ref(), &frames).context("the CAN bus")?;
        self.count += frames.len();
        self.last = frames.last().copied().or(self.last);
        Ok(frames)
    }

    /// The number of frames so far.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }
}

/// Checks that each frame has the number after the one before it.
fn check_numbers(before: Option<&Frame>, frames: &[Frame]) -> anyhow::Result<()> {
    let all = before.into_iter().chain(frames);
    let mut pairs = all.clone().zip(all.skip(1));
    let gap = pairs.find(|(one, next)| one.sequence.checked_add(1) != Some(next.sequence));
    gap.map_or(Ok(()), |(one, next)| {
        let (one, next) = (one.sequence, next.sequence);
        ensure!(
            false,
            "after frame {one} came frame {next}: one is lost or repeated"
        );
        Ok(())
    })
}

/// Time of the host since 1970.
pub fn now() -> Duration {
    UNIX_EPOCH.elapsed().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn line(register: u64, value: u64) -> String {
        format!(
            "9@17.5:{WRITES} cpu 2 mr 0x5 addr {:#x} value {value:#x} size 1 name {CHIP}\n",
            0x3002080 + register
        )
    }

    #[test]
    fn frames_are_read_as_they_come() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("trace");
        let mut trace = Trace::new(&file);
        assert_eq!(trace.new_frames().unwrap(), []);
        let mut text = "9@1.0:other\n".to_owned();
        for (register, value) in [(16, 8), (19, 7), (20, 1), (25, 30), (1, 1)] {
            text += &line(register, value);
        }
        let (one, two) = text.split_at(text.len() - 10);
        fs::write(&file, one).unwrap();
        assert_eq!(trace.new_frames().unwrap(), []);
        fs::write(&file, format!("{one}{two}")).unwrap();
        let frame = Frame {
            at: Duration::from_millis(17_500),
            sequence: 263,
        };
        assert_eq!(trace.new_frames().unwrap(), [frame]);
        assert_eq!(trace.new_frames().unwrap(), []);
        fs::write(
            &file,
            format!("{text}{}", line(1, 1).replace("0x1 size", "x size")),
        )
        .unwrap();
        assert!(trace.new_frames().is_err());
    }

    #[test]
    fn a_gap_is_found() {
        let frame = |sequence| Frame {
            at: Duration::ZERO,
            sequence,
        };
        check_numbers(Some(&frame(1)), &[frame(2), frame(3)]).unwrap();
        check_numbers(None, &[frame(2)]).unwrap();
        let error = check_numbers(Some(&frame(1)), &[frame(3)]).unwrap_err();
        assert!(error.to_string().contains("after frame 1 came frame 3"));
        assert!(check_numbers(None, &[frame(2), frame(2)]).is_err());
    }
}
