//! The critical guest's frames on the CAN bus: writes to the registers of the card's SJA1000.

use std::time::Duration;

use thiserror::Error;

/// QEMU's event for each write to a device's register.
pub const WRITES: &str = "memory_region_ops_write";

/// QEMU's name for the chip's registers.
const CHIP: &str = "'kvaser_pci-sja'";

/// Registers of the chip: its command register, and its buffer for a frame.
const COMMAND: usize = 1;
const BUFFER: usize = 16;
const DATA: usize = 19;
const END: usize = 27;

/// The start of each frame in the buffer: eight bytes of data, and the guest's identifier.
pub const HEAD: [u8; 3] = [8, 0x24, 0x60];

/// The age of the data in a frame without data.
const NO_DATA: [u8; 2] = [0xff; 2];

/// A frame on the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Time of the host since 1970; `None`: QEMU writes no times.
    pub at: Option<Duration>,
    pub data: [u8; 8],
}

impl Frame {
    /// Its number: one more than the last frame's.
    #[must_use]
    pub fn sequence(&self) -> u32 {
        let [a, b, c, d, ..] = self.data;
        u32::from_le_bytes([a, b, c, d])
    }

    /// Whether the guest had data to send. It has none in the first frame after a start or a wake.
    #[must_use]
    pub fn has_data(&self) -> bool {
        self.data[4..6] != NO_DATA
    }
}

/// Why a frame cannot be read.
#[derive(Debug, Error)]
pub enum FrameError {
    #[error("QEMU's trace has {0:?}, which is no write to a register")]
    Line(String),
    #[error("a frame begins with {0:?}, not with {HEAD:?}")]
    Head([u8; 3]),
}

/// The chip's buffer for a frame.
#[derive(Debug, Default)]
pub struct Chip {
    head: [u8; 3],
    data: [u8; 8],
}

impl Chip {
    /// Takes a write of a value to a register, and returns the data of the frame that it sends.
    ///
    /// # Errors
    ///
    /// [`FrameError::Head`].
    pub fn write(&mut self, register: usize, value: u8) -> Result<Option<[u8; 8]>, FrameError> {
        match register {
            COMMAND if value & 1 != 0 && self.head == HEAD => return Ok(Some(self.data)),
            COMMAND if value & 1 != 0 => return Err(FrameError::Head(self.head)),
            BUFFER..DATA => self.head[register - BUFFER] = value,
            DATA..END => self.data[register - DATA] = value,
            _ => {}
        }
        Ok(None)
    }

    /// Takes lines of QEMU's trace, and returns the frames that they send.
    ///
    /// # Errors
    ///
    /// [`FrameError`].
    pub fn read(&mut self, trace: &str) -> Result<Vec<Frame>, FrameError> {
        let mut frames = Vec::new();
        for line in trace.lines().filter(|line| line.ends_with(CHIP)) {
            let write = write(line).ok_or_else(|| FrameError::Line(line.to_owned()))?;
            let sent = self.write(write.0, write.1)?;
            let at = time(line);
            frames.extend(sent.map(|data| Frame { at, data }));
        }
        Ok(frames)
    }
}

/// The register and the value of a line.
fn write(line: &str) -> Option<(usize, u8)> {
    let after = |name| line.split(' ').skip_while(move |word| *word != name).nth(1);
    let number = |name| usize::from_str_radix(after(name)?.strip_prefix("0x")?, 16).ok();
    // The chip's BAR has 128 bytes.
    Some((number("addr")? % 128, u8::try_from(number("value")?).ok()?))
}

/// The time of a line, after its thread's number.
fn time(line: &str) -> Option<Duration> {
    let (_, time) = line.split(':').next()?.split_once('@')?;
    Duration::try_from_secs_f64(time.parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(register: usize, value: u8) -> String {
        let address = 0x300_2080 + register;
        format!(
            "9@17.5:{WRITES} cpu 2 mr 0x5 addr {address:#x} value {value:#x} size 1 name {CHIP}\n"
        )
    }

    #[test]
    fn a_trace_gives_its_frames() {
        let mut text = "9@1.0:other\n".to_owned();
        text += &line(17, 0xee).replace(CHIP, "'pcie-mmcfg-mmio'");
        let head = (BUFFER..).zip(HEAD);
        for (register, value) in head.chain([(19, 7), (20, 1), (25, 30), (COMMAND, 1), (0, 8)]) {
            text += &line(register, value);
        }
        let frame = Frame {
            at: Some(Duration::from_millis(17_500)),
            data: [7, 1, 0, 0, 0, 0, 30, 0],
        };
        let of = |text: &str| Chip::default().read(text);
        assert_eq!(of(&text).unwrap(), [frame]);
        assert_eq!(frame.sequence(), 263);
        assert!(frame.has_data());
        let mut first = frame;
        first.data[4..6].fill(0xff);
        assert!(!first.has_data());
        let untimed = of(&text.replace("9@17.5:", "")).unwrap();
        assert_eq!(untimed, [Frame { at: None, ..frame }]);
        assert!(of(&text.replace("value 0x24", "value 0x25")).is_err());
        assert!(of(&text.replace("value 0x24", "value x")).is_err());
    }
}
