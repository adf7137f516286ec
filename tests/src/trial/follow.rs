//! Follows a power-on: acts on the machine, and checks its console and its end against the plan.

use std::time::Duration;

use anyhow::{Context, bail};
use poorwill_machine::{Board, Exit, Part, RunningMachine};

use super::Run;
use super::events::Hands;
use crate::console::{
    COLD_BOOT, KEPT, SLEPT, Start, WOKE, check_absent, check_armed, check_order, check_refused,
    check_saved, matching,
};
use crate::plan::{End, PowerOn};
use crate::power;

/// QEMU's exit status when a guest reports success.
const SUCCESS: i32 = 42;

/// The verdicts of the tiny guest and the test kernel on a board without a test device. They reset the
/// machine after them.
const PASSED: [&str; 2] = ["poorwill-tiny: passed", "test kernel: passed"];
const FAILED: [&str; 2] = ["poorwill-tiny: failed", "test kernel: failed"];

/// Whether a power-on with this end has its verdict by a line and a reset, which must end QEMU.
pub(super) fn resets_with_verdict(on: &PowerOn, board: Board) -> bool {
    on.power_on == End::Success && !board.has(Part::TestDevice)
}

impl Run<'_> {
    /// Follows a machine to its end, and returns the end.
    pub(super) fn follow(
        &self,
        running: &mut RunningMachine,
        hands: &mut Hands<'_>,
        on: &PowerOn,
        start: &Start,
    ) -> anyhow::Result<End> {
        let limit = Duration::from_secs(self.trial.row.timeout_s);
        hands.follow(running, on)?;
        for typed in &on.typed {
            running.wait_for_prompt(&typed.at, limit)?;
            running.send(format!("{}\r", typed.line).as_bytes())?;
        }
        if let Some(most) = on.cut_within_ms {
            return cut(
                running,
                Duration::from_millis(fastrand::u64(..=most)),
                start,
            );
        }
        let ended = match on.power_on {
            End::Runs => {
                running.run_for(Duration::from_millis(on.runs_on_ms))?;
                hands.end(running).map(|()| End::Runs)?
            }
            wanted => wait_end(running, limit, wanted, self.trial.kind.board)?,
        };
        let lines = running.lines();
        let lines: Vec<_> = lines.iter().map(|line| line.text.as_str()).collect();
        if !on.refused.is_empty() {
            check_refused(&lines, &on.refused, on.starts)?;
        } else if !on.any_start {
            start.check(&lines)?;
        }
        if let (Some(most), End::Sleep) = (self.trial.row.saved_ratio, ended) {
            check_saved(&lines, most)?;
        }
        if on.armed_commits {
            check_armed(&lines, ended == End::Off)?;
        }
        check_order(&lines, &on.expect)?;
        check_absent(&lines, &on.forbid)?;
        for line in matching(&lines, &on.show)? {
            println!("{}: {line}", self.trial.name);
        }
        Ok(ended)
    }
}

/// Cuts the power after a delay. Checks that the machine has started as the plan requires, as far
/// as its console shows.
fn cut(running: &mut RunningMachine, after: Duration, start: &Start) -> anyhow::Result<End> {
    running.run_for(after)?;
    running.kill()?;
    let lines = running.lines();
    let lines: Vec<_> = lines.iter().map(|line| line.text.as_str()).collect();
    if lines
        .iter()
        .any(|line| line.contains(WOKE) || line.contains(COLD_BOOT))
    {
        start.check(&lines)?;
    }
    check_absent(&lines, &["FAIL".to_owned()])?;
    Ok(End::Cut)
}

/// Waits until QEMU ends, and returns the end, which must be the wanted one.
fn wait_end(
    running: &mut RunningMachine,
    limit: Duration,
    wanted: End,
    board: Board,
) -> anyhow::Result<End> {
    let exit = wait_exit(running, limit)?;
    let lines = running.lines();
    let lines: Vec<_> = lines.iter().map(|line| line.text.as_str()).collect();
    check_end(wanted, &exit, &lines, board)
}

/// Waits until QEMU ends. A fatal console line is an error.
fn wait_exit(running: &mut RunningMachine, limit: Duration) -> anyhow::Result<Exit> {
    match running.wait_where("its end", limit, |_| false) {
        Err(poorwill_machine::WaitError::Ended { exit, .. }) => Ok(exit),
        Err(error) => Err(error.into()),
        Ok(line) => bail!("an unexpected line came: {line:?}"),
    }
}

