//! Tests of machines outside of the plan, each a program of its own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow};
use poorwill_machine::console::Line;
use poorwill_machine::{Qemu, RunningMachine, interrupt};

use crate::Setup;

/// Runs the test with this name: `run` gets QEMU, the firmware and the `guest`. Without them the
/// test is ignored, or fails if `POORWILL_STRICT` is 1.
///
/// # Errors
///
/// What is missing, or the error of `run`.
pub fn suite(
    name: &str,
    guest: fn(&Setup) -> &Result<PathBuf, String>,
    run: impl FnOnce(&Qemu, &Path, &Path) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    // cargo asks each test for its list.
    if std::env::args().any(|word| word == "--list") {
        println!("{name}: test");
        return Ok(());
    }
    interrupt::install()?;
    let setup = Setup::find();
    let found = (|| {
        let text = |what: &String| anyhow!("{what}");
        let qemu = setup.qemu.as_ref().map_err(text)?;
        let firmware = setup.firmware.as_ref().map_err(text)?;
        Ok::<_, anyhow::Error>((qemu, firmware, guest(&setup).as_ref().map_err(text)?))
    })();
    match found {
        Ok((qemu, firmware, guest)) => run(qemu, firmware, guest)?,
        Err(error) if std::env::var("POORWILL_STRICT").is_ok_and(|set| set == "1") => {
            return Err(error);
        }
        Err(error) => {
            println!("test {name} ... ignored ({error:#})");
            return Ok(());
        }
    }
    println!("test {name} ... ok");
    Ok(())
}

/// Whether the program's arguments name this row by a part of its name, or name none.
#[must_use]
pub fn is_chosen(row: &str) -> bool {
    let words = std::env::args().skip(1);
    let mut words = words.filter(|word| !word.starts_with('-')).peekable();
    words.peek().is_none() || words.any(|word| row.contains(&word))
}

/// The number in an environment variable; `None`: it is not set.
///
/// # Errors
///
/// The text is no number.
pub fn number(variable: &str) -> anyhow::Result<Option<usize>> {
    let text = std::env::var(variable).ok();
    let number = text.map(|text| text.parse());
    (number.transpose()).with_context(|| format!("{variable} is no number"))
}

/// Waits for a console line.
///
/// # Errors
///
/// It does not come; with the console's end.
pub fn wait_for(running: &mut RunningMachine, text: &str, limit: Duration) -> anyhow::Result<Line> {
    let line = running.wait_for(text, limit);
    line.with_context(|| running.tail(40).join("\n"))
}
