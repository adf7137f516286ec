/// The harts that can share the work of a save or a load.
///
/// Under no firmware they are threads, and in the simplest case there is only
/// the calling one ([`Alone`]).
pub trait Crew {
    /// Runs `job` at the same time on every hart that has nothing else to do,
    /// the calling one among them, and returns when the last has come back.
    /// A hart may come late, or not at all: the caller's own run must be
    /// enough to get the work done.
    fn run(&self, job: &(dyn Fn() + Sync));
}

/// A crew of one: the calling hart.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl Crew for Alone {
    fn run(&self, job: &(dyn Fn() + Sync)) {
        job();
    }
}
