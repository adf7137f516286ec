/// A clock that never goes back, and that advances while it is being read:
/// every wait in this crate ends by it.
pub trait Clock {
    /// Milliseconds since some fixed moment.
    fn milliseconds(&self) -> u64;
}

impl<K: Clock + ?Sized> Clock for &K {
    fn milliseconds(&self) -> u64 {
        (**self).milliseconds()
    }
}

/// Looks at `condition` until it yields something or `limit` milliseconds have
/// gone by; it is looked at once more after that, so that a hart that was kept
/// from running does not blame the device.
pub(crate) fn wait_for<T>(
    clock: &impl Clock,
    limit: u64,
    mut condition: impl FnMut() -> Option<T>,
) -> Option<T> {
    let begin = clock.milliseconds();
    loop {
        let late = clock.milliseconds().saturating_sub(begin) > limit;
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
