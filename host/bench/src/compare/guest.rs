//! The Debian guest, which takes commands on its serial line
//! (`guest/overlay/usr/local/lib/poorwill/compare`).

use std::time::Duration;

use anyhow::{Context, bail};
use poorwill_machine::console::{FAILURES, Fields, Line};
use poorwill_machine::{Exit, Machine, PowerOn, Qemu, RunningMachine, interrupt};

use crate::not_measured::CONSOLE;

use super::figures::{ColdBoot, Hibernation, PlainCopy, Sleep, Wake};

pub(crate) const REDIS: &str = "poorwill-guest: redis ready";

/// Longer than a slow host needs; a machine that hangs ends the measurement.
const BOOT_LIMIT: Duration = Duration::from_secs(240);
const RESUME_LIMIT: Duration = Duration::from_secs(120);
const WORK_LIMIT: Duration = Duration::from_secs(240);
const DOWN_LIMIT: Duration = Duration::from_secs(240);
const ANSWER_LIMIT: Duration = Duration::from_secs(240);

/// Begins the guest's last console line before a sleep.
const SLEEPING: &str = "poorwill-compare: sleeping";

/// A running guest.
#[derive(Debug)]
pub(super) struct Guest {
    running: RunningMachine,
    /// Time limit for redis's answer.
    answer_limit: Duration,
}

/// A wake, with the figures that could be measured.
#[derive(Debug)]
pub(super) struct Woken {
    pub(super) wake: Wake,
    /// Time of the kernel's suspend before the sleep.
    pub(super) kernel_down_ms: Option<f64>,
    /// Memory in use at the request to sleep. `None`: the guest's line came before the wake, and is
    /// in the sleep's figures.
    pub(super) used_bytes: Option<u64>,
    /// Why the guest did not report its wake. It then takes no further command.
    pub(super) silent: Option<anyhow::Error>,
}

/// The time of the guest's request to go down, and its memory in use.
struct Down {
    used_bytes: u64,
    asked_at: Duration,
}

impl Down {
    /// Parses the guest's line, which starts with `word`.
    fn of(line: &Line, word: &str) -> anyhow::Result<Self> {
        Ok(Down {
            used_bytes: number(&fields(line, word)?, "used_kib")? << 10,
            asked_at: line.at,
        })
    }
}

impl Guest {
    fn of(running: RunningMachine) -> Self {
        Guest {
            running,
            answer_limit: ANSWER_LIMIT,
        }
    }

    pub(super) fn power_on(machine: &Machine, qemu: &Qemu) -> anyhow::Result<Self> {
        let mut running = machine.power_on(qemu, PowerOn::default())?;
        running.fail_on(&FAILURES);
        Ok(Guest::of(running))
    }

    /// Boots the guest until it takes commands.
    pub(super) fn cold_boot(machine: &Machine, qemu: &Qemu) -> anyhow::Result<(Self, ColdBoot)> {
        let mut guest = Self::power_on(machine, qemu)?;
        let measured = guest.time_cold_boot();
        let measured = guest.explain(measured, "booting the guest")?;
        Ok((guest, measured))
    }

    fn time_cold_boot(&mut self) -> anyhow::Result<ColdBoot> {
        let firmware = self.running.wait_for("poorwill: cold boot", BOOT_LIMIT)?;
        let (first_program, redis) = self.first_program_and_redis(BOOT_LIMIT)?;
        self.running
            .wait_for("poorwill-compare: ready", BOOT_LIMIT)?;
        Ok(ColdBoot {
            firmware_at_ms: ms(firmware.at),
            first_program_at_ms: first_program.map(|line| ms(line.at)),
            total_ms: ms(redis.at),
        })
    }

    /// Waits for the kernel's first program and for redis's answer. Other console output may break
    /// up the kernel's `Run /init`, but not redis's line.
    fn first_program_and_redis(&mut self, limit: Duration) -> anyhow::Result<(Option<Line>, Line)> {
        let line = self
            .running
            .wait_where("the kernel's first program", limit, |line| {
                line.contains("Run /init") || line.contains(REDIS)
            })?;
        if line.text.contains(REDIS) {
            return Ok((None, line));
        }
        let redis = self.running.wait_for(REDIS, limit)?;
        Ok((Some(line), redis))
    }

    /// Fills memory until `mib` MiB are in use.
    pub(super) fn fill(&mut self, mib: u64) -> anyhow::Result<()> {
        let filled = self.command(
            &format!("fill {mib}"),
            "poorwill-compare: filled",
            WORK_LIMIT,
        );
        self.explain(filled, "filling the guest's memory").map(drop)
    }

