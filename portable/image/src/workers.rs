use thiserror::Error;

/// The error of long operations that stop because the power fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the power fails")]
pub struct PowerFails;

/// The worker harts of a save or a load, and how the coordinator controls them.
///
/// Tests use threads; with [`NoWorkers`] the calling hart is alone.
pub trait Workers: Sync {
    /// Runs `coordinate` on the calling hart and, at the same time, `work` on each idle
    /// hart. Returns after all of them have returned. Workers may join late, or not at
    /// all.
    fn run(&self, coordinate: &mut dyn FnMut(), work: &(dyn Fn() + Sync));

    /// Returns whether a save may continue. After the first error, all later calls fail, too. Each
    /// hart calls this at least once for each page that it hashes or seals, so it must be fast.
    ///
    /// # Errors
    ///
    /// [`PowerFails`].
    fn go_on(&self) -> Result<(), PowerFails> {
        Ok(())
    }

    /// Wakes idle workers for new work.
    fn call(&self) {}

    /// The coordinator calls this while it waits for the medium or a worker. It may
    /// sleep, but not longer than the medium can work without new commands.
    fn pause(&self) {
        core::hint::spin_loop();
    }

    /// A worker without work calls this. It may sleep until the next [`Workers::call`]; a
    /// call since the last sleep ends it at once.
    fn idle(&self) {
        core::hint::spin_loop();
    }
}

/// A machine without workers: the calling hart does all the work.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoWorkers;

impl Workers for NoWorkers {
    fn run(&self, coordinate: &mut dyn FnMut(), _work: &(dyn Fn() + Sync)) {
        coordinate();
    }
}
