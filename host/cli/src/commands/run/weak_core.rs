//! Refuses arguments that allow no weak core.

use clap::error::ErrorKind;
use clap::{Args, Command};
use poorwill_devicetree::MAX_LENT;
use poorwill_machine::Interrupts;

use super::{Run, executor};

impl Run {
    /// Checks that the other arguments allow the weak core, if there is to be one.
    ///
    /// # Errors
    ///
    /// Wrong usage: the first argument that does not, with the reason.
    pub(super) fn check_weak_core(&self) -> Result<(), clap::Error> {
        if !self.weak_core {
            return Ok(());
        }
        let is_crowded = usize::try_from(self.harts).map_or(true, |harts| harts > MAX_LENT);
        let (argument, reason) = if self.interrupts == Some(Interrupts::Aia) {
            ("--interrupts aia", "the executor needs a PLIC".to_owned())
        } else if is_crowded {
            let reason = format!("it runs at most {MAX_LENT} harts of an OS");
            ("--harts", reason)
        } else if executor::trees(&self.qemu_arguments).next().is_some() {
            let reason = "the option makes a tree; one of your own may ask for an executor";
            ("-dtb", reason.to_owned())
        } else {
            return Ok(());
        };
        let text = format!("{argument} cannot be used with --weak-core: {reason}");
        Err(Run::augment_args(Command::new("poorwill run"))
            .error(ErrorKind::ArgumentConflict, text))
    }
}
