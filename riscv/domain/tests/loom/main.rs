//! Every interleaving of a domain's sleep with its own wake, the master's sleep of the machine, and
//! harts that start each other (loom). The modules are compiled here again with loom's atomics, and
//! once more for each ordering that is weakened: those explorations must fail.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::duplicate_mod,
    reason = "the module is a library's, and a variant does not use all of it"
)]

mod state;

/// The modules with loom's atomics, whose compare-exchange has this ordering, and whose fence is
/// this one.
macro_rules! variant {
    ($name:ident, $ordering:ident, $fence:expr) => {
        #[path = "."]
        mod $name {
            pub(crate) mod sync {
                pub(crate) use loom::sync::atomic::{AtomicU8, AtomicU64};

                pub(crate) fn fence(ordering: loom::sync::atomic::Ordering) {
                    ($fence)(ordering)
                }

                /// Stands for the atomics' own enum.
                #[allow(non_snake_case, non_upper_case_globals)]
                pub(crate) mod Ordering {
                    use loom::sync::atomic::Ordering;

                    pub(crate) const Relaxed: Ordering = Ordering::Relaxed;
                    pub(crate) const Acquire: Ordering = Ordering::Acquire;
                    pub(crate) const Release: Ordering = Ordering::Release;
                    pub(crate) const AcqRel: Ordering = Ordering::$ordering;
                    pub(crate) const SeqCst: Ordering = Ordering::SeqCst;
                }
            }
            #[path = "../../../hart/src/hsm.rs"]
            pub(crate) mod hsm;
            #[path = "../../src/state.rs"]
            pub(crate) mod state;
        }
    };
}

variant!(whole, AcqRel, loom::sync::atomic::fence);
variant!(without_acquire, Release, loom::sync::atomic::fence);
variant!(without_release, Acquire, loom::sync::atomic::fence);
variant!(without_fence, AcqRel, |_| {});
