/// The harts that can share the work of a save or a load.
///
/// On the host they are threads, and in the simplest case there is only the
/// calling one ([`NoWorkers`]).
pub trait Workers: Sync {
    /// Runs `coordinate` on the calling hart and, meanwhile, `work` on every hart that
    /// has nothing else to do; returns when all of them have come back. Helpers
    /// may come late, or not at all.
    fn run(&self, coordinate: &mut dyn FnMut(), work: &(dyn Fn() + Sync));

    /// Tells resting workers that there is something to do.
    fn call(&self) {}

    /// What the coordinator does that finds nothing to do until the medium or a worker is
    /// further: it may rest, but not for longer than the medium can do without it.
    fn pause(&self) {
        core::hint::spin_loop();
    }

    /// What a worker does that finds nothing to do: it may wait for the next
    /// [`Workers::call`], and for any that it has not heard yet.
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
