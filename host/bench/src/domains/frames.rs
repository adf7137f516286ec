//! The critical guest's frames on the CAN bus, as they come.

use std::path::Path;
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

/// The frames on the bus, each with the number after the one before it.
#[derive(Debug)]
pub struct Bus {
    trace: Growing,
    chip: Chip,
    last: Option<Frame>,
    count: usize,
}

impl Bus {
    /// The frames of QEMU's trace in this file, which need not exist yet.
    #[must_use]
    pub fn new(trace: &Path) -> Self {
        Bus {
            trace: Growing::new(trace),
            chip: Chip::default(),
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
        let trace = self.trace.read().context("QEMU's trace")?;
        let frames = self.chip.read(&trace)?.into_iter().map(|frame| {
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
}
