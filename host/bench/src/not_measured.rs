use std::fmt;

use serde::{Deserialize, Serialize};

/// A figure that could not be measured. The other figures of the run stay valid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotMeasured {
    /// The figure's name.
    pub what: String,
    pub why: String,
}

impl NotMeasured {
    /// Shortens the reason to one line: the failed steps, without the last console lines.
    #[must_use]
    pub fn new(what: impl Into<String>, why: &anyhow::Error) -> Self {
        let steps = why.chain().map(|step| {
            let step = step.to_string();
            let line = step.lines().next().unwrap_or_default();
            line.trim_end_matches(CONSOLE).to_owned()
        });
        NotMeasured {
            what: what.into(),
            why: steps.collect::<Vec<_>>().join(": "),
        }
    }
}

/// Separates a failed step from the console's last lines in an error's text.
pub(crate) const CONSOLE: &str = "; the console's end:";

impl fmt::Display for NotMeasured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: not measured: {}", self.what, self.why)
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
        let not_had = NotMeasured::new("wake, round 2", &error.unwrap_err());
        assert_eq!(
            not_had.to_string(),
            "wake, round 2: not measured: waking: no \"redis\" within 60s"
        );
    }
}
