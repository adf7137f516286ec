//! The critical guest's frames, as QEMU's trace of register writes shows them.

use anyhow::ensure;
use poorwill_critical::Heartbeat;
use poorwill_machine::domains::frames::Chip;

/// The oldest data in a frame, in microseconds: one and a half control periods.
const OLDEST_US: u64 = 15_000;

/// Heartbeats without data after a start: two control periods, and the one with the third sample.
const WITHOUT_DATA: usize = 21;

/// What a critical guest has sent since its start, over power-offs from which it woke.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    pub(crate) frames: Vec<Heartbeat>,
    pub(crate) wakes: usize,
}

/// The frames that a trace shows, in their order.
///
/// # Errors
///
/// A line or a frame that does not have the expected form.
pub(crate) fn frames(trace: &str) -> anyhow::Result<Vec<Heartbeat>> {
    let frames = Chip::default().read(trace)?.into_iter();
    Ok(frames
        .map(|frame| Heartbeat::from_data(frame.data))
        .collect())
}

/// Checks that no frame is lost or repeated.
///
/// # Errors
///
/// The first frame that is wrong.
pub(crate) fn check_numbers(frames: &[Heartbeat]) -> anyhow::Result<()> {
    for (number, frame) in (0..).zip(frames) {
        ensure!(
            frame.sequence == number,
            "frame {number} has the number {}: one is lost or repeated",
            frame.sequence
        );
    }
    Ok(())
}

/// Checks the frames of a guest that started once and woke `wakes` times: each start and wake begins
/// without data, as its pipeline initialises, and no data is old.
///
/// # Errors
///
/// The first frame that is wrong.
pub(crate) fn check_stages(frames: &[Heartbeat], wakes: usize) -> anyhow::Result<()> {
    for (number, frame) in frames.iter().enumerate() {
        ensure!(
            frame.age_us.is_none_or(|age| age <= OLDEST_US),
            "frame {number} has data of {:?} us ago",
            frame.age_us
        );
    }
    let stages: Vec<_> = frames
        .chunk_by(|one, next| one.age_us.is_some() == next.age_us.is_some())
        .filter(|stage| stage[0].age_us.is_none())
        .collect();
    ensure!(
        stages.len() == wakes + 1,
        "{} stages without data, of a start and {wakes} wakes",
        stages.len()
    );
    for stage in stages {
        ensure!(
            stage.len() == WITHOUT_DATA,
            "{} frames without data from frame {} on, not {WITHOUT_DATA}",
            stage.len(),
            stage[0].sequence
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use poorwill_critical::CAN_ID;
    use poorwill_machine::domains::frames::HEAD;

    use super::*;

    fn start_and_wake() -> Vec<Heartbeat> {
        let beat = |sequence| Heartbeat {
            sequence,
            age_us: (sequence % 100 > 20).then_some(400),
            lateness_100ns: 3,
        };
        (0..200).map(beat).collect()
    }

    fn check(frames: &[Heartbeat], wakes: usize) -> anyhow::Result<()> {
        check_numbers(frames)?;
        check_stages(frames, wakes)
    }

    #[test]
    fn frames_have_the_guests_identifier() {
        let [high, low] = (CAN_ID << 5).to_be_bytes();
        assert_eq!(HEAD, [8, high, low]);
    }

    #[test]
    fn a_planted_fault_is_found() {
        check(&start_and_wake(), 1).unwrap();
        let faults: [fn(&mut Vec<Heartbeat>); 4] = [
            |frames| frames[50..].rotate_left(1),
            |frames| frames.insert(50, frames[50]),
            // Data from before the wake.
            |frames| frames[100].age_us = Some(400),
            |frames| frames[50].age_us = Some(1_000_000),
        ];
        for fault in faults {
            let mut sent = start_and_wake();
            fault(&mut sent);
            assert!(check(&sent, 1).is_err());
        }
        assert!(
            check(&start_and_wake(), 2).is_err(),
            "a wake without a reset"
        );
    }
}
