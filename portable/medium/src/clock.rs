/// A clock that never goes back, and that advances while it is being read:
/// every wait in this crate ends by it.
pub trait Clock {
    /// Milliseconds since some fixed moment.
    fn milliseconds(&self) -> u64;

    /// Whether the power fails: then a device is waited for no longer, as if it had not
    /// answered in time, unless it is to be stopped.
    fn power_fails(&self) -> bool {
        false
    }
}

impl<K: Clock + ?Sized> Clock for &K {
    fn milliseconds(&self) -> u64 {
        (**self).milliseconds()
    }

    fn power_fails(&self) -> bool {
        (**self).power_fails()
    }
}

/// Looks at `condition` until it yields something, `limit` milliseconds have
/// gone by, or the power fails; it is looked at once more after that, so that a hart that
/// was kept from running does not blame the device.
pub(crate) fn wait_for<T>(
    clock: &impl Clock,
    limit: u64,
    condition: impl FnMut() -> Option<T>,
) -> Option<T> {
    wait_until(clock, limit, || clock.power_fails(), condition)
}

/// The same, whether the power fails or not: for what must have ended when it is gone.
pub(crate) fn wait_firmly<T>(
    clock: &impl Clock,
    limit: u64,
    condition: impl FnMut() -> Option<T>,
) -> Option<T> {
    wait_until(clock, limit, || false, condition)
}

fn wait_until<T>(
    clock: &impl Clock,
    limit: u64,
    is_over: impl Fn() -> bool,
    mut condition: impl FnMut() -> Option<T>,
) -> Option<T> {
    let begin = clock.milliseconds();
    loop {
        let late = clock.milliseconds().saturating_sub(begin) > limit || is_over();
        if let Some(value) = condition() {
            return Some(value);
        }
        if late {
            return None;
        }
        core::hint::spin_loop();
    }
}

/// Lets at least `duration` milliseconds go by.
pub(crate) fn pause(clock: &impl Clock, duration: u64) {
    wait_for(clock, duration, || None::<()>);
}
