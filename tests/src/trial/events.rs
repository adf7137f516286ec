//! Waits for the console's lines, and acts on the machine.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use poorwill_machine::RunningMachine;
use poorwill_machine::psu::{Link, Power, set};
use poorwill_machine::qmp::{Control, socket_arguments};

use super::bus::{self, Bus};
use crate::console::pattern;
use crate::domains::Watch;
use crate::plan::{Deed, Event, PowerOn};

/// Time limit for a connection to QEMU's control socket.
const CONNECT_LIMIT: Duration = Duration::from_secs(120);

/// QEMU's arguments for the sockets that a power-on needs.
pub(super) fn arguments(on: &PowerOn, sockets: &Path) -> Vec<OsString> {
    let mut arguments = Vec::new();
    if has_control(on) {
        arguments.extend(socket_arguments(&sockets.join("qmp")));
    }
    if !on.writes.is_empty() {
        arguments.extend(bus::arguments(sockets));
    }
    arguments
}

/// Whether an event of the power-on does this.
fn has(on: &PowerOn, does: impl Fn(&Deed) -> bool) -> bool {
    on.events.iter().any(|event| does(&event.does))
}

fn has_control(on: &PowerOn) -> bool {
    has(on, |deed| matches!(deed, Deed::Break | Deed::Reset))
        || on.frames.is_some()
        || !on.writes.is_empty()
}

pub(super) fn has_supply(on: &PowerOn) -> bool {
    has(on, |deed| {
        matches!(deed, Deed::PowerFails | Deed::PowerGood)
    })
}

/// The power supply's socket.
pub(super) fn psu(sockets: &Path) -> PathBuf {
    sockets.join("psu")
}

/// The connections to a machine, and its files.
pub(super) struct Hands<'a> {
    control: Option<Control>,
    /// The folder of the machine's sockets.
    sockets: &'a Path,
    /// The file of persistent memory.
    memory: &'a Path,
    /// Limit of each wait.
    limit: Duration,
    /// The critical guest's serial line, once it is used.
    line: Option<UnixStream>,
    /// What the critical guest shows.
    pub(super) watch: Option<Watch>,
    /// QEMU's test socket.
    bus: Option<Bus>,
    _link: Option<Link>,
}

impl<'a> Hands<'a> {
    /// No connections to a machine yet.
    pub(super) fn of(sockets: &'a Path, memory: &'a Path, limit: Duration) -> Self {
        Hands {
            control: None,
            sockets,
            memory,
            limit,
            line: None,
            watch: None,
            bus: None,
            _link: None,
        }
    }

    /// Makes the connections that a power-on needs. A machine that waits for its `writes` gets them,
    /// and is switched on.
    pub(super) fn connect(&mut self, on: &PowerOn) -> anyhow::Result<()> {
        if has_supply(on) {
            // The link's name needs the memory file, which exists now.
            self._link = Some(Link::make(self.memory, psu(self.sockets))?);
        }
        if has_control(on) {
            let socket = self.sockets.join("qmp");
            let mut control = Control::connect(&socket, CONNECT_LIMIT)?;
            if !on.writes.is_empty() {
                let bus = self.bus.insert(Bus::connect(self.sockets, self.limit)?);
                for [address, value] in &on.writes {
                    bus.write(*address, *value)?;
                }
                control.switch_on()?;
            }
            self.control = Some(control);
        }
        Ok(())
    }

    /// Carries out a power-on's events and rounds, and waits for its lines.
    pub(super) fn follow(
        &mut self,
        running: &mut RunningMachine,
        on: &PowerOn,
    ) -> anyhow::Result<()> {
        for event in &on.events {
            self.carry_out(running, event)?;
            for round in 1..=event.rounds {
                let outcome = (event.round.iter())
                    .try_for_each(|event| self.carry_out(running, &event.in_round(round)));
                outcome.with_context(|| format!("round {round} of {}", event.rounds))?;
            }
        }
        for line in &on.lines {
            running.wait_for(line, self.limit)?;
        }
        Ok(())
    }

    /// Ends the machine.
    pub(super) fn end(&mut self, running: &mut RunningMachine) -> anyhow::Result<()> {
        match self.control.take() {
            // QEMU and its plugin write the rest of their files.
            Some(control) => {
                control.quit()?;
                running.wait_exit(self.limit)?;
            }
            None => drop(running.kill()?),
        }
        Ok(())
    }

    fn carry_out(&mut self, running: &mut RunningMachine, event: &Event) -> anyhow::Result<()> {
        let (after, limit) = (&event.after, self.limit);
        let has_come = |is_it: &dyn Fn(&str) -> bool| {
            event.early && (running.lines().iter()).any(|line| is_it(&line.text))
        };
        if let Some(text) = &event.matches {
            let pattern = pattern(text)?;
            if !has_come(&|line| pattern.is_match(line)) {
                running.wait_where(text, limit, |line| pattern.is_match(line))?;
            }
        } else if event.in_line {
            running.wait_for_prompt(after, limit)?;
        } else if !(after.is_empty() || has_come(&|line| line.contains(after))) {
            running.wait_for(after, limit)?;
        }
        let no_control = "there is no connection to QEMU's control socket";
        let control = self.control.as_mut().context(no_control);
        match &event.does {
            Deed::Nothing => {}
            Deed::Type(text) => running.send(text.as_bytes())?,
            Deed::Break => control?.send_break("console")?,
            Deed::Reset => control?.reset()?,
            Deed::PowerFails => set(self.memory, Power::Fail)?,
            Deed::PowerGood => set(self.memory, Power::Good)?,
            Deed::RunMs(ms) => running.run_for(Duration::from_millis(*ms))?,
            Deed::Frames(number) => {
                let watch = self.watch.as_mut().context("the plan has no `frames`")?;
                watch.wait_for_frames(running, *number, limit)?;
            }
            Deed::Part(name) => {
                let watch = self.watch.as_mut().context("the plan has no `frames`")?;
                watch.end_part(name)?;
            }
            Deed::Write([address, value]) => {
                let bus = self.bus.as_mut().context("the plan has no `writes`")?;
                bus.write(*address, *value)?;
            }
            Deed::Trigger(text) => {
                let line = match &mut self.line {
                    Some(line) => line,
                    none => none.insert(UnixStream::connect(self.sockets.join("trigger"))?),
                };
                line.write_all(text.as_bytes())?;
            }
        }
        Ok(())
    }
}
