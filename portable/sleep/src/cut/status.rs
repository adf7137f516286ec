use core::fmt::{self, Display};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::text::{ReportText, text_of};

/// A prediction whether a power failure leads to a cut. `E` is the reason against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutStatus<E> {
    /// It leads to a cut, unless a device that is in use then refuses.
    Armed {
        /// Microseconds for which the power lasts.
        hold_up_us: u32,
        /// Microseconds that Stop takes if no device is in use, as predicted or last measured.
        stop_us: u64,
        /// Number of disks that would refuse while they are in use, because they are too slow.
        slow_disks: usize,
    },
    /// It leads to no cut: the firmware ignores the line.
    NotArmed(E),
}

impl<E: Display> Display for CutStatus<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CutStatus::Armed {
                hold_up_us,
                stop_us,
                slow_disks,
            } => {
                write!(f, "armed hold_up_us={hold_up_us} stop_us={stop_us}")?;
                match slow_disks {
                    0 => Ok(()),
                    _ => write!(f, " slow_disks={slow_disks}"),
                }
            }
            CutStatus::NotArmed(reason) => write!(f, "not armed: {reason}"),
        }
    }
}

/// The status that the firmware told the OS, and its address (`/chosen/poorwill,cut`). An image and
/// a record keep it in this form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ToldStatus {
    /// Physical address of the text.
    address: u64,
    /// The text that the firmware wrote there.
    text: ReportText,
}

impl ToldStatus {
    /// The placeholder until the status is known.
    pub const NOTHING: ReportText = [0; size_of::<ReportText>()];

    /// The [placeholder](Self::NOTHING) at this address.
    #[must_use]
    pub const fn at(address: u64) -> Self {
        ToldStatus {
            address,
            text: Self::NOTHING,
        }
    }

    /// Physical address of the text.
    #[must_use]
    pub const fn address(&self) -> u64 {
        self.address
    }

    /// The next text for the address, at which `found` lies now. `None` if `found` is not the last
    /// text: the OS may have moved its tree.
    #[must_use]
    pub fn succeed(&self, found: &ReportText, status: &impl Display) -> Option<(Self, ReportText)> {
        let text = text_of(status);
        let next = ToldStatus { text, ..*self };
        (*found == self.text).then_some((next, text))
    }

    /// Owner and version of its section of a machine's state.
    pub const SECTION: (u32, u16) = (u32::from_le_bytes(*b"CUTS"), 1);
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;
    use crate::cut::CutReason;

    #[test]
    fn a_text_succeeds_where_the_last_one_still_lies() {
        let told = ToldStatus::at(0x8020_0000);
        let armed = |slow_disks| CutStatus::<CutReason>::Armed {
            hold_up_us: 16_000,
            stop_us: 900,
            slow_disks,
        };
        assert_eq!(
            armed(2).to_string(),
            "armed hold_up_us=16000 stop_us=900 slow_disks=2"
        );
        let armed = armed(0);
        let (next, text) = told.succeed(&ToldStatus::NOTHING, &armed).unwrap();
        assert!(text.starts_with(b"armed hold_up_us=16000 stop_us=900\0"));
        assert_eq!(next.address(), told.address());
        assert_eq!(told.succeed(&text, &armed), None);
        let reason = CutStatus::NotArmed(CutReason::NoRoom(70_000));
        let (_, text) = next.succeed(&text, &reason).unwrap();
        assert!(text.starts_with(b"not armed: cut record: 70000 bytes do not fit\0"));
    }
}
