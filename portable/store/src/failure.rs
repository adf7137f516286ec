use core::fmt;

/// Why a wake failed after it could not be called off any more, as kept in the
/// slot's record, so that the power-ons that follow can still name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// This piece of page data did not fit its digest.
    DamagedPiece(u64),
    /// The device reported this status.
    Device(u16),
    /// The device did not answer within so many ms.
    TimedOut(u32),
    /// The machine's state could not be put back; the record with this tag was
    /// the first that could not.
    State(u32),
    /// The machine was reset within so many ms of the wake.
    Reset(u32),
    /// Anything else: a code and a detail of the firmware's own.
    Other(u32, u64),
}

impl Failure {
    /// The code, 1 or more, and detail that stand for it on the medium.
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

    /// What a code and a detail stand for; `None` for code 0, no failure.
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

/// Codes from here on are the firmware's own.
const OTHER: u32 = 0x100;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::DamagedPiece(piece) => write!(f, "piece {piece} of the image was damaged"),
            Failure::Device(status) => write!(f, "the device reported status {status:#x}"),
            Failure::TimedOut(ms) => write!(f, "the device did not answer within {ms} ms"),
            Failure::State(tag) => write!(f, "record {tag:#x} of the machine's state was refused"),
            Failure::Reset(ms) => write!(f, "the OS was reset within {ms} ms of it"),
            Failure::Other(code, detail) => write!(f, "failure {code}, detail {detail:#x}"),
        }
    }
}
