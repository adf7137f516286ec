//! Ctrl-C, SIGTERM and SIGHUP as a flag, which all waits and long copies check. They then return
//! [`Interrupted`] like another error, so that the usual clean-up runs: QEMU is ended, and
//! temporary files are removed.

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

/// Makes SIGINT, SIGTERM and SIGHUP set the flag. A second signal ends the process at once: QEMU
/// ends with it, and temporary files may stay.
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

/// Fails once the user has asked to stop; for use inside of long work.
pub fn check() -> Result<(), Interrupted> {
    if requested() {
        Err(Interrupted)
    } else {
        Ok(())
    }
}
