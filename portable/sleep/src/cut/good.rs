//! Waits at a start until the power is good.

/// Time in ms before the wait is reported. A short failure is over by then; after a long one the
/// power is off.
const GRACE_MS: u64 = 20;

/// The line that the machine prints after a longer wait.
const WAITS: &str = "waiting for the power: the power-fail line is active";

/// Waits until the line is no longer active, and reports that once. `now_ms` is the machine's
/// clock.
pub fn wait_for_power(
    is_active: impl Fn() -> bool,
    now_ms: impl Fn() -> u64,
    say: impl FnOnce(&str),
) {
    if !is_active() {
        return;
    }
    let began = now_ms();
    let mut say = Some(say);
    while is_active() {
        if now_ms().saturating_sub(began) >= GRACE_MS
            && let Some(say) = say.take()
        {
            say(WAITS);
        }
        core::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::ToOwned;
    use std::cell::{Cell, RefCell};
    use std::string::String;
    use std::vec;
    use std::vec::Vec;

    use super::*;

    /// A line that is active until that ms; each look at the clock takes one.
    fn said_until(active_until: u64) -> (Vec<String>, u64) {
        let now = Cell::new(0);
        let said = RefCell::new(Vec::new());
        wait_for_power(
            || now.get() < active_until,
            || {
                now.set(now.get() + 1);
                now.get()
            },
            |line| said.borrow_mut().push(line.to_owned()),
        );
        (said.into_inner(), now.get())
    }

    #[test]
    fn what_is_waited_for_is_said_once_and_not_at_once() {
        assert_eq!(said_until(0), (vec![], 0), "no look at the clock, either");
        assert_eq!(said_until(GRACE_MS / 2), (vec![], GRACE_MS / 2));
        for until in [GRACE_MS + 10, 100 * GRACE_MS] {
            assert_eq!(said_until(until), (vec![WAITS.to_owned()], until));
        }
    }
}
