//! Refuses arguments that allow no weak core.

use std::ffi::OsString;

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
        } else if let Some(setting) = pmp_off(&self.qemu_arguments) {
            (
                setting,
                "the executor confines translated code by PMP".to_owned(),
            )
        } else {
            return Ok(());
        };
        let text = format!("{argument} cannot be used with --weak-core: {reason}");
        Err(Run::augment_args(Command::new("poorwill run"))
            .error(ErrorKind::ArgumentConflict, text))
    }
}

/// QEMU's values of a property that is off.
const OFF: [&str; 4] = ["off", "no", "false", "n"];

/// The argument for QEMU that switches the harts' PMP off, if one does.
fn pmp_off(arguments: &[OsString]) -> Option<&str> {
    let texts: Vec<&str> = (arguments.iter())
        .map(|argument| argument.to_str().unwrap_or_default())
        .collect();
    let after = |names: [&str; 2]| {
        let pairs = texts.windows(2).filter(|pair| names.contains(&pair[0]));
        pairs.map(|pair| pair[1]).collect::<Vec<_>>()
    };
    let is_off = |value: &&str| OFF.contains(value);
    // The last model and its last setting count.
    let of_model = after(["-cpu", "--cpu"]).pop().filter(|model| {
        let mut settings = model
            .rsplit(',')
            .filter_map(|word| word.strip_prefix("pmp="));
        settings.next().as_ref().is_some_and(is_off)
    });
    let of_all = after(["-global", "--global"]).into_iter().find(|setting| {
        let short = setting.split_once(".pmp=").map(|(_, value)| value);
        let value = setting
            .split(',')
            .find_map(|word| word.strip_prefix("value="));
        let long = value.filter(|_| setting.split(',').any(|word| word == "property=pmp"));
        short.or(long).as_ref().is_some_and(is_off)
    });
    of_model.or(of_all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_pmp_is_found_by_its_arguments() {
        let find = |words: &str| {
            let arguments: Vec<OsString> = words.split(' ').map(Into::into).collect();
            pmp_off(&arguments).map(str::to_owned)
        };
        for (words, found) in [
            ("-cpu rv64,pmp=off", "rv64,pmp=off"),
            ("-m 1G --cpu max,pmp=false,v=off", "max,pmp=false,v=off"),
            ("-cpu rv64 -cpu rv64,pmp=on,pmp=no", "rv64,pmp=on,pmp=no"),
            ("-global rv64-riscv-cpu.pmp=off", "rv64-riscv-cpu.pmp=off"),
            (
                "-global driver=rv64-riscv-cpu,property=pmp,value=off",
                "driver=rv64-riscv-cpu,property=pmp,value=off",
            ),
        ] {
            assert_eq!(find(words).as_deref(), Some(found));
        }
        for words in [
            "-cpu rv64,pmp=on",
            "-cpu rv64,pmp=off -cpu rv64",
            "-cpu rv64,epmp=off",
            "-cpu",
            "-name pmp=off",
            "-global rv64-riscv-cpu.pmp=on",
        ] {
            assert_eq!(find(words), None, "{words}");
        }
    }
}
