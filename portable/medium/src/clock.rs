/// A monotonic clock, which limits all waits in this crate. It must advance between
/// reads.
pub trait Clock {
    /// Milliseconds since a fixed moment.
    fn milliseconds(&self) -> u64;

    /// Returns whether the power fails. Then waits end as if the device had not answered in time.
    /// Waits for a device to stop do not end.
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

/// Polls `condition` until it returns a value, `limit` milliseconds have passed, or the
/// power fails. The last poll starts after that, so a delayed hart does not blame the
/// device.
pub(crate) fn wait_for<T>(
    clock: &impl Clock,
    limit: u64,
    condition: impl FnMut() -> Option<T>,
) -> Option<T> {
    wait_until(clock, limit, || clock.power_fails(), condition)
}

/// As [`wait_for`], but ignores a power failure: for operations that must be complete before the
/// power is off.
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

/// Waits for at least `duration` milliseconds.
pub(crate) fn pause(clock: &impl Clock, duration: u64) {
    wait_for(clock, duration, || None::<()>);
}
