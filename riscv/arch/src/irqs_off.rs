//! Measures for tests how many instructions a hart runs in machine mode with its interrupts off,
//! and where that begins and ends. It needs a machine with one hart and a build with the feature
//! `irqs-off`; other builds record nothing.

use core::panic::Location;

/// The source location of a begin or an end.
pub type Place = &'static Location<'static>;

/// Begins a measurement, unless one has begun: the caller has interrupts off.
#[track_caller]
#[inline]
pub fn begin() {
    #[cfg(feature = "irqs-off")]
    kept::begin(Location::caller());
}

/// Ends the measurement if `mstatus` has interrupts on.
#[track_caller]
#[inline]
pub fn on() {
    #[cfg(feature = "irqs-off")]
    if crate::csr::read::<{ crate::csr::MSTATUS }>() & crate::csr::status::MIE != 0 {
        kept::end(Location::caller());
    }
}

/// Ends the measurement: the caller leaves machine mode, or polls the interrupts.
#[track_caller]
#[inline]
pub fn end() {
    #[cfg(feature = "irqs-off")]
    kept::end(Location::caller());
}

#[cfg(feature = "irqs-off")]
pub use kept::take;

#[cfg(feature = "irqs-off")]
mod kept {
    use core::cell::RefCell;

    use super::Place;
    use crate::csr;

    /// Maximum number of pairs of locations.
    const MOST: usize = 48;

    /// Begin, end, and the most instructions between them.
    type Marked = (Place, Place, u64);

    struct Kept {
        began: Option<(Place, u64)>,
        longest: [Option<Marked>; MOST],
    }

    struct OfOneHart(RefCell<Kept>);

    // SAFETY: such a build runs on machines of one hart, and machine mode's interrupt handler does
    // not use this.
    unsafe impl Sync for OfOneHart {}

    static KEPT: OfOneHart = OfOneHart(RefCell::new(Kept {
        began: None,
        longest: [None; MOST],
    }));

    pub(super) fn begin(place: Place) {
        let mut kept = KEPT.0.borrow_mut();
        let now = csr::read::<{ csr::MINSTRET }>();
        kept.began.get_or_insert((place, now));
    }

    pub(super) fn end(place: Place) {
        let now = csr::read::<{ csr::MINSTRET }>();
        let mut kept = KEPT.0.borrow_mut();
        let Some((from, began)) = kept.began.take() else {
            return;
        };
        let length = now - began;
        let same = |kept: &&mut Option<Marked>| match kept {
            Some((first, last, _)) => *first == from && *last == place,
            None => true,
        };
        let found = kept.longest.iter_mut().find(same);
        let found = found.expect("the table has room for each pair of locations");
        let most = found.map_or(0, |(.., most)| most);
        *found = Some((from, place, length.max(most)));
    }

    /// Returns all results and clears them.
    pub fn take() -> impl Iterator<Item = Marked> {
        let taken = core::mem::replace(&mut KEPT.0.borrow_mut().longest, [None; MOST]);
        taken.into_iter().flatten()
    }
}
