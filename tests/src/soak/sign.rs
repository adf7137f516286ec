//! Signs of a machine's sleeps and wakes on its console.

use poorwill_machine::console::Event;

use crate::console::{COLD_BOOT, FATAL, SLEPT, WOKE};

/// A sleep of the test kernel's case `endure`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Step {
    /// The life: a random number, new at each cold boot.
    pub(super) life: u64,
    /// Number of the sleep in its life, from 1.
    pub(super) number: u32,
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "step {} of life {:016x}", self.number, self.life)
    }
}

/// The meaning of a console line, or of a progress bar in one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// The firmware loads an image, which it has marked as consumed.
    Loading,
    /// The firmware has loaded the image.
    Woke,
    /// The firmware starts the OS without an image, for this reason.
    ColdBoot(String),
    /// The kernel has begun this life.
    Born(u64),
    /// The kernel woke from this sleep, and found its memory unchanged.
    Whole(Step),
    /// The kernel asks for this sleep.
    Asks(Step),
    /// The sleep was refused.
    Refused(String),
    /// The firmware saves memory.
    Saving,
    /// All of memory is written, and the commit follows.
    Written,
    /// The image is committed.
    Asleep,
    /// A forbidden line.
    Fatal(String),
}

impl Sign {
    /// The sign in an event of the console. The power may be cut within a line. Half a line gives
    /// no sign, or a valid one.
    pub(super) fn of(event: &Event) -> Option<Self> {
        let text = match event {
            Event::Line(line) => &line.text,
            Event::Redraw(text) => text,
        };
        Self::of_text(text)
    }

    fn of_text(text: &str) -> Option<Self> {
        let after = |start: &str| Some(text.split_once(start)?.1);
        if FATAL.iter().chain(&NEVER).any(|bad| text.contains(bad)) {
            Some(Self::Fatal(text.to_owned()))
        } else if text.starts_with("poorwill: waking [") {
            Some(Self::Loading)
        } else if text.starts_with(WOKE) {
            Some(Self::Woke)
        } else if let Some(reason) = after(COLD_BOOT) {
            Some(Self::ColdBoot(reason.to_owned()))
        } else if text.starts_with(FULL_BAR) {
            Some(Self::Written)
        } else if text.starts_with("poorwill: sleeping [") {
            Some(Self::Saving)
        } else if text.starts_with(SLEPT) {
            Some(Self::Asleep)
        } else if let Some(rest) = after("endure: cold ") {
            Some(Self::Born(life(rest)?.0))
        } else if let Some(rest) = after("endure: woke ") {
            Some(Self::Whole(step(rest)?))
        } else if let Some(rest) = after("endure: sleep ") {
            Some(Self::Asks(step(rest)?))
        } else {
            after("endure: refused ").map(|rest| Self::Refused(rest.to_owned()))
        }
    }
}

/// The progress bar of a sleep that has written all pages.
const FULL_BAR: &str = "poorwill: sleeping [####################";

/// Lines that no power cut explains.
const NEVER: [&str; 4] = [
    "test kernel: FAIL",
    "poorwill: wake failed",
    "poorwill: the failure of the wake",
    "poorwill: the images in the sleep area cannot be discarded",
];

/// Parses a life. The kernel prints it in 16 digits, and a step in 6 or more.
fn life(text: &str) -> Option<(u64, &str)> {
    let (digits, rest) = text.strip_prefix("life=")?.split_at_checked(16)?;
    Some((u64::from_str_radix(digits, 16).ok()?, rest))
}

fn step(text: &str) -> Option<Step> {
    let (life, rest) = life(text)?;
    let digits = rest.strip_prefix(" step=")?.get(..6)?;
    Some(Step {
        life,
        number: digits.parse().ok()?,
    })
}

/// A part of a power-on, between two signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// From power-on until the image is consumed or refused.
    Start,
    /// The image is loaded.
    Load,
    /// The OS runs: it checks its memory, and fills it again.
    Run,
    /// The image is written.
    Save,
    /// The image is made durable and committed.
    Commit,
    /// The image is committed, and the power is still on.
    Off,
}

impl Phase {
    /// All of them, in order.
    pub(super) const ALL: [Self; 6] = [
        Self::Start,
        Self::Load,
        Self::Run,
        Self::Save,
        Self::Commit,
        Self::Off,
    ];

    /// The phase that a sign begins or continues.
    pub(super) fn of(sign: &Sign) -> Self {
        match sign {
            Sign::Loading => Self::Load,
            Sign::Asks(_) | Sign::Saving => Self::Save,
            Sign::Written => Self::Commit,
            Sign::Asleep => Self::Off,
            _ => Self::Run,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_what_they_say() {
        let step = Step {
            life: 0x0123_4567_89ab_cdef,
            number: 7,
        };
        let life = "life=0123456789abcdef";
        let cases = [
            (
                "poorwill: waking [#...................]   5 %",
                Sign::Loading,
            ),
            ("poorwill: wake loaded_bytes=1 ms=2", Sign::Woke),
            (
                "poorwill: cold boot: no image",
                Sign::ColdBoot("no image".into()),
            ),
            (
                "poorwill: sleeping [###.................]  15 %",
                Sign::Saving,
            ),
            (
                "poorwill: sleeping [####################] 100 %",
                Sign::Written,
            ),
            ("poorwill: sleep mode=persist used_bytes=1", Sign::Asleep),
        ];
        for (text, sign) in cases {
            assert_eq!(Sign::of_text(text), Some(sign), "{text}");
        }
        let kernel = |text: &str| Sign::of_text(&format!("test kernel: endure: {text}"));
        assert_eq!(kernel(&format!("cold {life}")), Some(Sign::Born(step.life)));
        let whole = format!("woke {life} step=000007");
        assert_eq!(kernel(&whole), Some(Sign::Whole(step)));
        let asks = format!("sleep {life} step=000007");
        assert_eq!(kernel(&asks), Some(Sign::Asks(step)));
        // A part of the line gives no sign.
        for cut in 1..=asks.len() {
            assert_eq!(kernel(&asks[..asks.len() - cut]), None);
        }
        let bad = "test kernel: FAIL: 3 pages are not as they were";
        assert_eq!(Sign::of_text(bad), Some(Sign::Fatal(bad.into())));
        assert_eq!(Sign::of_text("poorwill: wak"), None);
    }
}
