//! Times of the critical guest's frames, from the plugin's log.

use std::ops::Range;

use anyhow::{Context, ensure};
use poorwill_critical::Heartbeat;
use poorwill_machine::domains::frames::Chip;
use poorwill_plugin::log::{Entry, What};

/// The first hart of the critical guest.
pub(super) const HART: usize = 2;

/// The registers of the CAN chip, and its command register, which sends a frame.
pub(super) const CHIP: u64 = 0x300_1080;
pub(super) const CHIP_BYTES: u64 = 0x80;
pub(super) const FRAME: u64 = 1;

/// A heartbeat's period, in nanoseconds.
const PERIOD: u64 = 1_000_000;

/// A frame, when it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beat {
    /// Nanoseconds of the fair time base.
    pub time: u64,
    /// The frame's contents.
    pub heartbeat: Heartbeat,
}

/// The frames in a log.
pub(super) fn beats(log: &[Entry]) -> anyhow::Result<Vec<Beat>> {
    let mut chip = Chip::default();
    let mut beats = Vec::new();
    for entry in log {
        let What::Stores { address, value } = entry.what else {
            continue;
        };
        let register = usize::try_from(address - CHIP)?;
        let value = u8::try_from(value & 0xff)?;
        let sent = chip.write(register, value)?;
        beats.extend(sent.map(|data| Beat {
            time: entry.time,
            heartbeat: Heartbeat::from_data(data),
        }));
    }
    Ok(beats)
}

/// A wake of the machine, up to the critical guest's first frame. Times are in nanoseconds of the
/// fair time base: each is also the most instructions that a hart executes in that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// The time of the wake event.
    pub event: u64,
    /// From the event until the firmware enters the guest.
    pub to_guest: u64,
    /// From the event until the first frame.
    pub to_frame: u64,
    /// From the event until the rate is steady: until the first frame after which no gap between
    /// frames differs from the period by more than a tenth.
    pub to_steady: u64,
}

/// The wakes in a log, whose frames are `beats`.
///
/// # Errors
///
/// A wake without its event.
pub fn wakes(log: &[Entry], beats: &[Beat]) -> anyhow::Result<Vec<Wake>> {
    let has_data = |at: usize| beats[at].heartbeat.age_us.is_some();
    let first = (1..beats.len()).filter(|at| has_data(at - 1) && !has_data(*at));
    let first: Vec<_> = first.collect();
    let ends = first.iter().skip(1).copied().chain([beats.len()]);
    (first.iter().zip(ends))
        .map(|(first, end)| wake(log, &beats[first - 1], &beats[*first..end]))
        .collect()
}

/// The wake between the frame `last` and the first frame of `awake`.
fn wake(log: &[Entry], last: &Beat, awake: &[Beat]) -> anyhow::Result<Wake> {
    let first = &awake[0];
    let own = log.iter().filter(|entry| entry.hart == HART);
    let own: Vec<_> = own
        .filter(|entry| entry.time > last.time && entry.time <= first.time)
        .collect();
    let entry = (own.iter()).position(|entry| matches!(entry.what, What::Executes { .. }));
    let entry = entry.context("a wake without an entry into the guest")?;
    let event = (own[..entry].iter()).rfind(|entry| entry.what == What::Runs);
    let event = event.with_context(|| format!("no wake event before {}", first.time))?;
    let is_off = |gap: u64| gap.abs_diff(PERIOD) > PERIOD / 10;
    let gaps = awake.windows(2).map(|two| two[1].time - two[0].time);
    let gaps: Vec<_> = gaps.collect();
    let steady = gaps.iter().rposition(|gap| is_off(*gap));
    let steady = steady.map_or(first, |at| &awake[at + 1]);
    Ok(Wake {
        event: event.time,
        to_guest: own[entry].time - event.time,
        to_frame: first.time - event.time,
        to_steady: steady.time - event.time,
    })
}

/// Lateness of the two tasks, from one sleep to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Late {
    /// Heartbeats.
    pub beats: usize,
    /// Heartbeats without a frame.
    pub missed: u64,
    /// Lateness of the heartbeat's frame, in nanoseconds after the least late one: at 99.9 %, and
    /// the most.
    pub beat: (u64, u64),
    /// The same of the control task's sample, in microseconds.
    pub control: (u64, u64),
}

impl Late {
    /// The lateness of the frames of a `part`, above that of the least late frame of all `beats`
    /// from one sleep to the next.
    ///
    /// # Errors
    ///
    /// The part has no frame.
    pub fn of(beats: &[Beat], part: Range<usize>) -> anyhow::Result<Self> {
        ensure!(!part.is_empty(), "no frame");
        let is_awake = |one: &Beat, next: &Beat| {
            one.heartbeat.age_us.is_none() || next.heartbeat.age_us.is_some()
        };
        let (mut missed, mut beat, mut control) = (Vec::new(), Vec::new(), Vec::new());
        for awake in beats.chunk_by(is_awake) {
            let gaps = awake.windows(2).map(|two| two[1].time - two[0].time);
            missed.push(0);
            missed.extend(gaps.map(|gap| ((gap + PERIOD / 2) / PERIOD).saturating_sub(1)));
            let start = awake[0].time % PERIOD;
            // Half a period is added, so that no frame is before its release.
            let phase = |beat: &Beat| (beat.time + PERIOD + PERIOD / 2 - start) % PERIOD;
            beat.extend(above_least(awake.iter().map(|beat| Some(phase(beat)))));
            control.extend(above_least(awake.iter().map(control_us)));
        }
        let high_and_most = |all: &[Option<u64>]| {
            let mut values: Vec<_> = all[part.clone()].iter().flatten().copied().collect();
            values.sort_unstable();
            let at = |rank: usize| values.get(rank).copied().unwrap_or(0);
            let last = values.len().saturating_sub(1);
            (at(last - last / 1000), at(last))
        };
        Ok(Late {
            beats: part.len(),
            missed: missed[part.clone()].iter().sum(),
            beat: high_and_most(&beat),
            control: high_and_most(&control),
        })
    }
}

/// Microseconds from a release of the control task to its sample, if this is the next frame.
fn control_us(beat: &Beat) -> Option<u64> {
    let Heartbeat {
        age_us,
        lateness_100ns,
        ..
    } = beat.heartbeat;
    let period = PERIOD / 1000;
    let at = age_us.filter(|age| *age < period)?;
    (period + lateness_100ns / 10).checked_sub(at)
}

/// The values, less the least one.
fn above_least(
    values: impl Iterator<Item = Option<u64>> + Clone,
) -> impl Iterator<Item = Option<u64>> {
    let least = values.clone().flatten().min().unwrap_or(0);
    values.map(move |value| Some(value? - least))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_compared_with_all_frames_since_the_last_sleep() {
        let beat = |time, age_us| Beat {
            time,
            heartbeat: Heartbeat {
                sequence: 0,
                age_us,
                lateness_100ns: 0,
            },
        };
        let ms = |number: u64, late| beat(number * PERIOD + late, Some(400));
        let beats = [
            ms(0, 70),
            ms(1, 50),
            ms(2, 60),
            ms(4, 250),
            beat(30 * PERIOD + 900, None),
            ms(31, 1000),
        ];
        let late = |part| {
            let late = Late::of(&beats, part).unwrap();
            (late.beats, late.missed, late.beat.1)
        };
        assert_eq!(late(0..3), (3, 0, 20));
        assert_eq!(late(2..4), (2, 1, 200));
        assert_eq!(late(3..6), (3, 1, 200));
        assert_eq!(late(5..6), (1, 0, 100));
        assert!(Late::of(&beats, 2..2).is_err());
    }
}
