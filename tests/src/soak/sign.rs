//! Signs of a machine's sleeps and wakes on its console.

use poorwill_machine::console::Event;

use crate::console::{COLD_BOOT, DOMAIN_WOKE, FATAL, SLEPT, WOKE};

/// A sleep of the test kernel's case `endure`, or of domains with the hostile guest's role.
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

/// The meaning of a console line, or of a part of it. Domains have their indexes; the only OS of a
/// machine has index 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// The firmware loads an image. It has marked all images as consumed.
    Loading,
    /// An image is loaded.
    Loaded,
    /// The firmware says that this domain woke.
    Woke(usize),
    /// The firmware starts all OSes without an image, for this reason.
    ColdBoot(String),
    /// The OS has begun this life.
    Born(usize, u64),
    /// The OS woke from this sleep, and found its memory unchanged.
    Whole(usize, Step),
    /// The OS asks for this sleep.
    Asks(usize, Step),
    /// The sleep was refused.
    Refused(String),
    /// The firmware saves memory.
    Saving,
    /// All of an image is written. After the last one the commit follows.
    Written,
    /// The line with that image's progress bar has ended.
    Saved,
    /// The images are committed.
    Asleep,
    /// A forbidden line.
    Fatal(String),
}

impl Sign {
    /// The signs in an event of the console. The power may be cut within a line. Half a line gives
    /// no sign, or a valid one. A domain that runs may go on in the line of a progress bar.
    pub(super) fn of(event: &Event) -> Vec<Self> {
        match event {
            Event::Line(line) => Self::of_line(&line.text),
            // Text after the bar comes again with the line.
            Event::Redraw(text) => Self::of_bar(text, false).0,
        }
    }

    fn of_line(line: &str) -> Vec<Self> {
        let (mut signs, rest) = Self::of_bar(line, true);
        signs.extend(Self::of_text(rest));
        signs
    }

    /// The signs of a progress bar, which a text may begin with, and the text after it. The line of
    /// a bar may end early, but that of a full one `has_ended` once.
    fn of_bar(text: &str, has_ended: bool) -> (Vec<Self>, &str) {
        let rest = || text.split_once('%').map_or("", |(_, rest)| rest);
        let is_full = text.contains(FULL);
        let signs = if text.starts_with(WAKING) {
            vec![match is_full && has_ended {
                true => Self::Loaded,
                false => Self::Loading,
            }]
        } else if text.starts_with(SLEEPING) {
            match (is_full, has_ended) {
                (false, _) => vec![Self::Saving],
                (true, false) => vec![Self::Written],
                (true, true) => vec![Self::Written, Self::Saved],
            }
        } else {
            return (Vec::new(), text);
        };
        (signs, rest())
    }

    fn of_text(text: &str) -> Option<Self> {
        let after = |start: &str| Some(text.split_once(start)?.1);
        let is_end = text.starts_with("poorwill: domain ") && text.contains(" ends: ");
        if is_end || FATAL.iter().chain(&NEVER).any(|bad| text.contains(bad)) {
            Some(Self::Fatal(text.to_owned()))
        } else if text.starts_with(WOKE) {
            Some(Self::Woke(0))
        } else if let Some(rest) = text.strip_prefix(DOMAIN_WOKE[0]) {
            let (name, _) = rest.split_once(DOMAIN_WOKE[1])?;
            Some(Self::Woke(domain(name)?))
        } else if let Some(reason) = after(COLD_BOOT) {
            Some(Self::ColdBoot(reason.to_owned()))
        } else if text.starts_with(SLEPT) {
            Some(Self::Asleep)
        } else {
            let (speaker, said) = text.split_once("endure: ")?;
            Self::of_guest(speaker, said)
        }
    }

    /// The sign in what an OS says. Before that a line has the name of a domain without the UART.
    fn of_guest(speaker: &str, said: &str) -> Option<Self> {
        let name = speaker.strip_suffix(": ").unwrap_or_default();
        let index = domain(name).unwrap_or(0);
        if let Some(rest) = said.strip_prefix("cold ") {
            Some(Self::Born(index, life(rest)?.0))
        } else if let Some(rest) = said.strip_prefix("woke ") {
            Some(Self::Whole(index, step(rest)?))
        } else if let Some(rest) = said.strip_prefix("sleep ") {
            Some(Self::Asks(index, step(rest)?))
        } else {
            let rest = said.strip_prefix("refused ")?;
            Some(Self::Refused(rest.to_owned()))
        }
    }
}

