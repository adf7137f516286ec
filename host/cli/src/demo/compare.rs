use poorwill_machine::console::Fields;

use super::lost::Lost;

/// Contents that the guest reports, before the sleep and after the wake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// Digest of a random number that exists in one process's memory only.
    pub(crate) nonce: String,
    /// The counter of that process.
    pub(crate) counter: u64,
    /// Digest of redis's keys and values.
    pub(crate) redis: String,
    /// Digest of a file in tmpfs and of the rows of a database.
    pub(crate) files: String,
    /// Time since the cold boot in ms, the time asleep included.
    pub(crate) uptime_ms: u128,
}

/// A row of the comparison: content that was not lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Compared {
    pub(crate) what: &'static str,
    /// The result as text.
    pub(crate) outcome: String,
}

impl Held {
    /// Parses the part after `prefix` of a console line.
    pub(crate) fn parse(line: &str, prefix: &str) -> Result<Self, Lost> {
        let fields = Fields::parse(line, prefix).unwrap_or_default();
        let missing = |key| Lost::Key(key, line.to_owned());
        let text = |key| {
            fields
                .get(key)
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
                .ok_or(missing(key))
        };
        Ok(Held {
            nonce: text("nonce_sha256")?,
            counter: fields.number("counter").ok_or(missing("counter"))?,
            redis: text("redis_digest")?,
            files: text("files_sha256")?,
            uptime_ms: fields
                .seconds("uptime_s")
                .ok_or(missing("uptime_s"))?
                .as_millis(),
        })
    }
}

/// Compares the contents `before` the sleep with those `after` the wake. The error is the first
/// loss.
pub(crate) fn compare(before: &Held, after: &Held) -> Result<Vec<Compared>, Lost> {
    let mut all = Vec::new();
    for (what, before, after) in [
        ("nonce in a process's memory", &before.nonce, &after.nonce),
        ("redis's data", &before.redis, &after.redis),
        ("tmpfs file and database", &before.files, &after.files),
    ] {
        if before != after {
            return Err(Lost::Changed {
                what,
                before: before.clone(),
                after: after.clone(),
            });
        }
        all.push(Compared {
            what,
            outcome: format!("the same ({})", short(after)),
        });
    }
    let seconds = |ms: u128| format!("{}.{:02} s", ms / 1000, ms % 1000 / 10);
    for (what, went_on, before, after) in [
        (
            "counter beside the nonce",
            after.counter > before.counter,
            before.counter.to_string(),
            after.counter.to_string(),
        ),
        (
            "uptime",
            after.uptime_ms > before.uptime_ms,
            seconds(before.uptime_ms),
            seconds(after.uptime_ms),
        ),
    ] {
        if !went_on {
            return Err(Lost::Stopped {
                what,
                before,
                after,
            });
        }
        all.push(Compared {
            what,
            outcome: format!("advanced from {before} to {after}"),
        });
    }
    Ok(all)
}

fn short(digest: &str) -> String {
    match digest.char_indices().nth(12) {
        Some((end, _)) => format!("{}…", &digest[..end]),
        None => digest.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READY: &str = "poorwill-demo: ready nonce_sha256=aabbccddeeff00 counter=41 \
                         redis_digest=11 files_sha256=22 uptime_s=20.50";

    fn held() -> Held {
        Held::parse(READY, "poorwill-demo: ready").unwrap()
    }

    #[test]
    fn reads_the_guest_s_line() {
        let held = held();
        assert_eq!(
            (held.counter, held.uptime_ms, held.redis.as_str()),
            (41, 20_500, "11")
        );
        let cut = READY.replace("files_sha256=22 ", "");
        let error = Held::parse(&cut, "poorwill-demo: ready").unwrap_err();
        assert_eq!(error, Lost::Key("files_sha256", cut));
    }

    #[test]
    fn all_is_well_when_all_goes_on() {
        let after = Held {
            counter: 42,
            uptime_ms: 21_000,
            ..held()
        };
        let compared = compare(&held(), &after).unwrap();
        assert_eq!(compared.len(), 5);
        assert_eq!(compared[0].outcome, "the same (aabbccddeeff…)");
        assert_eq!(compared[4].outcome, "advanced from 20.50 s to 21.00 s");
    }

    #[test]
    fn every_loss_is_named() {
        let after = || Held {
            counter: 42,
            uptime_ms: 21_000,
            ..held()
        };
        let other = || "other".to_owned();
        for (after, what) in [
            (
                Held {
                    nonce: other(),
                    ..after()
                },
                "nonce",
            ),
            (
                Held {
                    redis: other(),
                    ..after()
                },
                "redis",
            ),
            (
                Held {
                    files: other(),
                    ..after()
                },
                "tmpfs",
            ),
            (
                Held {
                    counter: 41,
                    ..after()
                },
                "counter",
            ),
            (
                Held {
                    uptime_ms: 20_500,
                    ..after()
                },
                "uptime",
            ),
        ] {
            let error = compare(&held(), &after).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
