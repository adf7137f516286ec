//! The critical guest's frames, as QEMU's trace of register writes shows them.

use anyhow::{Context, ensure};
use poorwill_critical::Heartbeat;
use poorwill_machine::domains::frames::Chip;

/// The oldest data in a frame, in microseconds: one and a half control periods.
const OLDEST_US: u64 = 15_000;

/// Heartbeats without data after a start: two control periods, and the one with the third sample.
const WITHOUT_DATA: usize = 21;

/// QEMU's name for the configuration space, and the first bus's bytes in it.
const CONFIGURATION: &str = "'pcie-mmcfg-mmio'";
const BUS_BYTES: u64 = 1 << 20;

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

/// Checks that nothing writes to the first bus's configuration space after the first frame.
///
/// # Errors
///
/// The first such write, or a trace without a frame.
pub(crate) fn check_bus(trace: &str) -> anyhow::Result<()> {
    let mut lines = trace.lines();
    let mut chip = Chip::default();
    while chip.read(lines.next().context("no frame")?)?.is_empty() {}
    let is_on_bus = |line: &str| {
        let offset = line.split_once(" addr 0x")?.1.split_once(' ')?.0;
        Some(u64::from_str_radix(offset, 16).ok()? < BUS_BYTES)
    };
    let mut writes = lines.filter(|line| line.ends_with(CONFIGURATION));
    let late = writes.find(|line| is_on_bus(line) != Some(false));
    ensure!(
        late.is_none(),
        "the bus is configured after a frame: {late:?}"
    );
    Ok(())
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
    use poorwill_machine::domains::frames::{HEAD, WRITES};

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
    fn a_late_write_to_the_bus_is_found() {
        let write = |address: u64, value, name: &str| {
            format!("{WRITES} cpu 2 mr 0x5 addr {address:#x} value {value:#x} size 1 name {name}\n")
        };
        let chip = |register: u64, value| write(0x300_2080 + register, value, "'kvaser_pci-sja'");
        let head = (16..)
            .zip(HEAD)
            .map(|(register, value)| chip(register, value));
        let frame = head.collect::<String>() + &chip(1, 1);
        let on_bus = |bus: u64| write(bus << 20 | 0x3_8004, 6, CONFIGURATION);
        check_bus(&(on_bus(0) + &frame + &on_bus(1) + &frame)).unwrap();
        check_bus(&(frame + &on_bus(0))).unwrap_err();
        check_bus(&on_bus(0)).unwrap_err();
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
