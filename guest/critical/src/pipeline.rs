//! The control pipeline: samples in, data out.

/// Samples in a row that end the initialisation stage.
pub const STABLE_SAMPLES: u8 = 3;

/// A pipeline with an initialisation stage and a loop (Jumpstart, IV-B3). It gives data only while
/// its input is stable: [`STABLE_SAMPLES`] samples without a gap. This example has no sensor, so a
/// sample is the time of its reading, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pipeline {
    longest_gap: u64,
    newest: Option<u64>,
    stable: u8,
}

impl Pipeline {
    /// A pipeline in its initialisation stage, for samples each `period` ticks. A gap is more than
    /// one and a half periods.
    #[must_use]
    pub fn new(period: u64) -> Self {
        Pipeline {
            longest_gap: period + period / 2,
            newest: None,
            stable: 0,
        }
    }

    /// Forgets all samples: the initialisation stage begins again.
    pub fn reset(&mut self) {
        (self.newest, self.stable) = (None, 0);
    }

    /// Takes a sample. After a gap the initialisation stage begins again.
    pub fn step(&mut self, sample: u64) {
        let gap = self.newest.and_then(|newest| sample.checked_sub(newest));
        self.stable = match gap {
            Some(gap) if gap <= self.longest_gap => self.stable.saturating_add(1),
            _ => 1,
        };
        self.newest = Some(sample);
    }

    /// Ticks since the sample of the newest data; `None` in the initialisation stage, and once a
    /// sample is missing.
    #[must_use]
    pub fn age(&self, now: u64) -> Option<u64> {
        let newest = self.newest.filter(|_| self.stable >= STABLE_SAMPLES)?;
        (now.checked_sub(newest)).filter(|age| *age <= self.longest_gap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the pipeline has data after each sample.
    fn steps(pipeline: &mut Pipeline, samples: &[u64]) -> Vec<bool> {
        let step = |sample: &u64| {
            pipeline.step(*sample);
            pipeline.age(*sample) == Some(0)
        };
        samples.iter().map(step).collect()
    }

    #[test]
    fn three_stable_samples_end_the_first_stage_and_a_gap_begins_it_again() {
        let mut pipeline = Pipeline::new(10);
        let data = steps(&mut pipeline, &[0, 10, 25, 35, 51, 61, 71]);
        assert_eq!(data, [false, false, true, true, false, false, true]);
    }

    #[test]
    fn after_a_reset_no_data_is_from_before() {
        let mut pipeline = Pipeline::new(10);
        steps(&mut pipeline, &[0, 10, 20, 30]);
        pipeline.reset();
        assert_eq!(pipeline.age(30), None);
        assert_eq!(steps(&mut pipeline, &[31, 41, 51]), [false, false, true]);
    }

    #[test]
    fn data_ends_when_a_sample_is_missing_or_time_goes_back() {
        let mut pipeline = Pipeline::new(10);
        steps(&mut pipeline, &[0, 10, 20]);
        let ages = [20, 35, 36, 19].map(|now| pipeline.age(now));
        assert_eq!(ages, [Some(0), Some(15), None, None]);
        assert_eq!(steps(&mut pipeline, &[15, 25, 35]), [false, false, true]);
    }
}