    /// Sleeps, and waits until QEMU has ended. The guest reports the kernel's part after the wake.
    pub(super) fn sleep(&mut self) -> anyhow::Result<Sleep> {
        let measured = self.time_sleep();
        self.explain(measured, "going to sleep")
    }

    fn time_sleep(&mut self) -> anyhow::Result<Sleep> {
        const FIRMWARE: &str = "poorwill: sleep ";
        self.running.send(b"sleep\n")?;
        let mut line = self.running.wait_where(SLEEPING, WORK_LIMIT, |line| {
            line.contains(SLEEPING) || line.contains(FIRMWARE)
        })?;
        // The guest writes the line before the sleep, but a busy host may deliver it only after the
        // wake.
        let mut down = None;
        if line.text.contains(SLEEPING) {
            down = Some(Down::of(&line, SLEEPING)?);
            line = self.running.wait_for(FIRMWARE, DOWN_LIMIT)?;
        }
        let line = fields(&line, FIRMWARE)?;
        let exit = self.end()?;
        Ok(Sleep {
            used_bytes: down.as_ref().map(|down| down.used_bytes),
            saved_bytes: number(&line, "saved_bytes")?,
            total_ms: down.map(|down| ms(exit.at.saturating_sub(down.asked_at))),
            kernel_ms: None,
            firmware_ms: float(number(&line, "ms")?),
            save_ms: float(number(&line, "save_ms")?),
        })
    }

    pub(super) fn wake(machine: &Machine, qemu: &Qemu) -> anyhow::Result<(Self, Woken)> {
        let mut running = machine.power_on(qemu, PowerOn::default())?;
        let failures: Vec<_> = FAILURES
            .into_iter()
            .chain(["poorwill: cold boot"])
            .collect();
        running.fail_on(&failures);
        let mut guest = Guest::of(running);
        let measured = guest.time_wake();
        let woken = guest.explain(measured, "waking")?;
        Ok((guest, woken))
    }

    fn time_wake(&mut self) -> anyhow::Result<Woken> {
        let handed_over = self
            .running
            .wait_for("poorwill: wake ", self.answer_limit)?;
        let line = fields(&handed_over, "poorwill: wake ")?;
        let mut woken = Woken {
            wake: Wake {
                loaded_bytes: number(&line, "loaded_bytes")?,
                handed_over_at_ms: ms(handed_over.at),
                firmware_ms: float(number(&line, "ms")?),
                load_ms: float(number(&line, "load_ms")?),
                kernel_ms: None,
                total_ms: None,
            },
            kernel_down_ms: None,
            used_bytes: None,
            silent: None,
        };
        let answered = self.time_answer(&mut woken);
        woken.silent = self.explain(answered, "waiting for redis's answer").err();
        interrupt::check()?;
        let mut lines = self.running.lines().into_iter();
        let late = lines.find(|line| line.text.contains(SLEEPING));
        woken.used_bytes = late.and_then(|line| Some(Down::of(&line, SLEEPING).ok()?.used_bytes));
        Ok(woken)
    }

    /// Adds the figures that the woken guest reports.
    fn time_answer(&mut self, woken: &mut Woken) -> anyhow::Result<()> {
        let redis = self.running.wait_for(REDIS, self.answer_limit)?;
        woken.wake.total_ms = Some(ms(redis.at));
        let line = self
            .running
            .wait_for("poorwill-compare: woke", self.answer_limit)?;
        let line = fields(&line, "poorwill-compare: woke")?;
        woken.wake.kernel_ms = line.milliseconds("kernel_ms").map(ms);
        woken.kernel_down_ms = line.milliseconds("kernel_down_ms").map(ms);
        Ok(())
    }

    /// Makes the guest copy `bytes` plainly. The host's figures stay zero.
    pub(super) fn plain(&mut self, bytes: u64) -> anyhow::Result<PlainCopy> {
        let plain = self.command(
            &format!("plain {bytes}"),
            "poorwill-compare: plain",
            WORK_LIMIT,
        );
        let plain = self.explain(plain, "plain reads and writes")?;
        Ok(PlainCopy {
            read_bytes: number(&plain, "read_bytes")?,
            read_ms: float(number(&plain, "read_ms")?),
            write_bytes: number(&plain, "write_bytes")?,
            write_ms: float(number(&plain, "write_ms")?),
            ..PlainCopy::default()
        })
    }

    /// Hibernates Linux, and waits until QEMU has ended.
    pub(super) fn hibernate(&mut self) -> anyhow::Result<Hibernation> {
        let measured = self.time_hibernation();
        self.explain(measured, "hibernating")
    }

