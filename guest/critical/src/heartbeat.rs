//! The frame of a heartbeat.

/// The identifier of each frame, of 11 bits.
pub const CAN_ID: u16 = 0x123;

/// The age in a frame without data.
const NO_DATA: u16 = u16::MAX;

/// The contents of a heartbeat's frame, of eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// One more than the last frame's, across sleeps, too. Bytes 0 to 3, least significant first.
    pub sequence: u32,
    /// Microseconds since the sample of the newest data; `None` while the pipeline initialises.
    /// Bytes 4 and 5: at most 65534, and 65535 without data.
    pub age_us: Option<u64>,
    /// Time since the heartbeat's release, in units of 100 ns. Bytes 6 and 7: at most 65535.
    pub lateness_100ns: u64,
}

impl Heartbeat {
    /// The frame's data.
    #[must_use]
    pub fn data(&self) -> [u8; 8] {
        let clamp = |value: u64, most: u16| u16::try_from(value).unwrap_or(most).min(most);
        let age = self.age_us.map_or(NO_DATA, |age| clamp(age, NO_DATA - 1));
        let lateness = clamp(self.lateness_100ns, u16::MAX);
        let bytes = u64::from(self.sequence) | u64::from(age) << 32 | u64::from(lateness) << 48;
        bytes.to_le_bytes()
    }

    /// The heartbeat of a frame's data.
    #[must_use]
    pub fn from_data(data: [u8; 8]) -> Self {
        let [a, b, c, d, age @ .., late, later] = data;
        let age = u16::from_le_bytes(age);
        Heartbeat {
            sequence: u32::from_le_bytes([a, b, c, d]),
            age_us: (age != NO_DATA).then_some(age.into()),
            lateness_100ns: u16::from_le_bytes([late, later]).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_their_places() {
        let beat = Heartbeat {
            sequence: 0x0403_0201,
            age_us: Some(0x0605),
            lateness_100ns: 0x0807,
        };
        assert_eq!(beat.data(), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(Heartbeat::from_data(beat.data()), beat);
    }

    #[test]
    fn old_data_is_not_taken_for_none() {
        let at = |age_us| Heartbeat {
            sequence: 0,
            age_us,
            lateness_100ns: 1 << 40,
        };
        assert_eq!(at(Some(65_535)).data()[4..], [0xfe, 0xff, 0xff, 0xff]);
        assert_eq!(at(Some(1 << 40)).data()[4..], [0xfe, 0xff, 0xff, 0xff]);
        assert_eq!(at(None).data()[4..6], [0xff, 0xff]);
    }
}
