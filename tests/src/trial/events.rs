//! Waits for the console's lines, and acts on the machine.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use poorwill_machine::RunningMachine;
use poorwill_machine::psu::{self, Power};
use poorwill_machine::qmp::Control;

use crate::plan::{Deed, Event, PowerOn};

/// The connections to a machine, and its files.
pub(super) struct Hands<'a> {
    pub(super) control: Option<Control>,
    /// The folder of the machine's sockets.
    pub(super) sockets: &'a Path,
    /// The file of persistent memory.
    pub(super) memory: &'a Path,
    /// Limit of each wait.
    pub(super) limit: Duration,
    /// The critical guest's serial line, once it is used.
    pub(super) line: Option<UnixStream>,
}

impl<'a> Hands<'a> {
    /// Connections to a machine without a control socket and persistent memory.
    pub(super) fn without_control(sockets: &'a Path, limit: Duration) -> Self {
        Hands {
            control: None,
            sockets,
            memory: sockets,
            limit,
            line: None,
        }
    }

    /// Carries out a power-on's events and rounds, and waits for its lines.
    pub(super) fn follow(
        &mut self,
        running: &mut RunningMachine,
        on: &PowerOn,
    ) -> anyhow::Result<()> {
        for event in &on.events {
            self.carry_out(running, event)?;
        }
        for round in 1..=on.rounds {
            let in_round = |text: &str| text.replace("{round}", &round.to_string());
            for event in &on.round {
                let mut event = event.clone();
                event.after = in_round(&event.after);
                if let Deed::Type(text) = &mut event.does {
                    *text = in_round(text);
                }
                let outcome = self.carry_out(running, &event);
                outcome.with_context(|| format!("round {round} of {}", on.rounds))?;
            }
        }
        for line in &on.lines {
            running.wait_for(line, self.limit)?;
        }
        Ok(())
    }

    fn carry_out(&mut self, running: &mut RunningMachine, event: &Event) -> anyhow::Result<()> {
        let (after, limit) = (&event.after, self.limit);
        let has_come = || (running.lines().iter()).any(|line| line.text.contains(after));
        if event.in_line {
            running.wait_for_prompt(after, limit)?;
        } else if !after.is_empty() && !(event.early && has_come()) {
            running.wait_for(after, limit)?;
        }
        let no_control = "there is no connection to QEMU's control socket";
        let control = self.control.as_mut().context(no_control);
        match &event.does {
            Deed::Nothing => {}
            Deed::Type(text) => running.send(text.as_bytes())?,
            Deed::Break => control?.send_break("console")?,
            Deed::Reset => control?.reset()?,
            Deed::PowerFails => psu::set(self.memory, Power::Fail)?,
            Deed::PowerGood => psu::set(self.memory, Power::Good)?,
            Deed::RunMs(ms) => running.run_for(Duration::from_millis(*ms))?,
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
