use std::time::Duration;

use poorwill_machine::console::Fields;

use crate::demo::lost::Lost;

/// Contents that the guest reports after each of its copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    /// Digest of redis's keys.
    pub(super) keys: String,
    /// Digest of the newest copy.
    pub(super) copy: String,
    /// Number of copies made.
    pub(super) copies: u64,
    /// redis's counter.
    pub(super) counter: u64,
    /// Number of pieces that were written to the disk and read back.
    pub(super) written: u64,
    /// Time since the cold boot.
    pub(super) uptime: Duration,
}

impl Held {
    /// Parses the part after `prefix` of a console line.
    pub(super) fn parse(line: &str, prefix: &str) -> Result<Self, Lost> {
        let fields = Fields::parse(line, prefix).unwrap_or_default();
        let missing = |key| Lost::Key(key, line.to_owned());
        let digest = |key| {
            let text = fields.get(key).filter(|text| text.len() == 40);
            text.map(str::to_owned).ok_or(missing(key))
        };
        let number = |key| fields.number(key).ok_or(missing(key));
        Ok(Held {
            keys: digest("keys")?,
            copy: digest("copy")?,
            copies: number("copies")?,
            counter: number("counter")?,
            written: number("written")?,
            uptime: fields.seconds("uptime_s").ok_or(missing("uptime_s"))?,
        })
    }

    /// Compares these contents with those of a report after the cut. The error is the first loss.
    pub(super) fn check_gone_on(&self, after: &Held) -> Result<(), Lost> {
        for (what, before, after) in [
            ("redis's keys", &self.keys, &after.keys),
            ("the copy", &self.copy, &after.copy),
        ] {
            if before != after {
                return Err(Lost::Changed {
                    what,
                    before: before.clone(),
                    after: after.clone(),
                });
            }
        }
        let ms = |held: &Held| u64::try_from(held.uptime.as_millis()).unwrap_or(u64::MAX);
        for (what, before, after) in [
            // The guest makes one copy after another, so a lower number means a lost one.
            ("the copies", self.copies, after.copies),
            ("redis's counter", self.counter, after.counter),
            ("the disk", self.written, after.written),
            ("the uptime in ms", ms(self), ms(after)),
        ] {
            if after <= before {
                return Err(Lost::Stopped {
                    what,
                    before: before.to_string(),
                    after: after.to_string(),
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "poorwill-redis: held keys=0123456789012345678901234567890123456789 \
                        copy=abcdefabcdefabcdefabcdefabcdefabcdefabcd copies=3 counter=1711 \
                        written=95 uptime_s=3.87";
    const PREFIX: &str = "poorwill-redis: held";

    fn held() -> Held {
        Held::parse(LINE, PREFIX).unwrap()
    }

    fn later() -> Held {
        Held {
            copies: 4,
            counter: 1800,
            written: 96,
            uptime: Duration::from_secs(4),
            ..held()
        }
    }

    #[test]
    fn reads_the_guests_line() {
        let held = held();
        assert_eq!((held.copies, held.counter, held.written), (3, 1711, 95));
        assert_eq!(held.uptime, Duration::from_millis(3870));
        for key in ["keys", "copy", "copies", "counter", "written", "uptime_s"] {
            let line = LINE.replace(&format!(" {key}="), " other=");
            let error = Held::parse(&line, PREFIX).unwrap_err();
            assert_eq!(error, Lost::Key(key, line));
        }
        // The guest prints redis's error in place of a digest.
        let line = LINE.replace("0123456789012345678901234567890123456789", "ERR");
        assert!(Held::parse(&line, PREFIX).is_err());
    }

    #[test]
    fn every_loss_is_named() {
        held().check_gone_on(&later()).unwrap();
        let (same, other) = (held(), "f".repeat(40));
        for (after, what) in [
            (
                Held {
                    keys: other.clone(),
                    ..later()
                },
                "redis's keys changed",
            ),
            (
                Held {
                    copy: other,
                    ..later()
                },
                "the copy changed",
            ),
            (
                Held {
                    copies: 3,
                    ..later()
                },
                "the copies did not advance",
            ),
            (
                Held {
                    counter: 1711,
                    ..later()
                },
                "redis's counter did not advance: 1711 before",
            ),
            (
                Held {
                    written: 95,
                    ..later()
                },
                "the disk did not advance",
            ),
            (
                Held {
                    uptime: same.uptime,
                    ..later()
                },
                "the uptime in ms did not advance",
            ),
        ] {
            let error = held().check_gone_on(&after).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
