//! Measured machines of chosen times, for tests.

use super::machine::{Load, Subject};
use super::traced::{Cut, Measured, Phase};

/// A machine whose Stop takes that many nanoseconds, of which 100,000 are 200 device accesses, and 5,000
/// pass until the row buffers are empty.
pub(crate) fn measured(harts: u32, load: Load, functions: u32, stop_ns: u64) -> Measured {
    let phase = |ns: u64| Phase {
        instructions: ns / 4,
        cycles: ns * 2 / 5,
        time_ns: ns - 5000,
        settled_ns: ns,
        reads: 900,
        writes: 500,
    };
    let cut = Cut {
        stop: phase(stop_ns - 100_000),
        go: phase(20_000_000),
        accesses: 200,
        access_ns: 500,
        ticks: 1000,
        after_ticks: 750,
    };
    Measured {
        subject: Subject {
            harts,
            load,
            functions,
        },
        cuts: vec![cut, cut],
    }
}
