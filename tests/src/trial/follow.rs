//! Follows a power-on: acts on the machine, and checks its console and its end against the plan.

use std::time::Duration;

use anyhow::{Context, bail};
use poorwill_machine::{Exit, RunningMachine};

use super::Run;
use super::events::Hands;
use crate::console::{
    COLD_BOOT, KEPT, SLEPT, Start, WOKE, check_absent, check_order, check_refused, check_saved,
    matching,
};
use crate::plan::{End, PowerOn};
use crate::power;

/// QEMU's exit status when a guest reports success.
const SUCCESS: i32 = 42;

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
        let exit = match on.power_on {
            End::Runs => {
                running.run_for(Duration::from_millis(on.runs_on_ms))?;
                hands.end(running).map(|()| None)?
            }
            _ => Some(wait_exit(running, limit)?),
        };
        let lines = running.lines();
        let lines: Vec<_> = lines.iter().map(|line| line.text.as_str()).collect();
        let ended = exit.map_or(Ok(End::Runs), |exit| check_end(on.power_on, &exit, &lines))?;
        if !on.refused.is_empty() {
            check_refused(&lines, &on.refused, on.starts)?;
        } else if !on.any_start {
            start.check(&lines)?;
        }
        if let (Some(most), End::Sleep) = (self.trial.row.saved_ratio, ended) {
            check_saved(&lines, most)?;
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

/// Waits until QEMU ends. A fatal console line is an error.
fn wait_exit(running: &mut RunningMachine, limit: Duration) -> anyhow::Result<Exit> {
    match running.wait_where("its end", limit, |_| false) {
        Err(poorwill_machine::WaitError::Ended { exit, .. }) => Ok(exit),
        Err(error) => Err(error.into()),
        Ok(line) => bail!("an unexpected line came: {line:?}"),
    }
}

fn check_end(wanted: End, exit: &Exit, lines: &[&str]) -> anyhow::Result<End> {
    let slept = lines
        .iter()
        .any(|line| line.contains(SLEPT) || line.contains(KEPT));
    let ended = match (exit.status.code(), slept) {
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
