use std::fmt;

use serde::{Deserialize, Serialize};

/// A figure that was to be measured and could not be had. The others are none the worse.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotHad {
    /// Which.
    pub what: String,
    /// Why not.
    pub why: String,
}

impl NotHad {
    /// `why` in a line: what was being done, and what came of it, without the console's end.
    #[must_use]
    pub fn new(what: impl Into<String>, why: &anyhow::Error) -> Self {
        let steps = why.chain().map(|step| {
            let step = step.to_string();
            let line = step.lines().next().unwrap_or_default();
            line.trim_end_matches(CONSOLE).to_owned()
        });
        NotHad {
            what: what.into(),
            why: steps.collect::<Vec<_>>().join(": "),
        }
    }
}

/// How a step's text goes on to the console's last lines.
pub(crate) const CONSOLE: &str = "; the console's end:";

impl fmt::Display for NotHad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: not had: {}", self.what, self.why)
    }
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    #[test]
    fn a_reason_is_a_line_without_the_console() {
        let error = anyhow!("no \"redis\" within 60s");
        let error = Err::<(), _>(error).context(format!("waking{CONSOLE}\nline\nline\n"));
        let not_had = NotHad::new("wake, round 2", &error.unwrap_err());
        assert_eq!(
            not_had.to_string(),
            "wake, round 2: not had: waking: no \"redis\" within 60s"
        );
    }
}
