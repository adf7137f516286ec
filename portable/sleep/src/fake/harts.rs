//! The harts of a fake machine.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use poorwill_image::{NoWorkers, PowerFails, Workers};

/// The harts of a [`FakeMachine`](super::FakeMachine): one.
#[derive(Debug, Default)]
pub struct FakeHarts {
    /// How often it has asked whether it may go on.
    pub looks: AtomicU64,
    /// The first time at which it may not, from 0.
    pub power_fails_at: Option<u64>,
    /// It does not look: what it does is done to its end.
    pub to_the_end: AtomicBool,
}

impl Workers for FakeHarts {
    fn run(&self, coordinate: &mut dyn FnMut(), work: &(dyn Fn() + Sync)) {
        NoWorkers.run(coordinate, work);
    }

    fn go_on(&self) -> Result<(), PowerFails> {
        if self.to_the_end.load(Ordering::Relaxed) {
            return Ok(());
        }
        let look = self.looks.fetch_add(1, Ordering::Relaxed);
        match self.power_fails_at {
            Some(at) if look >= at => Err(PowerFails),
            _ => Ok(()),
        }
    }
}
