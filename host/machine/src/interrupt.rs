//! Ctrl-C, SIGTERM and SIGHUP set a flag, which all waits and long copies check. They return the
//! error [`Interrupted`], so that the usual clean-up runs: QEMU is ended, and temporary files are
//! removed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use thiserror::Error;

static FLAG: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// The user asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("interrupted")]
pub struct Interrupted;

/// Exit status of an interrupted command (128 + SIGINT).
pub const EXIT_INTERRUPTED: u8 = 130;

/// Installs handlers that set the flag on SIGINT, SIGTERM and SIGHUP. A second signal ends the
/// process and QEMU at once; temporary files may stay.
///
/// # Errors
///
/// The system refuses a handler.
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

/// Returns an error if the user asked to stop. Long work calls it between steps.
///
/// # Errors
///
/// [`Interrupted`].
pub fn check() -> Result<(), Interrupted> {
    if requested() {
        Err(Interrupted)
    } else {
        Ok(())
    }
}
