//! A core with something beside it, which acts before each entry of translated code.

use poorwill_memory::PhysRange;
use poorwill_translate::fake::FakeHost;
use poorwill_translate::fake_core::FakeCore;
use poorwill_translate::{Core, Environment, Left, Region, Watch};

/// Such a core. `before` takes the address of the entry, and returns the trap that comes instead of it.
pub(crate) struct Beside<'a, F> {
    pub(crate) core: FakeCore<'a>,
    pub(crate) before: F,
}

impl<F: FnMut(&FakeHost, u64, Watch) -> Option<Left>> Core for Beside<'_, F> {
    fn enter(
        &mut self,
        x: &mut [u64; 32],
        memory: (&Region, &mut Environment),
        at: u64,
        watch: Watch,
    ) -> Left {
        match (self.before)(self.core.host, at, watch) {
            Some(left) => left,
            None => self.core.enter(x, memory, at, watch),
        }
    }

    fn fence_instructions(&mut self) {
        self.core.fence_instructions();
    }

    fn protect(&mut self, text: PhysRange) -> bool {
        self.core.protect(text)
    }
}
