//! What harts share, explored: every interleaving of a few harts' steps, and every
//! value that memory ordering lets a load find (loom, after C11's model; RVWMO allows
//! less). The modules are compiled here a second time, over loom's atomics, and once
//! more each with one ordering weakened: these explorations must fail.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::duplicate_mod,
    reason = "the modules are a library's, and not every step is explored in every variant"
)]

mod ask;
mod domains;
mod gathering;
mod hsm;
mod job_gate;
mod mailbox;
mod stack_lock;

/// The modules over loom's atomics, with orderings as they are but for those named. `Fence` names
/// the fence that is left out.
macro_rules! variant {
    ($name:ident, $($weak:ident)?) => {
        #[path = "."]
        mod $name {
            pub(crate) mod sync {
                pub(crate) use loom::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

                pub(crate) fn fence(ordering: loom::sync::atomic::Ordering) {
                    $crate::fenced!(ordering $($weak)?);
                }

                /// Stands where the atomics' own enum does.
                #[allow(non_snake_case, non_upper_case_globals)]
                pub(crate) mod Ordering {
                    use loom::sync::atomic::Ordering;

                    pub(crate) const Relaxed: Ordering = Ordering::Relaxed;
                    pub(crate) const Acquire: Ordering = $crate::weakened!(Acquire $($weak)?);
                    pub(crate) const Release: Ordering = $crate::weakened!(Release $($weak)?);
                    pub(crate) const AcqRel: Ordering = $crate::weakened!(AcqRel $($weak)?);
                    pub(crate) const SeqCst: Ordering = Ordering::SeqCst;
                }
            }
            #[path = "../../src/ask.rs"]
            pub(crate) mod ask;
            #[path = "../../../../portable/sleep/src/domain_state.rs"]
            pub(crate) mod domain_state;
            #[path = "../../src/gathering.rs"]
            pub(crate) mod gathering;
            #[path = "../../src/hsm.rs"]
            pub(crate) mod hsm;
            #[path = "../../src/job_gate.rs"]
            pub(crate) mod job_gate;
            #[path = "../../src/mailbox.rs"]
            pub(crate) mod mailbox;
            #[path = "../../../../portable/sleep/src/set.rs"]
            pub(crate) mod set;
            #[path = "../../src/stack_lock.rs"]
            pub(crate) mod stack_lock;
        }
    };
}

/// The ordering, or what it is in a variant without Acquire or without Release.
macro_rules! weakened {
    (Acquire Acquire) => {
        Ordering::Relaxed
    };
    (Release Release) => {
        Ordering::Relaxed
    };
    (AcqRel Acquire) => {
        Ordering::Release
    };
    (AcqRel Release) => {
        Ordering::Acquire
    };
    ($ordering:ident $($weak:ident)?) => {
        Ordering::$ordering
    };
}
/// The fence, which one variant lacks.
macro_rules! fenced {
    ($ordering:ident Fence) => {
        let _ = $ordering;
    };
    ($ordering:ident $($weak:ident)?) => {
        loom::sync::atomic::fence($ordering)
    };
}
use {fenced, weakened};

variant!(whole,);
variant!(without_acquire, Acquire);
variant!(without_release, Release);
variant!(without_fence, Fence);
