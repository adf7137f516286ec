//! Prepares the wake of a snapshot.

use poorwill_image::ImageKind;

use crate::area::AnyArea;
use crate::error::ColdBoot;
use crate::event::{Event, ImageUse};
use crate::machine::Machine;
use crate::warm_reset::BootAttempt;

/// A snapshot that may wake now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    /// Its OS has reported a good wake.
    is_proven: bool,
    /// Duration of its trial in ms.
    trial_ms: u32,
}

/// Prepares the wake of a snapshot, if there is one. Records a reset that ended its last wake. A
/// key on the console cancels the wake.
///
/// # Errors
///
/// [`ColdBoot::Key`].
pub(crate) fn ready<M: Machine>(
    machine: &M,
    area: &mut AnyArea<'_, '_>,
) -> Result<Option<Ready>, ColdBoot> {
    if let Some((attempt, ms)) = failed_attempt(machine)
        && let Err(error) = area.snapshot_was_reset(attempt.generation, ms)
    {
        machine.say(&Event::ResetNotKept(error));
    }
    let Some((_, _, attempts)) = area.snapshot() else {
        return Ok(None);
    };
    if area.newest().map(|image| image.kind()) != Ok(ImageKind::Snapshot) {
        return Ok(None);
    }
    let rules = area.configuration().unwrap_or_default().snapshots;
    if rules.key_ms != 0 {
        machine.say(&Event::PressKey(rules.key_ms));
        if machine.key_within(rules.key_ms) {
            return Err(ColdBoot::Key);
        }
    }
    Ok(Some(Ready {
        is_proven: attempts.proven,
        trial_ms: rules.trial_ms,
    }))
}

/// The snapshot's wake that a reset has ended, and the time from the wake to the reset in ms.
/// `None`: this is no reset, no snapshot ran, or its trial was over.
fn failed_attempt<M: Machine>(machine: &M) -> Option<(BootAttempt, u32)> {
    let attempt = machine.last_attempt()?;
    let ran_ms = machine.now_ns()?.saturating_sub(attempt.woken_at_ns) / 1_000_000;
    let ms = u32::try_from(ran_ms).unwrap_or(u32::MAX);
    (ran_ms <= attempt.trial_ms).then_some((attempt, ms))
}

impl Ready {
    /// The kind of image.
    pub(crate) fn image_use(self) -> ImageUse {
        ImageUse::Snapshot {
            is_proven: self.is_proven,
        }
    }

    /// Notes that the snapshot wakes. Without a clock that runs during a reset, the machine cannot
    /// know the duration of the trial.
    pub(crate) fn begin<M: Machine>(self, machine: &M, generation: u64) {
        if let Some(woken_at_ns) = machine.now_ns() {
            machine.begin_attempt(BootAttempt {
                generation,
                woken_at_ns,
                trial_ms: self.trial_ms.into(),
            });
        }
    }
}
