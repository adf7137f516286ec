//! Every interleaving of a parked domain's own wake and the master's sleep of the machine (loom).
//! The module is compiled here again with loom's atomics, and twice more with a weaker ordering:
//! those explorations must fail.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::duplicate_mod,
    reason = "the module is a library's, and a variant does not use all of it"
)]

mod state;

/// The module with loom's atomics, whose compare-exchange has this ordering.
macro_rules! variant {
    ($name:ident, $ordering:ident) => {
        #[path = "."]
        mod $name {
            pub(crate) mod sync {
                pub(crate) use loom::sync::atomic::AtomicU8;

                /// Stands for the atomics' own enum.
                #[allow(non_snake_case, non_upper_case_globals)]
                pub(crate) mod Ordering {
                    use loom::sync::atomic::Ordering;

                    pub(crate) const Acquire: Ordering = Ordering::Acquire;
                    pub(crate) const AcqRel: Ordering = Ordering::$ordering;
                }
            }
            #[path = "../../src/state.rs"]
            pub(crate) mod state;
        }
    };
}

variant!(whole, AcqRel);
variant!(without_acquire, Release);
variant!(without_release, Acquire);
