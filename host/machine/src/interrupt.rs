//! Ctrl-C, SIGTERM and SIGHUP as a flag that every wait and every long copy
//! looks at. The work then returns [`Interrupted`] like any other error, so that
//! the usual clean-up (QEMU ended, temporary files removed) is the only one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use thiserror::Error;

static FLAG: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// The user asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("interrupted")]
pub struct Interrupted;

/// Exit status of a command that the user interrupted (128 + SIGINT).
pub const EXIT_INTERRUPTED: u8 = 130;

/// Turns SIGINT, SIGTERM and SIGHUP into the flag. A second one ends the
/// process at once: QEMU ends with it, temporary files may stay.
///
/// # Errors
///
/// The operating system's, if a handler cannot be set.
pub fn install() -> std::io::Result<()> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_conditional_shutdown(
            signal,
            i32::from(EXIT_INTERRUPTED),
            Arc::clone(&FLAG),
        )?;
        signal_hook::flag::register(signal, Arc::clone(&FLAG))?;
    }
    Ok(())
}

/// Whether the user asked to stop.
#[must_use]
pub fn requested() -> bool {
    FLAG.load(Ordering::Relaxed)
}

/// To be called inside of long work.
///
/// # Errors
///
/// [`Interrupted`] once the user asked to stop.
pub fn check() -> Result<(), Interrupted> {
    if requested() {
        Err(Interrupted)
    } else {
        Ok(())
    }
}
