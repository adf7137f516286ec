//! The facts about a machine that a failed trial shows.

use poorwill_machine::{Console, Machine, Qemu, RunningMachine};

/// Console lines that a failed trial shows.
const TAIL: usize = 40;

/// The console's last lines, and the command that starts the same machine by hand.
pub(crate) fn evidence(running: &RunningMachine, machine: &Machine, qemu: &Qemu) -> String {
    format!(
        "the console's last lines:\n    {}\nQEMU:\n    {}",
        running.tail(TAIL).join("\n    "),
        reproduce(machine, qemu)
    )
}

/// A command line for a shell that starts the same machine.
fn reproduce(machine: &Machine, qemu: &Qemu) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:+".contains(c);
    let program = qemu.program.clone().into_os_string();
    let words = std::iter::once(program).chain(machine.arguments(Console::Terminal));
    let quoted = words.map(|word| {
        let word = word.to_string_lossy().into_owned();
        if word.chars().all(plain) {
            word
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}
