//! The OS's state of the interrupt controllers, which a sleep saves and restores.
//!
//! The OS programs them only at boot, and expects their state unchanged after a wake
//! (docs/architecture.md).

use arrayvec::ArrayVec;
use poorwill_arch::Mmio;
use poorwill_drivers::{ControllerState, Controllers, SectionKey};
use poorwill_image::{StateError, StateSections, StateWriter};
use poorwill_sleep::NotKept;

use super::generation_id::GenerationId;
use super::platform;
use poorwill_state::{Keep, Saving, Section, Store};

pub(crate) use super::controllers::Interrupts;

/// Words of a controller's state on the stack at a time.
const PIECE_WORDS: usize = 32;

impl GenerationId {
    /// Interrupts the OS because of new bytes. The OS's interrupt controllers must be restored
    /// first.
    pub(crate) fn announce(&self) {
        platform().interrupts.shared().raise(self.source.source);
    }
}

/// A domain's state of the controllers that its harts share. Interrupt files belong to their harts.
pub(crate) struct KeptControllers {
    /// The domain's index.
    pub(crate) domain: u8,
}

impl Keep for KeptControllers {
    const SECTIONS: &'static [Section] = &Controllers::<Mmio>::SECTIONS;

    type State<'a> = ControllerState<'a>;

    /// Saves pending bits only for a cut: before an image the OS suspends its devices, so no bits are
    /// pending.
    fn save(&self, saving: &Saving<'_>, into: &mut StateWriter<'_>) -> Result<(), NotKept> {
        let controllers = platform().interrupts.of(self.domain);
        controllers.capture(saving.shut, |key, words| {
            let mut section = into.begin(key.owner, key.number, key.version);
            // A stopping hart's stack cannot hold all words at once.
            loop {
                let piece: ArrayVec<u32, PIECE_WORDS> = (&mut *words).take(PIECE_WORDS).collect();
                if piece.is_empty() {
                    break section.end();
                }
                section.append(&piece[..])?;
            }
        })?;
        if saving.store == Store::Record {
            controllers.capture_pending(|key, words| {
                into.section(key.owner, key.number, key.version, words)
            })?;
        }
        Ok(())
    }

    fn check<'a>(
        &self,
        _: Store,
        sections: &mut StateSections<'a>,
    ) -> Result<ControllerState<'a>, StateError> {
        let take = |key: SectionKey| sections.take_payload((key.owner, key.version), key.number);
        let controllers = platform().interrupts.of(self.domain);
        controllers.check(take, |key, length| StateError::Payload {
            owner: key.owner,
            version: key.version,
            found: length.found * size_of::<u32>(),
        })
    }

    fn put_back(&self, _: Store, state: &ControllerState<'_>) {
        platform().interrupts.of(self.domain).put_back(state);
    }

    /// Opens the controllers after a cut. After an image the waking hart does that.
    fn let_out(&self, _: Store, state: &ControllerState<'_>) {
        platform().interrupts.of(self.domain).let_out(state);
    }
}
