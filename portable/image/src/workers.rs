use thiserror::Error;

/// The power fails: whatever takes long is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the power fails")]
pub struct PowerFails;

/// The worker harts of a save or a load, and how the coordinator reaches them.
///
/// In tests they are threads; with [`NoWorkers`] the calling hart is alone.
pub trait Workers: Sync {
    /// Runs `coordinate` on the calling hart and, meanwhile, `work` on every idle hart.
    /// Returns when all of them have returned. Workers may join late, or not at all.
    fn run(&self, coordinate: &mut dyn FnMut(), work: &(dyn Fn() + Sync));

    /// Whether a save may go on. Once it may not, it never may again. All harts ask, at the
    /// latest after each page that they have hashed or sealed: it is to cost little.
    ///
    /// # Errors
    ///
    /// [`PowerFails`].
    fn go_on(&self) -> Result<(), PowerFails> {
        Ok(())
    }

    /// Wakes idle workers: there is work.
    fn call(&self) {}

    /// Called by the coordinator when it must wait for the medium or a worker. It may sleep,
    /// but not for longer than the medium can go without new commands.
    fn pause(&self) {
        core::hint::spin_loop();
    }

    /// Called by a worker without work. It may sleep until the next [`Workers::call`]; a call
    /// that came since the last one ends it at once.
    fn idle(&self) {
        core::hint::spin_loop();
    }
}

/// No workers: the calling hart does all the work.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoWorkers;

impl Workers for NoWorkers {
    fn run(&self, coordinate: &mut dyn FnMut(), _work: &(dyn Fn() + Sync)) {
        coordinate();
    }
}
