//! The request to sleep, from the serial line.

use sbi_spec::binary::RET_ERR_DENIED;

/// The byte that asks for a sleep.
const SLEEP: u8 = b's';

/// A request to sleep. It stands until the guest has slept, or until another byte withdraws it.
/// So a byte that is meant to wake the machine is not lost if it comes before the sleep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SleepRequest {
    is_made: bool,
    said: isize,
}

impl SleepRequest {
    /// Takes a byte of the serial line: `s` asks for a sleep, any other byte withdraws the request.
    pub fn hear(&mut self, byte: u8) {
        *self = SleepRequest {
            is_made: byte == SLEEP,
            ..SleepRequest::default()
        };
    }

    /// The guest is to call SUSP at the end of this control period.
    #[must_use]
    pub fn is_made(&self) -> bool {
        self.is_made
    }

    /// Takes the error of a call of SUSP; returns whether to report it. DENIED means that other
    /// domains still run: the next control period calls again. Other errors are reported once.
    pub fn refused(&mut self, error: isize) -> bool {
        let is_new = self.said != error && error != RET_ERR_DENIED.cast_signed();
        self.said = error;
        is_new
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
    fn denials_are_silent_and_each_other_error_is_reported_once() {
        let mut request = SleepRequest::default();
        request.hear(b's');
        assert!(![-4, -4].map(|error| request.refused(error)).contains(&true));
        assert_eq!(
            [-1, -1, -4, -2].map(|error| request.refused(error)),
            [true, false, false, true]
        );
        assert!(request.is_made());
    }
}
