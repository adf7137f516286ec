//! The request to sleep, from the serial line.

use sbi_spec::binary::RET_ERR_DENIED;

/// The byte that asks for a sleep.
const SLEEP: u8 = b's';

/// A request to sleep. It stands until the guest has slept, until a call fails, or until another
/// byte withdraws it. So a byte that is meant to wake the machine is not lost if it comes before the
/// sleep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SleepRequest(bool);

impl SleepRequest {
    /// Takes a byte of the serial line: `s` asks for a sleep, any other byte withdraws the request.
    pub fn hear(&mut self, byte: u8) {
        self.0 = byte == SLEEP;
    }

    /// The guest is to call SUSP at the end of this control period.
    #[must_use]
    pub fn is_made(&self) -> bool {
        self.0
    }

    /// Takes the error of a call of SUSP; returns whether to report it. DENIED means that other
    /// domains still run: the next control period calls again. Another error withdraws the request,
    /// since a save that fails takes long and may fail again.
    pub fn refused(&mut self, error: isize) -> bool {
        self.0 &= error == RET_ERR_DENIED.cast_signed();
        !self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_byte_withdraws_the_request() {
        let mut request = SleepRequest::default();
        assert!(!request.is_made());
        request.hear(b's');
        assert!(request.is_made());
        request.hear(b'w');
        assert!(!request.is_made());
    }

    #[test]
    fn a_denied_request_stands_and_a_failed_one_is_withdrawn() {
        let mut request = SleepRequest::default();
        request.hear(b's');
        for _ in 0..2 {
            assert!(!request.refused(-4) && request.is_made());
        }
        for error in [-1, -2] {
            request.hear(b's');
            assert!(request.refused(error) && !request.is_made());
        }
    }
}
