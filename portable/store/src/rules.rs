/// Rules for a snapshot's wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotRules {
    /// The number of failed wakes in a row after which the snapshot is not tried again;
    /// 0: no limit.
    pub tries: u32,
    /// The trial time in ms: a reset within it means that the wake failed.
    pub trial_ms: u32,
    /// How long the console waits for a key that cancels the wake, in ms, up to
    /// [`LONGEST_KEY_MS`](crate::LONGEST_KEY_MS). 0: no wait.
    pub key_ms: u32,
}

impl SnapshotRules {
    /// Whether a snapshot may be tried again after `failed` failed wakes in a row.
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
