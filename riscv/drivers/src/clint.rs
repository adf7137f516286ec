//! Time and timers of a CLINT, or of an ACLINT (RISC-V ACLINT 1.0, chapter 2).

use arrayvec::ArrayVec;
use poorwill_devicetree::MAX_MTIMES;

use crate::Registers;

/// The MTIME registers of a machine, one for each socket; all have the same value.
#[derive(Clone, Debug)]
pub struct Mtime<R>(ArrayVec<R, MAX_MTIMES>);

impl<R: Registers<u64>> Mtime<R> {
    /// Uses these registers.
    pub fn new(registers: ArrayVec<R, MAX_MTIMES>) -> Self {
        Mtime(registers)
    }

    /// Ticks now; 0 on a machine without the register.
    pub fn ticks(&self) -> u64 {
        self.0.first().map_or(0, |register| register.read(0))
    }

    /// Sets the time of all sockets.
    pub fn set(&self, ticks: u64) {
        for register in &self.0 {
            register.write(0, ticks);
        }
    }
}

/// A hart's MTIMECMP register: the machine timer is pending from the deadline on.
#[derive(Clone, Copy, Debug)]
pub struct Timer<R>(R);

/// A deadline that never comes.
const NEVER: u64 = u64::MAX;

impl<R: Registers<u64>> Timer<R> {
    /// Uses this register.
    pub fn new(register: R) -> Self {
        Timer(register)
    }

    /// The deadline in ticks of `time`; all ones without a deadline.
    pub fn deadline(&self) -> u64 {
        self.0.read(0)
    }

    /// Sets the deadline, without a spurious interrupt.
    pub fn set(&self, deadline: u64) {
        self.0.write(0, deadline);
    }

    /// Clears the deadline.
    pub fn stop(&self) {
        self.set(NEVER);
    }
}

/// Rate of `time`.
#[derive(Clone, Copy, Debug)]
pub struct Timebase {
    hertz: u64,
}

impl Timebase {
    /// `hertz`: ticks in a second.
    #[must_use]
    pub fn new(hertz: u64) -> Self {
        Timebase { hertz }
    }

    /// Converts nanoseconds to ticks.
    #[must_use]
    pub fn ticks_in(&self, nanoseconds: u64) -> u64 {
        scale(nanoseconds, self.hertz, 1_000_000_000)
    }

    /// Converts ticks to milliseconds.
    #[must_use]
    pub fn milliseconds_in(&self, ticks: u64) -> u64 {
        scale(ticks, 1000, self.hertz)
    }

    /// Converts ticks to microseconds.
    #[must_use]
    pub fn microseconds_in(&self, ticks: u64) -> u64 {
        scale(ticks, 1_000_000, self.hertz)
    }
}

/// `value * numerator / denominator` in 128 bits; saturates.
fn scale(value: u64, numerator: u64, denominator: u64) -> u64 {
    let wide = u128::from(value) * u128::from(numerator) / u128::from(denominator.max(1));
    u64::try_from(wide).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A 64-bit register.
    #[derive(Debug, Default)]
    struct Model(Cell<u64>);

    impl Registers<u64> for Model {
        fn read(&self, offset: u64) -> u64 {
            assert_eq!(offset, 0);
            self.0.get()
        }

        fn write(&self, offset: u64, value: u64) {
            assert_eq!(offset, 0);
            self.0.set(value);
        }
    }

    #[test]
    fn time_goes_on_alike_on_all_sockets() {
        let sockets = [Model(Cell::new(7)), Model(Cell::new(7))];
        let mtime = Mtime::new(sockets.iter().collect());
        assert_eq!(mtime.ticks(), 7);
        mtime.set(1 << 40);
        assert!(sockets.iter().all(|socket| socket.0.get() == 1 << 40));
        assert_eq!(Mtime::<Model>::new(ArrayVec::new()).ticks(), 0);
    }

    #[test]
    fn a_timer_rings_when_it_is_to() {
        let register = Model::default();
        let timer = Timer::new(&register);
        let is_pending = |now| now >= register.0.get();
        assert!(is_pending(0), "as after a reset");
        timer.set(100);
        assert_eq!(
            (timer.deadline(), is_pending(99), is_pending(100)),
            (100, false, true)
        );
        timer.stop();
        assert_eq!((timer.deadline(), is_pending(1 << 60)), (NEVER, false));
    }

    #[test]
    fn ticks_and_times_have_no_limit_but_their_own() {
        let base = Timebase::new(10_000_000);
        assert_eq!(base.ticks_in(1_000_000_000), 10_000_000);
        assert_eq!(base.ticks_in(99), 0);
        assert_eq!(base.milliseconds_in(10_000_000), 1000);
        assert_eq!(base.ticks_in(u64::MAX), u64::MAX / 100);
        assert_eq!(base.milliseconds_in(u64::MAX), u64::MAX / 10_000);
        assert_eq!(Timebase::new(1 << 40).ticks_in(u64::MAX), u64::MAX);
        assert_eq!(Timebase::new(1).milliseconds_in(u64::MAX), u64::MAX);
        assert_eq!(Timebase::new(0).milliseconds_in(1), 1000);
    }
}
