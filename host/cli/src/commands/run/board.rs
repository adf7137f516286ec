//! Refuses arguments that need a part which the machine's board lacks.

use clap::error::ErrorKind;
use clap::{Args, Command};
use poorwill_machine::{Interrupts, Part};

use super::Run;

/// The tiny guest's words that need a part, with values that do not.
const WORDS: [(&str, &str, Part); 2] = [
    ("poorwill.mode=", "retain", Part::Image),
    ("poorwill.wake_s=", "0", Part::Clock),
];

impl Run {
    /// Checks that the board can serve each argument.
    ///
    /// # Errors
    ///
    /// Wrong usage: the first argument that it cannot serve, with the reason.
    pub(super) fn check_board(&self) -> Result<(), clap::Error> {
        let (board, name) = (self.machine, self.machine.name());
        let fail = |argument: &str, reason: &str| {
            let text = format!("{argument} cannot be used with --machine {name}: {reason}");
            Err(Run::augment_args(Command::new("poorwill run"))
                .error(ErrorKind::ArgumentConflict, text))
        };
        for (argument, part) in self.needs() {
            if let Some(reason) = board.lacks(part) {
                return fail(argument, reason);
            }
        }
        let most = board.most_harts();
        if self.harts > most {
            let reason = format!("it has at most {most} harts for an OS");
            return fail(&format!("--harts {}", self.harts), &reason);
        }
        Ok(())
    }

    /// The given arguments that need a part of the board.
    fn needs(&self) -> Vec<(&str, Part)> {
        let options = [
            (self.domains.is_some(), "--domains", Part::Domains),
            (self.disk.is_some(), "--disk", Part::Disks),
            (!self.extra_disk.is_empty(), "--extra-disk", Part::Disks),
            (self.flash.is_some(), "--flash", Part::Flash),
            (
                self.interrupts == Some(Interrupts::Aia),
                "--interrupts aia",
                Part::Aia,
            ),
            (self.power.cut, "--cut", Part::PowerSupply),
        ];
        let given = options.into_iter().filter(|(is_given, ..)| *is_given);
        let given = given.map(|(_, argument, part)| (argument, part));
        let words = self.append.iter().flat_map(|text| text.split_whitespace());
        let words = words.filter_map(|word| {
            let needed = WORDS.iter().find(|(start, harmless, _)| {
                word.strip_prefix(start)
                    .is_some_and(|value| value != *harmless)
            });
            needed.map(|(.., part)| (word, *part))
        });
        given.chain(words).collect()
    }
}
