/// How a machine's snapshot wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotRules {
    /// After how many failed wakes in a row it is not tried any more; 0: it always
    /// is.
    pub tries: u32,
    /// How long after a wake a reset says that the wake has failed, in ms.
    pub trial_ms: u32,
    /// How long a key on the console is waited for that calls the wake off, in ms, up
    /// to [`LONGEST_KEY_MS`](crate::LONGEST_KEY_MS). 0: it is not waited for.
    pub key_ms: u32,
}

impl SnapshotRules {
    /// Whether a snapshot may be tried once more, so many wakes in a row having
    /// failed.
    #[must_use]
    pub fn allow(&self, failed: u32) -> bool {
        self.tries == 0 || failed < self.tries
    }
}

impl Default for SnapshotRules {
    fn default() -> Self {
        SnapshotRules {
            tries: 3,
            trial_ms: 60_000,
            key_ms: 0,
        }
    }
}
