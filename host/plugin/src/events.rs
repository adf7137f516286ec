//! Raises the power-fail line and ends the power at the scheduled times.

use crate::ending::cut;
use crate::model::Guard;
use crate::report::{Cause, End};
use crate::schedule::Event;
use crate::session::{Session, fail};
use crate::signal;

/// Runs all events that are due now. The model is unlocked while they run.
pub(crate) fn fire<'a>(session: &'a Session, mut model: Guard<'a>) -> Guard<'a> {
    loop {
        let Some(now) = model.time.as_ref().map(|time| time.now()) else {
            return model;
        };
        if model.has_ended() {
            return model;
        }
        let Some(event) = model.schedule.due(now) else {
            return model;
        };
        drop(model);
        match event {
            Event::Signal => {
                if let Err(reason) = signal::raise(session, Cause::Time, None) {
                    fail(&reason);
                }
            }
            Event::HoldUpOver => cut(session, End::HoldUp),
        }
        model = session.model();
    }
}
