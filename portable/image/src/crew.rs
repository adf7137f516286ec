/// The harts that can share the work of a save or a load.
///
/// On the host they are threads, and in the simplest case there is only the
/// calling one ([`Alone`]).
pub trait Crew: Sync {
    /// Runs `lead` on the calling hart and, meanwhile, `help` on every hart that
    /// has nothing else to do; returns when all of them have come back. Helpers
    /// may come late, or not at all.
    fn run(&self, lead: &mut dyn FnMut(), help: &(dyn Fn() + Sync));

    /// Tells resting helpers that there is something to do.
    fn call(&self) {}

    /// What the lead does that finds nothing to do until the medium or a helper is
    /// further: it may rest, but not for longer than the medium can do without it.
    fn pause(&self) {
        core::hint::spin_loop();
    }

    /// What a helper does that finds nothing to do: it may wait for the next
    /// [`Crew::call`], and for any that it has not heard yet.
    fn rest(&self) {
        core::hint::spin_loop();
    }
}

/// A crew of one: the calling hart.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl Crew for Alone {
    fn run(&self, lead: &mut dyn FnMut(), _help: &(dyn Fn() + Sync)) {
        lead();
    }
}