    fn time_hibernation(&mut self) -> anyhow::Result<Hibernation> {
        let down = self.go_down("hibernate", "poorwill-compare: hibernating")?;
        // The kernel reports a failure in many ways. In each case redis still answers.
        let failures: Vec<_> = FAILURES.into_iter().chain([REDIS]).collect();
        self.running.fail_on(&failures);
        let exit = self.end()?;
        Ok(Hibernation {
            used_bytes: down.used_bytes,
            save_ms: ms(exit.at.saturating_sub(down.asked_at)),
            ..Hibernation::default()
        })
    }

    /// Resumes from hibernation, and adds the times to `measured`.
    pub(super) fn resume(
        machine: &Machine,
        qemu: &Qemu,
        measured: &mut Hibernation,
    ) -> anyhow::Result<Self> {
        let mut guest = Self::power_on(machine, qemu)?;
        let failures: Vec<_> = FAILURES
            .into_iter()
            .chain(["poorwill-compare: ready", "EXT4-fs"])
            .collect();
        guest.running.fail_on(&failures);
        let timed = guest.time_resume(measured);
        guest.explain(timed, "resuming from hibernation")?;
        guest.running.fail_on(&FAILURES);
        Ok(guest)
    }

    fn time_resume(&mut self, measured: &mut Hibernation) -> anyhow::Result<()> {
        let firmware = self.running.wait_for("poorwill: cold boot", BOOT_LIMIT)?;
        let (first_program, redis) = self.first_program_and_redis(RESUME_LIMIT)?;
        self.running
            .wait_for("poorwill-compare: resumed", self.answer_limit)?;
        measured.firmware_at_ms = ms(firmware.at);
        measured.first_program_at_ms = first_program.map(|line| ms(line.at));
        measured.total_ms = ms(redis.at);
        Ok(())
    }

    /// Makes the guest's redis client wait for [`Self::ask`]. A guest that QEMU restores does not
    /// notice it, so it cannot ask redis by itself.
    pub(super) fn listen(&mut self) -> anyhow::Result<()> {
        let listening = self.command("listen", "poorwill-compare: listening", WORK_LIMIT);
        self.explain(listening, "having the guest listen").map(drop)
    }

    /// Makes the waiting client ask redis at once, and returns the time of the answer.
    pub(super) fn ask(&mut self) -> anyhow::Result<f64> {
        let asked = self
            .running
            .send(b"ask\n")
            .map_err(anyhow::Error::from)
            .and_then(|()| Ok(self.running.wait_for(REDIS, self.answer_limit)?));
        Ok(ms(self.explain(asked, "asking redis")?.at))
    }

    pub(super) fn elapsed_ms(&self) -> f64 {
        ms(self.running.elapsed())
    }

    /// Waits for QEMU's end, which the caller has requested by QMP. Returns the time since
    /// power-on.
    pub(super) fn wait_end(&mut self) -> anyhow::Result<f64> {
        let exit = self.end();
        Ok(ms(self.explain(exit, "waiting for QEMU's end")?.at))
    }

    fn go_down(&mut self, command: &str, answer: &str) -> anyhow::Result<Down> {
        self.running.send(format!("{command}\n").as_bytes())?;
        let line = self.running.wait_for(answer, WORK_LIMIT)?;
        Down::of(&line, answer)
    }

    fn command(&mut self, command: &str, answer: &str, limit: Duration) -> anyhow::Result<Fields> {
        self.running.send(format!("{command}\n").as_bytes())?;
        let line = self.running.wait_for(answer, limit)?;
        fields(&line, answer)
    }

    fn end(&mut self) -> anyhow::Result<Exit> {
        let exit = self.running.wait_exit(DOWN_LIMIT)?;
        exit.check()?;
        Ok(exit)
    }

    /// Adds the step's name and the last console lines to an error.
    fn explain<T>(&self, outcome: anyhow::Result<T>, what: &str) -> anyhow::Result<T> {
        outcome.with_context(|| format!("{what}{CONSOLE}\n{}\n", self.running.tail(15).join("\n")))
    }
}

fn fields(line: &Line, prefix: &str) -> anyhow::Result<Fields> {
    Fields::parse(&line.text, prefix).with_context(|| format!("unknown line: {}", line.text))
}

fn number(fields: &Fields, key: &str) -> anyhow::Result<u64> {
    match fields.number(key) {
        Some(number) => Ok(number),
        None => bail!("the console's line lacks {key}: {fields:?}"),
    }
}

pub(crate) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds are few")]
fn float(milliseconds: u64) -> f64 {
    milliseconds as f64
}

#[cfg(test)]
mod tests;
