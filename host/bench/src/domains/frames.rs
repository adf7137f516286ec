//! The critical guest's frames on the CAN bus, as they come.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, ensure};
use poorwill_machine::domains::frames::Chip;
use poorwill_machine::growing::Growing;

/// A frame on the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Time since 1970, of the host.
    pub at: Duration,
    pub sequence: u32,
}

/// The frames on the bus, each with the number after the one before it, also across a power-off.
#[derive(Debug)]
pub struct Bus {
    path: PathBuf,
    trace: Growing,
    chip: Chip,
    last: Option<Frame>,
    count: usize,
    /// The next frame is the first one since the power-on.
    is_first: bool,
}

impl Bus {
    /// The frames of QEMU's trace in this file, which need not exist yet.
    #[must_use]
    pub fn new(trace: &Path) -> Self {
        Bus {
            path: trace.to_owned(),
            trace: Growing::new(trace),
            chip: Chip::default(),
            last: None,
            count: 0,
            is_first: true,
        }
    }

    /// Takes the last frames of a machine whose power is off, and removes its trace: the next
    /// power-on writes another one.
    ///
    /// # Errors
    ///
    /// As [`new_frames`](Self::new_frames), or the trace cannot be removed.
    pub fn power_off(&mut self) -> anyhow::Result<()> {
        self.new_frames()?;
        fs::remove_file(&self.path).context("QEMU's trace")?;
        *self = Bus {
            last: self.last,
            count: self.count,
            ..Bus::new(&self.path)
        };
        Ok(())
    }

    /// The frames since the last call.
    ///
    /// # Errors
    ///
    /// The trace cannot be read, or a frame is lost, repeated, or has data of before the power-on.
    pub fn new_frames(&mut self) -> anyhow::Result<Vec<Frame>> {
        let trace = self.trace.read().context("QEMU's trace")?;
        let frames = self.chip.read(&trace)?;
        if let Some(first) = frames.first() {
            let is_stale = self.is_first && first.has_data();
            ensure!(!is_stale, "the first frame has data of before the power-on");
            self.is_first = false;
        }
        let frames = frames.into_iter().map(|frame| {
            Ok(Frame {
                at: frame.at.context("QEMU's trace has no times")?,
                sequence: frame.sequence(),
            })
        });
        let frames = frames.collect::<anyhow::Result<Vec<_>>>()?;
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
    use std::io::Write;

    use poorwill_machine::domains::frames::{HEAD, WRITES};

    use super::*;

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

    /// Sends a frame with a number and an age by writes to the chip's registers.
    fn send(trace: &Path, number: u8, age: u8) {
        let mut writes: Vec<_> = (16..).zip(HEAD).collect();
        writes.extend((19..).zip([number, 0, 0, 0, age, age]));
        writes.push((1, 1));
        let lines = writes.iter().map(|(register, value)| {
            format!(
                "9@1.5:{WRITES} cpu 2 addr {register:#x} value {value:#x} name 'kvaser_pci-sja'\n"
            )
        });
        let mut file = fs::File::options();
        let file = file.create(true).append(true).open(trace);
        let lines: String = lines.collect();
        file.and_then(|mut file| file.write_all(lines.as_bytes()))
            .unwrap();
    }

    #[test]
    fn numbers_go_on_across_a_power_off_and_data_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("trace");
        // A lost frame, a repeated one, and one that waited in the card.
        for (number, age, is_good) in [
            (2, 0xff, true),
            (3, 0xff, false),
            (1, 0xff, false),
            (2, 0, false),
        ] {
            let mut bus = Bus::new(&trace);
            send(&trace, 0, 0xff);
            assert_eq!(bus.new_frames().unwrap().len(), 1);
            send(&trace, 1, 0);
            bus.power_off().unwrap();
            assert!(!trace.exists());
            send(&trace, number, age);
            assert_eq!(bus.new_frames().is_ok(), is_good, "{number}, {age}");
            assert_eq!(bus.count(), if is_good { 3 } else { 2 });
            fs::remove_file(&trace).unwrap();
        }
    }
}
