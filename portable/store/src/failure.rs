use core::fmt;

/// The reason why the wake of an admitted image failed. The slot's record keeps it, so
/// that later power-ons can report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The digest of this piece of page data was wrong.
    DamagedPiece(u64),
    /// The device reported this status.
    Device(u16),
    /// The device did not answer within this time in ms.
    TimedOut(u32),
    /// The machine's state could not be restored. This is the tag of the first section that failed.
    State(u32),
    /// The machine was reset within this time after the wake, in ms.
    Reset(u32),
    /// Another failure: a code and a detail from the firmware.
    Other(u32, u64),
}

impl Failure {
    /// The code, at least 1, and the detail, as stored on the medium.
    #[must_use]
    pub fn to_parts(self) -> (u32, u64) {
        match self {
            Failure::DamagedPiece(piece) => (1, piece),
            Failure::Device(status) => (2, status.into()),
            Failure::TimedOut(ms) => (3, ms.into()),
            Failure::State(tag) => (4, tag.into()),
            Failure::Reset(ms) => (5, ms.into()),
            Failure::Other(code, detail) => (code.saturating_add(OTHER), detail),
        }
    }

    /// The failure for a code and a detail; `None` for code 0, no failure.
    #[must_use]
    pub fn from_parts(code: u32, detail: u64) -> Option<Failure> {
        match (code, u32::try_from(detail)) {
            (0, _) => None,
            (1, _) => Some(Failure::DamagedPiece(detail)),
            (2, Ok(status)) if u16::try_from(status).is_ok() => {
                Some(Failure::Device(u16::try_from(status).unwrap_or_default()))
            }
            (3, Ok(ms)) => Some(Failure::TimedOut(ms)),
            (4, Ok(tag)) => Some(Failure::State(tag)),
            (5, Ok(ms)) => Some(Failure::Reset(ms)),
            _ => Some(Failure::Other(code.saturating_sub(OTHER), detail)),
        }
    }
}

/// The first of the firmware's own codes.
const OTHER: u32 = 0x100;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::DamagedPiece(piece) => write!(f, "piece {piece} of the image was damaged"),
            Failure::Device(status) => write!(f, "the device reported status {status:#x}"),
            Failure::TimedOut(ms) => write!(f, "the device did not answer within {ms} ms"),
            Failure::State(tag) => write!(f, "section {tag:#x} of the machine's state was refused"),
            Failure::Reset(ms) => write!(f, "the OS was reset within {ms} ms of it"),
            Failure::Other(code, detail) => write!(f, "failure {code}, detail {detail:#x}"),
        }
    }
}
