//! The critical guest's frames, as QEMU's trace of register writes shows them.

use anyhow::{Context, ensure};
use poorwill_critical::{CAN_ID, Heartbeat};

/// QEMU's event for each write to a device's register.
pub const WRITES: &str = "memory_region_ops_write";

/// QEMU's name for the registers of the card's SJA1000.
const CHIP: &str = "'kvaser_pci-sja'";

/// Registers of the chip: its command register, and its buffer for a frame.
const COMMAND: usize = 1;
const BUFFER: std::ops::Range<usize> = 16..27;

/// The oldest data in a frame, in microseconds: one and a half control periods.
const OLDEST_US: u64 = 15_000;

/// Heartbeats without data after a start: two control periods, and the one with the third sample.
const WITHOUT_DATA: usize = 21;

/// The frames that a trace shows, in their order.
///
/// # Errors
///
/// A line or a frame that does not have the expected form.
pub fn frames(trace: &str) -> anyhow::Result<Vec<Heartbeat>> {
    let mut chip = Chip::default();
    let mut frames = Vec::new();
    for line in trace.lines().filter(|line| line.ends_with(CHIP)) {
        let write = write(line).with_context(|| format!("the trace's line {line:?}"))?;
        frames.extend(chip.write(write)?);
    }
    Ok(frames)
}

/// The chip's buffer for a frame.
#[derive(Debug)]
pub(crate) struct Chip([u8; BUFFER.end]);

impl Default for Chip {
    fn default() -> Self {
        Chip([0; BUFFER.end])
    }
}

impl Chip {
    /// Takes a write of a value to a register, and returns the frame that it sends.
    pub(crate) fn write(
        &mut self,
        (register, value): (usize, u8),
    ) -> anyhow::Result<Option<Heartbeat>> {
        match register {
            COMMAND if value & 1 != 0 => frame(&self.0).map(Some),
            _ => {
                if BUFFER.contains(&register) {
                    self.0[register] = value;
                }
                Ok(None)
            }
        }
    }
}

/// The register and the value of a line.
fn write(line: &str) -> Option<(usize, u8)> {
    let after = |name| line.split(' ').skip_while(move |word| *word != name).nth(1);
    let number = |name| usize::from_str_radix(after(name)?.strip_prefix("0x")?, 16).ok();
    // The chip's BAR has 128 bytes.
    Some((number("addr")? % 128, u8::try_from(number("value")?).ok()?))
}

/// The heartbeat of a buffer.
fn frame(buffer: &[u8; BUFFER.end]) -> anyhow::Result<Heartbeat> {
    let (head, data) = buffer[BUFFER].split_at(3);
    let [high, low] = (CAN_ID << 5).to_be_bytes();
    ensure!(
        head == [8, high, low],
        "a frame begins with {head:?}, not with eight bytes' kind and identifier {CAN_ID:#x}"
    );
    Ok(Heartbeat::from_data(data.try_into()?))
}

/// Checks the frames of a guest that started once and woke `wakes` times: their numbers, and that
/// each start and wake begins without data, as its pipeline initialises.
///
/// # Errors
///
/// The first frame that is wrong.
pub fn check(frames: &[Heartbeat], wakes: usize) -> anyhow::Result<()> {
    for (number, frame) in (0..).zip(frames) {
        ensure!(
            frame.sequence == number,
            "frame {number} has the number {}: one is lost or repeated",
            frame.sequence
        );
        ensure!(
            frame.age_us.is_none_or(|age| age <= OLDEST_US),
            "frame {number} has data of {:?} us ago",
            frame.age_us
        );
    }
    let stages: Vec<_> = frames
        .chunk_by(|one, next| one.age_us.is_some() == next.age_us.is_some())
        .filter(|stage| stage[0].age_us.is_none())
        .collect();
    ensure!(
        stages.len() == wakes + 1,
        "{} stages without data, of a start and {wakes} wakes",
        stages.len()
    );
    for stage in stages {
        ensure!(
            stage.len() == WITHOUT_DATA,
            "{} frames without data from frame {} on, not {WITHOUT_DATA}",
            stage.len(),
            stage[0].sequence
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A trace of the frames of a start and some wakes, as QEMU writes it.
    fn trace(frames: &[Heartbeat]) -> String {
        let line = |register: usize, value: u8, region: &str| {
            let address = 0x1080 + register;
            format!(
                "9@1795745221.809482:{WRITES} cpu 0 mr 0x5 addr {address:#x} value {value:#x} size 1 name '{region}'\n"
            )
        };
        let mut text = line(17, 0xee, "pcie-mmcfg-mmio");
        for frame in frames {
            let bytes = [8, 0x24, 0x60].into_iter().chain(frame.data());
            for (register, byte) in BUFFER.zip(bytes) {
                text += &line(register, byte, "kvaser_pci-sja");
            }
            text += &line(COMMAND, 1, "kvaser_pci-sja");
            text += &line(0, 8, "kvaser_pci-sja");
        }
        text
    }

    fn start_and_wake() -> Vec<Heartbeat> {
        let beat = |sequence| Heartbeat {
            sequence,
            age_us: (sequence % 100 > 20).then_some(400),
            lateness_100ns: 3,
        };
        (0..200).map(beat).collect()
    }

    #[test]
    fn a_trace_gives_its_frames() {
        let sent = start_and_wake();
        assert_eq!(frames(&trace(&sent)).unwrap(), sent);
        check(&sent, 1).unwrap();
    }

    #[test]
    fn a_planted_fault_is_found() {
        let faults: [fn(&mut Vec<Heartbeat>); 4] = [
            |frames| frames[50..].rotate_left(1),
            |frames| frames.insert(50, frames[50]),
            // Data from before the wake.
            |frames| frames[100].age_us = Some(400),
            |frames| frames[50].age_us = Some(1_000_000),
        ];
        for fault in faults {
            let mut sent = start_and_wake();
            fault(&mut sent);
            assert!(check(&sent, 1).is_err());
        }
        assert!(
            check(&start_and_wake(), 2).is_err(),
            "a wake without a reset"
        );
        let other = trace(&start_and_wake()).replace("value 0x24", "value 0x25");
        assert!(frames(&other).is_err(), "another identifier");
    }
}
