use poorwill_medium::nvme::ShutdownFacts;
use poorwill_medium::nvme::register::{CC_SHN_ABRUPT, CC_SHN_NORMAL};

/// How a controller is told that its power goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shutdown {
    /// It writes all that it has acknowledged, and is waited for.
    Normal,
    /// It finishes at once. What is in a volatile cache is lost.
    Abrupt,
}

impl Shutdown {
    /// How to shut a controller down in the microseconds that are left; `None`: nothing that
    /// fits keeps what it has acknowledged. One of which nothing is known, or that does not
    /// say how long it takes, is told in the normal way: whether it was done in time is seen
    /// then.
    pub(super) fn within(left_us: u64, facts: Option<ShutdownFacts>) -> Option<Self> {
        match facts {
            Some(facts) if u64::from(facts.normal_us) > left_us => {
                (!facts.has_cache).then_some(Shutdown::Abrupt)
            }
            _ => Some(Shutdown::Normal),
        }
    }

    /// As the configuration register has it (CC.SHN).
    pub(super) fn notification(self) -> u32 {
        match self {
            Shutdown::Normal => CC_SHN_NORMAL,
            Shutdown::Abrupt => CC_SHN_ABRUPT,
        }
    }
}

/// Whether a controller that says this of its shutdown can be shut down within so many
/// microseconds, and keeps what it has acknowledged; or does not say how long it takes.
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