fn check_end(wanted: End, exit: &Exit, lines: &[&str], board: Board) -> anyhow::Result<End> {
    let has = |text: &str| lines.iter().any(|line| line.contains(text));
    let slept = has(SLEPT) || has(KEPT);
    let ended = match (exit.status.code(), slept) {
        // Without a power-off only a reset ends QEMU so.
        (Some(0), _) if !board.has(Part::TestDevice) => {
            match PASSED.into_iter().any(has) && !FAILED.into_iter().any(has) {
                true => Some(End::Success),
                false => Some(End::Off),
            }
        }
        (Some(0), true) => Some(End::Sleep),
        (Some(0), false) => Some(End::Off),
        (Some(SUCCESS), _) => Some(End::Success),
        (Some(power::LOST), _) => Some(End::PowerLost),
        _ => None,
    };
    let held = |ended: &End| match wanted {
        End::SleepsThenSuccess => matches!(ended, End::Sleep | End::Success),
        End::PowerFails => matches!(ended, End::Off | End::PowerLost),
        one => *ended == one,
    };
    ended.filter(held).with_context(|| {
        format!(
            "QEMU ended ({}) {} the firmware's sleep line; wanted {wanted:?}{}{}",
            exit.status,
            if slept { "after" } else { "without" },
            if exit.errors.is_empty() { "" } else { "; " },
            exit.errors.trim_end()
        )
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use poorwill_machine::{Machine, PowerOn as Switch, Qemu, Version};

    use super::*;

    /// How a machine without a test device ends, with a program in place of QEMU that prints `line`
    /// and ends as `then` says.
    fn ended(line: &str, then: &str) -> Result<End, String> {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("qemu");
        let script = format!("#!/bin/sh\necho '[    1.5] {line}'\n{then}\n");
        // Another process writes it, as no program runs while a child of another test has it open.
        let write = "printf %s \"$0\" >\"$1\" && chmod +x \"$1\"";
        let mut writer = Command::new("sh");
        let written = writer.args(["-c", write, &script]).arg(&program).status();
        assert!(written.unwrap().success());
        let version = Version(10, 0);
        let machine = Machine::on(Board::SifiveU, "firmware");
        let mut running = machine
            .power_on(&Qemu { program, version }, Switch::default())
            .unwrap();
        let limit = Duration::from_secs(2);
        wait_end(&mut running, limit, End::Success, Board::SifiveU)
            .map_err(|error| format!("{error:#}"))
    }

    const RESET: &str = "exit 0";
    const RUNS_ON: &str = "exec sleep 60";

    #[test]
    fn a_line_and_a_reset_are_a_success() {
        for passed in PASSED {
            assert_eq!(ended(passed, RESET), Ok(End::Success));
        }
    }

    #[test]
    fn a_line_without_a_reset_is_a_failure() {
        let reason = ended(PASSED[0], RUNS_ON).unwrap_err();
        assert!(reason.contains("timed out"), "{reason}");
        let reason = ended(PASSED[1], "exit 1").unwrap_err();
        assert!(reason.contains("exit status: 1"), "{reason}");
    }

    #[test]
    fn a_reset_without_a_line_is_a_failure() {
        for line in ["poorwill-tiny: ok", FAILED[0], FAILED[1]] {
            let reason = ended(line, RESET).unwrap_err();
            assert!(reason.contains("wanted Success"), "{reason}");
        }
        for (passed, failed) in PASSED.into_iter().zip(FAILED) {
            assert!(ended(&format!("{passed}' '{failed}"), RESET).is_err());
        }
    }

    #[test]
    fn neither_line_nor_reset_is_a_failure() {
        assert!(ended("poorwill-tiny: ok", RUNS_ON).is_err());
    }

    #[test]
    fn a_machine_with_a_test_device_has_its_exit_status() {
        let end = |code: i32| {
            let exit = Exit {
                status: std::os::unix::process::ExitStatusExt::from_raw(code << 8),
                at: Duration::ZERO,
                errors: String::new(),
                cpu_time: Duration::ZERO,
            };
            check_end(End::Success, &exit, &PASSED, Board::Virt)
        };
        assert_eq!(end(SUCCESS).unwrap(), End::Success);
        assert!(end(0).is_err() && end(1).is_err());
    }

    #[test]
    fn only_a_verdict_by_reset_needs_one_that_ends_qemu() {
        let of = |end, board| resets_with_verdict(&PowerOn::ending(end, 1), board);
        assert!(of(End::Success, Board::SifiveU));
        assert!(!of(End::Runs, Board::SifiveU) && !of(End::Success, Board::Virt));
    }
}
