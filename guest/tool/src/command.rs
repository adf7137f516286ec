use poorwill_store::{Configuration, Delay, DelayError, Name, NotAName, SleepMode, UnknownMode};
use thiserror::Error;

use crate::duration::{DurationError, Milliseconds};

/// The text of `help`.
pub(crate) const HELP: &str = "\
Shows and sets how this machine sleeps. A change applies from the next sleep on.

  poorwill-guest status               the sleep mode, and the last sleeps
  poorwill-guest status --for FIRMWARE  before an update: which images that firmware
                                      file would still wake
  poorwill-guest log                  the firmware's last lines, also those before this
                                      wake or before a panic
  poorwill-guest check                which devices would lose their state in a sleep without
                                      power, because their drivers have no suspend
  poorwill-guest cut check            whether a power failure now would be a cut, and the
                                      obstacles if not
  poorwill-guest mode MODE            set the sleep mode:
      persist   save memory to the disk and power off
      retain    keep memory powered
      staged    retain, and persist after the stage delay without waking the OS
      auto      as staged, but at the break-even (or else the stage delay)
      cut       keep everything in persistent memory, and power off; without such
                memory, persist. The default of a machine
  poorwill-guest delay DURATION       set the stage delay, such as 90s, 30min, 2h
  poorwill-guest break-even DURATION  set the length from which a sleep costs less energy
                                      persisted; `none` for the stage delay
  poorwill-guest snapshot [--unguarded] [NAME]
                                      sleep now, and keep the image: the machine wakes
                                      here at every power-on. Its disks must be mounted
                                      read-only, or be covered by an overlay in memory.
                                      --unguarded: accept partitions that may change
                                      without a wake noticing (LVM, LUKS, FAT, swap, ...)
  poorwill-guest well                 report that the snapshot woke well
  poorwill-guest help                 this text

All commands except help need root.
Exit status: 0 done, 1 failed or obstacles found, 2 wrong usage.
";

/// A parsed command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command<'w> {
    Help,
    Status,
    Log,
    /// Show which devices lose their state in a sleep.
    Check,
    /// Show what prevents a cut.
    CheckCut,
    /// Show which images the firmware in the given file would wake.
    Foretell(&'w str),
    Set(Setting),
    /// Sleep, and keep the image as the machine's snapshot.
    Snapshot {
        name: Name,
        /// Accept partitions that the firmware cannot guard.
        unguarded: bool,
    },
    /// Record that the machine is well after a snapshot's wake.
    Well,
}

/// A change of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    Mode(SleepMode),
    /// In ms.
    StageDelay(u64),
    /// In ms; 0: not set.
    BreakEven(u64),
}

