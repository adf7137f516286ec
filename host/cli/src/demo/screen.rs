use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use console::{Term, style, truncate_str};
use poorwill_bench::appliance::Audience;
use poorwill_machine::Watcher;
use poorwill_machine::console::Event;

/// Shows running machines to the user: steps and important console lines. On a terminal, one more
/// line shows the machine's latest output.
///
/// Clones write to the same screen.
#[derive(Clone, Debug)]
pub(crate) struct Screen {
    terminal: Term,
    /// Whether the line with the latest output is drawn now.
    below: Arc<Mutex<bool>>,
}

/// Texts of important console lines.
const TELLING: [&str; 12] = [
    "poorwill: ",
    "poorwill-guest: ",
    "poorwill-demo: ",
    "poorwill-appliance: ",
    "poorwill-snapshot: ",
    "poorwill-initramfs: ",
    "poorwill-redis: ",
    "Linux version",
    "PM: suspend",
    "Kernel panic",
    "Oops",
    "reboot: ",
];

/// Columns of the left pane.
const LEFT: usize = 24;

impl Default for Screen {
    fn default() -> Self {
        Self::new()
    }
}

impl Screen {
    #[must_use]
    pub(crate) fn new() -> Self {
        Screen {
            terminal: Term::stdout(),
            below: Arc::default(),
        }
    }

    /// Prints a step's title.
    pub(crate) fn step(&self, text: &str) {
        self.line(&format!(
            "{} {}",
            style("==>").green().bold(),
            style(text).bold()
        ));
    }

    /// Prints a message of the demo, not of the machine.
    pub(crate) fn say(&self, text: &str) {
        self.line(&format!("    {text}"));
    }

    /// Prints a row of two panes.
    pub(crate) fn row(&self, at: Duration, left: &str, right: &str) {
        let at = format!("{:8.3} |", at.as_secs_f64());
        self.line(&format!("{} {left:LEFT$} | {right}", style(at).dim()));
    }

    /// Returns a callback that shows a machine's console, for [`poorwill_machine::PowerOn::watch`].
    #[must_use]
    pub(crate) fn watcher(&self) -> Watcher {
        let screen = self.clone();
        Box::new(move |event| screen.show(event))
    }

    fn show(&self, event: &Event) {
        match event {
            Event::Line(line) if TELLING.iter().any(|word| line.text.contains(word)) => {
                let at = format!("{:8.3} |", line.at.as_secs_f64());
                self.line(&format!("{} {}", style(at).dim(), line.text));
            }
            Event::Line(line) => self.below(&line.text),
            Event::Redraw(text) => self.below(text),
        }
    }

    fn line(&self, text: &str) {
        let mut below = self.below.lock().unwrap_or_else(PoisonError::into_inner);
        // If standard output is closed, the demo continues.
        let _ = self
            .clear(&mut below)
            .and_then(|()| writeln!(&self.terminal, "{text}"));
    }

    fn below(&self, text: &str) {
        if !self.terminal.is_term() {
            return;
        }
        let width = usize::from(self.terminal.size().1).saturating_sub(12);
        let text = truncate_str(text, width, "…");
        let mut below = self.below.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.clear(&mut below).and_then(|()| {
            *below = true;
            (&self.terminal)
                .write_all(format!("{}", style(format!("         | {text}")).dim()).as_bytes())
        });
    }

    fn clear(&self, below: &mut bool) -> io::Result<()> {
        if std::mem::take(below) {
            self.terminal.clear_line()
        } else {
            Ok(())
        }
    }

    /// Removes the line with the latest output.
    pub(crate) fn finish(&self) {
        let mut below = self.below.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.clear(&mut below);
    }
}

impl Audience for Screen {
    fn step(&self, text: &str) {
        Screen::step(self, text);
    }

    fn say(&self, text: &str) {
        Screen::say(self, text);
    }

    fn watcher(&self) -> Option<Watcher> {
        Some(Screen::watcher(self))
    }
}