/// The index in a domain's name.
fn domain(name: &str) -> Option<usize> {
    name.strip_prefix("side")?.parse().ok()
}

/// The starts of progress bars, and a full one.
const WAKING: &str = "poorwill: waking [";
const SLEEPING: &str = "poorwill: sleeping [";
const FULL: &str = "[####################";

/// Lines that no power cut explains.
const NEVER: [&str; 4] = [
    "FAIL",
    "poorwill: wake failed",
    "poorwill: the failure of the wake",
    "poorwill: the images in the sleep area cannot be discarded",
];

/// Parses a life. A guest prints it in 16 digits, and a step in 6 or more.
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

#[cfg(test)]
mod tests {
    use super::*;

    const LIFE: &str = "life=0123456789abcdef";
    const STEP: Step = Step {
        life: 0x0123_4567_89ab_cdef,
        number: 7,
    };

    #[test]
    fn lines_say_what_they_say() {
        let cases = [
            (
                "poorwill: waking [#...................]   5 %",
                vec![Sign::Loading],
            ),
            (
                "poorwill: waking [####################] 100 %",
                vec![Sign::Loaded],
            ),
            ("poorwill: wake loaded_bytes=1 ms=2", vec![Sign::Woke(0)]),
            (
                "poorwill: wake domain=side1 mode=persist loaded_bytes=1",
                vec![Sign::Woke(1)],
            ),
            (
                "poorwill: cold boot: no image",
                vec![Sign::ColdBoot("no image".into())],
            ),
            (
                "poorwill: sleeping [###.................]  15 %",
                vec![Sign::Saving],
            ),
            (
                "poorwill: sleeping [####################] 100 %",
                vec![Sign::Written, Sign::Saved],
            ),
            (
                "poorwill: sleep mode=persist used_bytes=1",
                vec![Sign::Asleep],
            ),
        ];
        for (text, signs) in cases {
            assert_eq!(Sign::of_line(text), signs, "{text}");
        }
        let kernel = |text: &str| Sign::of_text(&format!("test kernel: endure: {text}"));
        let born = kernel(&format!("cold {LIFE}"));
        assert_eq!(born, Some(Sign::Born(0, STEP.life)));
        let whole = format!("woke {LIFE} step=000007");
        assert_eq!(kernel(&whole), Some(Sign::Whole(0, STEP)));
        let asks = format!("sleep {LIFE} step=000007");
        assert_eq!(kernel(&asks), Some(Sign::Asks(0, STEP)));
        // A part of the line gives no sign.
        for cut in 1..=asks.len() {
            assert_eq!(kernel(&asks[..asks.len() - cut]), None);
        }
        for bad in [
            "test kernel: FAIL: 3 pages are not as they were",
            "side1: FAIL: 3 words are not as they were",
            "poorwill: domain side1 ends: the image could not be loaded: piece 0",
        ] {
            assert_eq!(Sign::of_text(bad), Some(Sign::Fatal(bad.into())));
        }
        assert_eq!(Sign::of_text("poorwill: wak"), None);
        assert_eq!(
            Sign::of_text("poorwill: wake domain=side0 mode=retain"),
            None
        );
    }

    /// A domain with the UART goes on in the line of a bar. Another one has a line of its own.
    #[test]
    fn domains_speak_amid_a_bar() {
        let woke = format!("endure: woke {LIFE} step=000007");
        let (whole, other) = (Sign::Whole(0, STEP), Sign::Whole(1, STEP));
        assert_eq!(Sign::of_line(&woke), vec![whole.clone()]);
        assert_eq!(Sign::of_line(&format!("side1: {woke}")), [other]);
        let bar = format!("poorwill: waking [##..................]  10 %{woke}");
        assert_eq!(Sign::of_line(&bar), [Sign::Loading, whole.clone()]);
        assert_eq!(Sign::of(&Event::Redraw(bar)), [Sign::Loading]);
        let bar = format!("poorwill: waking [####################] 100 %{woke}");
        assert_eq!(Sign::of_line(&bar), [Sign::Loaded, whole]);
        assert_eq!(Sign::of(&Event::Redraw(bar)), [Sign::Loading]);
        let bar = "poorwill: sleeping [####################] 100 %";
        assert_eq!(Sign::of(&Event::Redraw(bar.into())), [Sign::Written]);
    }
}
