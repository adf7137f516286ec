//! The interrupt controllers: machine mode's setup at every power-on, and the OS's state, which a
//! sleep saves and restores.
//!
//! The OS programs them only at boot, and expects their state unchanged after a wake
//! (docs/architecture.md).

use arrayvec::ArrayVec;
use poorwill_arch::Mmio;
use poorwill_arch::imsic;
use poorwill_devicetree::{Machine, MessageFiles};
use poorwill_drivers::{ControllerState, Controllers, SectionKey};
use poorwill_image::{StateError, StateSections, StateWriter};
use poorwill_sleep::NotKept;

use super::platform;
use poorwill_state::{Keep, Saving, Section, Store};

/// Words of a controller's state on the stack at a time.
const PIECE_WORDS: usize = 32;

#[derive(Debug)]
pub(crate) struct Interrupts {
    shared: Controllers<Mmio>,
    files: MessageFiles,
}

impl Interrupts {
    /// The controllers that the device tree names.
    ///
    /// # Safety
    ///
    /// `machine` describes this machine; one value for a machine.
    pub(crate) unsafe fn new(machine: &Machine) -> Self {
        let described = &machine.interrupts;
        // SAFETY: by the caller's contract the tree is right; it names these addresses as
        // controllers.
        let mmio = |address| unsafe { Mmio::new(address) };
        Interrupts {
            shared: Controllers::new(described, mmio),
            files: MessageFiles::new(&machine.harts, imsic::guest_files()),
        }
    }

    pub(crate) fn shared(&self) -> &Controllers<Mmio> {
        &self.shared
    }

    /// Returns whether the OS receives message-signalled interrupts at this address.
    pub(crate) fn takes_message(&self, address: u64) -> bool {
        self.files.take(address)
    }
}

/// The OS's state of the controllers that all harts share. Interrupt files belong to their harts.
pub(crate) struct KeptControllers;

impl Keep for KeptControllers {
    const SECTIONS: &'static [Section] = &Controllers::<Mmio>::SECTIONS;

    type State<'a> = ControllerState<'a>;

    /// Saves pending bits only for a cut: before an image the OS suspends its devices, so no bits are
    /// pending.
    fn save(&self, saving: &Saving<'_>, into: &mut StateWriter<'_>) -> Result<(), NotKept> {
        let controllers = platform().interrupts.shared();
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
        let controllers = platform().interrupts.shared();
        controllers.check(take, |key, length| StateError::Payload {
            owner: key.owner,
            version: key.version,
            found: length.found * size_of::<u32>(),
        })
    }

    fn put_back(&self, _: Store, state: &ControllerState<'_>) {
        platform().interrupts.shared().put_back(state);
    }

    /// Opens the controllers after a cut. After an image the waking hart does that.
    fn let_out(&self, _: Store, state: &ControllerState<'_>) {
        platform().interrupts.shared().let_out(state);
    }
}
