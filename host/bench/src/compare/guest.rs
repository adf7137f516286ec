//! The Debian guest that does what its serial line says
//! (`guest/overlay/usr/local/lib/poorwill/compare`).

use std::time::Duration;

use anyhow::{Context, bail};
use poorwill_machine::console::{Fields, Line};
use poorwill_machine::{Exit, Machine, PowerOn, Qemu, RunningMachine, interrupt};

use crate::not_had::CONSOLE;

use super::figures::{ColdBoot, Hibernation, PlainCopy, Sleep, Wake};

/// Console lines that end a measurement wherever they come.
const FAILURES: [&str; 5] = [
    "Kernel panic",
    "poorwill: panic",
    "poorwill-guest: FAIL",
    "poorwill-compare: FAIL",
    "poorwill-initramfs: FAIL",
];

const REDIS: &str = "poorwill-guest: redis ready";

/// Slow hosts take their time; a machine that hangs must still be found out.
const BOOT_LIMIT: Duration = Duration::from_secs(240);
const RESUME_LIMIT: Duration = Duration::from_secs(120);
const WORK_LIMIT: Duration = Duration::from_secs(240);
const DOWN_LIMIT: Duration = Duration::from_secs(240);
const ANSWER_LIMIT: Duration = Duration::from_secs(240);

/// What the guest says just before it sleeps.
const SLEEPING: &str = "poorwill-compare: sleeping";

/// A guest that runs.
#[derive(Debug)]
pub(super) struct Guest {
    running: RunningMachine,
    /// How long redis is waited for.
    answer_limit: Duration,
}

/// A wake, as far as it could be measured.
#[derive(Debug)]
pub(super) struct Woken {
    pub(super) wake: Wake,
    /// How long the kernel took to go down.
    pub(super) kernel_down_ms: Option<f64>,
    /// What was in use at the sleep, where the guest's line came only now.
    pub(super) used_bytes: Option<u64>,
    /// Why the guest did not say that it is awake. Nothing else can be asked of it.
    pub(super) silent: Option<anyhow::Error>,
}

/// A guest that was told to go down, when it was told.
struct Down {
    used_bytes: u64,
    asked_at: Duration,
}

impl Down {
    /// As the guest's line says, which begins with `word`.
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

    /// Boots until the guest listens.
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

    /// The kernel's `Run /init` may be drowned on the console; redis's line is not.
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

    /// Has so many MiB of memory in use.
    pub(super) fn fill(&mut self, mib: u64) -> anyhow::Result<()> {
        let filled = self.command(
            &format!("fill {mib}"),
            "poorwill-compare: filled",
            WORK_LIMIT,
        );
        self.explain(filled, "filling the guest's memory").map(drop)
    }

    /// Sleeps, until QEMU has ended. The kernel's own part is told after the wake.
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
        // The guest's line is in its console's queue. On a busy host it may leave it only after
        // the wake.
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

    /// Wakes.
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

    /// Adds what the woken guest says, as far as it does.
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

    /// Moves so many bytes plainly. The host's part stays zero.
    pub(super) fn plain(&mut self, bytes: u64) -> anyhow::Result<PlainCopy> {
        let plain = self.command(
            &format!("plain {bytes}"),
            "poorwill-compare: plain",
            WORK_LIMIT,
        );
        let plain = self.explain(plain, "reading and writing plainly")?;
        Ok(PlainCopy {
            read_bytes: number(&plain, "read_bytes")?,
            read_ms: float(number(&plain, "read_ms")?),
            write_bytes: number(&plain, "write_bytes")?,
            write_ms: float(number(&plain, "write_ms")?),
            ..PlainCopy::default()
        })
    }

    /// Hibernates, until QEMU has ended.
    pub(super) fn hibernate(&mut self) -> anyhow::Result<Hibernation> {
        let measured = self.time_hibernation();
        self.explain(measured, "hibernating")
    }

    fn time_hibernation(&mut self) -> anyhow::Result<Hibernation> {
        let down = self.go_down("hibernate", "poorwill-compare: hibernating")?;
        // The kernel tells that it could not in so many ways; one is to go on.
        let failures: Vec<_> = FAILURES.into_iter().chain([REDIS]).collect();
        self.running.fail_on(&failures);
        let exit = self.end()?;
        Ok(Hibernation {
            used_bytes: down.used_bytes,
            save_ms: ms(exit.at.saturating_sub(down.asked_at)),
            ..Hibernation::default()
        })
    }

    /// Comes back from hibernation: adds that to `measured`.
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
        guest.explain(timed, "coming back from hibernation")?;
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

    /// Has the guest's client of redis wait for [`Self::ask`]. For a guest that
    /// will not notice that it was away.
    pub(super) fn listen(&mut self) -> anyhow::Result<()> {
        let listening = self.command("listen", "poorwill-compare: listening", WORK_LIMIT);
        self.explain(listening, "having the guest listen").map(drop)
    }

    /// Has the client that listens ask redis at once, and tells when it was
    /// answered.
    pub(super) fn ask(&mut self) -> anyhow::Result<f64> {
        let asked = self
            .running
            .send(b"ask\n")
            .map_err(anyhow::Error::from)
            .and_then(|()| Ok(self.running.wait_for(REDIS, self.answer_limit)?));
        Ok(ms(self.explain(asked, "asking redis")?.at))
    }

    /// Since power-on.
    pub(super) fn elapsed_ms(&self) -> f64 {
        ms(self.running.elapsed())
    }

    /// Waits for QEMU's end, which somebody else has asked for; how long after
    /// power-on it came.
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

    /// Adds what was being done and the console's end to an error.
    fn explain<T>(&self, outcome: anyhow::Result<T>, what: &str) -> anyhow::Result<T> {
        outcome.with_context(|| format!("{what}{CONSOLE}\n{}\n", self.running.tail(15).join("\n")))
    }
}

fn fields(line: &Line, prefix: &str) -> anyhow::Result<Fields> {
    Fields::parse(&line.text, prefix).with_context(|| format!("not understood: {}", line.text))
}

fn number(fields: &Fields, key: &str) -> anyhow::Result<u64> {
    match fields.number(key) {
        Some(number) => Ok(number),
        None => bail!("the console tells no {key} in {fields:?}"),
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds are few")]
fn float(milliseconds: u64) -> f64 {
    milliseconds as f64
}

#[cfg(test)]
mod tests;
