use poorwill_medium::nvme::ShutdownFacts;
use poorwill_medium::nvme::register::{CC_SHN_ABRUPT, CC_SHN_NORMAL};

/// The kind of shutdown notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shutdown {
    /// The controller writes all acknowledged data. The keeper waits for it.
    Normal,
    /// The controller finishes at once, and loses a volatile cache.
    Abrupt,
}

impl Shutdown {
    /// The shutdown that fits the remaining microseconds; `None`: no kind preserves all
    /// acknowledged data in time. A controller with unknown facts, or without a reported
    /// duration, gets a normal shutdown. Stop then sees whether it ended in time.
    pub(super) fn within(left_us: u64, facts: Option<ShutdownFacts>) -> Option<Self> {
        match facts {
            Some(facts) if u64::from(facts.normal_us) > left_us => {
                (!facts.has_cache).then_some(Shutdown::Abrupt)
            }
            _ => Some(Shutdown::Normal),
        }
    }

    /// The value of CC.SHN.
    pub(super) fn notification(self) -> u32 {
        match self {
            Shutdown::Normal => CC_SHN_NORMAL,
            Shutdown::Abrupt => CC_SHN_ABRUPT,
        }
    }
}

/// Whether a controller with these facts can be shut down within `left_us` microseconds
/// without losing acknowledged data. True if its duration is not reported.
#[must_use]
pub fn shuts_down_within(left_us: u64, facts: ShutdownFacts) -> bool {
    Shutdown::within(left_us, Some(facts)).is_some()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_shutdown_that_is_not_known_to_be_too_long_is_normal() {
        assert_eq!(Shutdown::within(0, None), Some(Shutdown::Normal));
        for has_cache in [false, true] {
            let facts = |normal_us| {
                Some(ShutdownFacts {
                    normal_us,
                    has_cache,
                })
            };
            assert_eq!(Shutdown::within(0, facts(0)), Some(Shutdown::Normal));
            assert_eq!(Shutdown::within(9, facts(9)), Some(Shutdown::Normal));
            let abrupt = (!has_cache).then_some(Shutdown::Abrupt);
            assert_eq!(Shutdown::within(8, facts(9)), abrupt);
        }
    }

    proptest! {
        /// What a cache holds is never lost, and nothing is waited for that is too long.
        #[test]
        fn a_cache_is_written_or_the_cut_refused(
            left_us in 0..20_000_u64,
            normal_us in 0..40_000_u32,
            has_cache: bool,
        ) {
            let facts = ShutdownFacts { normal_us, has_cache };
            match Shutdown::within(left_us, Some(facts)) {
                Some(Shutdown::Normal) => prop_assert!(u64::from(normal_us) <= left_us),
                Some(Shutdown::Abrupt) => prop_assert!(!has_cache),
                None => prop_assert!(has_cache && u64::from(normal_us) > left_us),
            }
        }
    }
}