/// Why a command line is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum UsageError<'w> {
    #[error(
        "a command is missing: status, log, check, cut, mode, delay, break-even, snapshot, well or help"
    )]
    NoCommand,
    #[error("there is no command {0:?}")]
    UnknownCommand(&'w str),
    #[error("{0} needs {1}")]
    Incomplete(&'w str, &'static str),
    #[error("{0} does not take {1:?}")]
    TooMuch(&'w str, &'w str),
    #[error("{0:?} is {1}")]
    Mode(&'w str, UnknownMode),
    #[error("{0:?} is {1}")]
    Duration(&'w str, DurationError),
    #[error("{0:?} is {1}")]
    Name(&'w str, NotAName),
    #[error(transparent)]
    Delay(#[from] DelayError),
}

impl<'w> Command<'w> {
    /// Parses the arguments after the program's name.
    pub(crate) fn parse(words: &[&'w str]) -> Result<Command<'w>, UsageError<'w>> {
        let (name, rest) = words.split_first().ok_or(UsageError::NoCommand)?;
        match (*name, rest) {
            ("help" | "--help" | "-h", []) => Ok(Command::Help),
            ("status", []) => Ok(Command::Status),
            ("log", []) => Ok(Command::Log),
            ("check", []) => Ok(Command::Check),
            ("cut", ["check"]) => Ok(Command::CheckCut),
            ("cut", []) => Err(UsageError::Incomplete(name, "`check`")),
            ("cut", ["check", more, ..] | [more, ..]) => Err(UsageError::TooMuch(name, more)),
            ("status", ["--for", file]) => Ok(Command::Foretell(file)),
            ("status", ["--for"]) => Err(UsageError::Incomplete("--for", "a firmware's file")),
            ("status", ["--for", _, more, ..]) => Err(UsageError::TooMuch(name, more)),
            ("mode", [mode]) => match mode.parse() {
                Ok(mode) => Ok(Command::Set(Setting::Mode(mode))),
                Err(error) => Err(UsageError::Mode(mode, error)),
            },
            ("delay", [text]) => {
                let ms = milliseconds(text, Delay::Stage)?;
                Ok(Command::Set(Setting::StageDelay(ms)))
            }
            ("break-even", ["none"]) => Ok(Command::Set(Setting::BreakEven(0))),
            ("break-even", [text]) => {
                let ms = milliseconds(text, Delay::BreakEven)?;
                Ok(Command::Set(Setting::BreakEven(ms)))
            }
            ("snapshot", ["--unguarded", rest @ ..]) => snapshot(rest, true),
            ("snapshot", rest) => snapshot(rest, false),
            ("well", []) => Ok(Command::Well),
            ("mode", []) => Err(UsageError::Incomplete(name, "a sleep mode")),
            ("delay" | "break-even", []) => Err(UsageError::Incomplete(name, "a duration")),
            ("mode" | "delay" | "break-even", [_, more, ..])
            | ("help" | "--help" | "-h" | "status" | "log" | "check" | "well", [more, ..]) => {
                Err(UsageError::TooMuch(name, more))
            }
            _ => Err(UsageError::UnknownCommand(name)),
        }
    }
}

/// Parses `words`, the arguments after `snapshot` without its option.
fn snapshot<'w>(words: &[&'w str], unguarded: bool) -> Result<Command<'w>, UsageError<'w>> {
    let name = match *words {
        [] => Ok(Name::NONE),
        [name] => name.parse().map_err(|error| UsageError::Name(name, error)),
        [_, more, ..] => Err(UsageError::TooMuch("snapshot", more)),
    };
    name.map(|name| Command::Snapshot { name, unguarded })
}

fn milliseconds(text: &str, delay: Delay) -> Result<u64, UsageError<'_>> {
    let Milliseconds(ms) = text
        .parse()
        .map_err(|error| UsageError::Duration(text, error))?;
    if ms == 0 || !delay.bounds_ms().contains(&ms) {
        return Err(DelayError { delay, ms }.into());
    }
    Ok(ms)
}

impl Setting {
    /// `old` with this setting changed.
    pub(crate) fn applied_to(self, old: Configuration) -> Configuration {
        match self {
            Setting::Mode(mode) => Configuration {
                mode: Some(mode),
                ..old
            },
            Setting::StageDelay(stage_delay_ms) => Configuration {
                stage_delay_ms,
                ..old
            },
            Setting::BreakEven(break_even_ms) => Configuration {
                break_even_ms,
                ..old
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    #[test]
    fn commands_are_understood() {
        let set = |setting| Ok(Command::Set(setting));
        let kiosk = "kiosk 1".parse().unwrap();
        let snapshot = |name, unguarded| Ok(Command::Snapshot { name, unguarded });
        let cases: [(&[&str], _); 17] = [
            (&["check"], Ok(Command::Check)),
            (&["help"], Ok(Command::Help)),
            (&["--help"], Ok(Command::Help)),
            (&["status"], Ok(Command::Status)),
            (
                &["status", "--for", "a.elf"],
                Ok(Command::Foretell("a.elf")),
            ),
            (&["mode", "auto"], set(Setting::Mode(SleepMode::Auto))),
            (&["mode", "retain"], set(Setting::Mode(SleepMode::Retain))),
            (&["delay", "90s"], set(Setting::StageDelay(90_000))),
            (&["delay", "30d"], set(Setting::StageDelay(2_592_000_000))),
            (&["break-even", "1ms"], set(Setting::BreakEven(1))),
            (&["break-even", "none"], set(Setting::BreakEven(0))),
            (&["snapshot"], snapshot(Name::NONE, false)),
            (&["snapshot", "kiosk 1"], snapshot(kiosk, false)),
            (&["snapshot", "--unguarded"], snapshot(Name::NONE, true)),
            (
                &["snapshot", "--unguarded", "kiosk 1"],
                snapshot(kiosk, true),
            ),
            (&["well"], Ok(Command::Well)),
            (&["cut", "check"], Ok(Command::CheckCut)),
        ];
        for (words, command) in cases {
            assert_eq!(Command::parse(words), command, "{words:?}");
        }
    }

    #[test]
    fn everything_else_is_refused_with_its_reason() {
        let cases: [(&[&str], &str); 22] = [
            (&["check", "a"], "check does not take \"a\""),
            (&[], "a command is missing"),
            (&["sleep"], "there is no command \"sleep\""),
            (&["Status"], "there is no command"),
            (&["status", "now"], "status does not take \"now\""),
            (&["status", "--for"], "--for needs a firmware's file"),
            (&["status", "--for", "a", "b"], "status does not take \"b\""),
            (&["help", "me"], "does not take"),
            (&["mode"], "mode needs a sleep mode"),
            (
                &["mode", "mem"],
                "\"mem\" is not a sleep mode: there are persist, retain",
            ),
            (&["mode", "auto", "30min"], "mode does not take \"30min\""),
            (&["delay"], "delay needs a duration"),
            (&["delay", "soon"], "\"soon\" is not a duration"),
            (&["delay", "none"], "not a duration"),
            (
                &["delay", "31d"],
                "a stage delay of 2678400000 ms is out of range: set 1 ms to 30 days",
            ),
            (
                &["break-even", "0s"],
                "a break-even of 0 ms is out of range",
            ),
            (&["snapshot", " a"], "\" a\" is not a name: up to 32"),
            (&["snapshot", "a", "b"], "snapshot does not take \"b\""),
            (&["cut"], "cut needs `check`"),
            (&["cut", "now"], "cut does not take \"now\""),
            (&["cut", "check", "a"], "cut does not take \"a\""),
            (&["well", "a"], "well does not take \"a\""),
        ];
        for (words, reason) in cases {
            let error = Command::parse(words).unwrap_err().to_string();
            assert!(error.contains(reason), "{words:?}: {error}");
        }
    }

    #[test]
    fn a_setting_changes_what_it_names() {
        let old = Configuration {
            mode: Some(SleepMode::Staged),
            stage_delay_ms: 1,
            break_even_ms: 2,
            ..Configuration::default()
        };
        let mode = SleepMode::Auto;
        let changed = [
            Setting::Mode(mode).applied_to(old),
            Setting::StageDelay(7).applied_to(old),
            Setting::BreakEven(7).applied_to(old),
        ];
        let wanted = [
            Configuration {
                mode: Some(mode),
                ..old
            },
            Configuration {
                stage_delay_ms: 7,
                ..old
            },
            Configuration {
                break_even_ms: 7,
                ..old
            },
        ];
        assert_eq!(changed, wanted);
    }

    #[test]
    fn help_names_every_mode_and_command() {
        let names = SleepMode::ALL.map(SleepMode::name);
        for word in names.iter().chain(&[
            "status",
            "cut check",
            "mode",
            "delay",
            "break-even",
            "snapshot",
            "well",
            "help",
        ]) {
            assert!(HELP.contains(word), "{word}");
        }
    }
}
