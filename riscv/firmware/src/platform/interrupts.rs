//! The interrupt controllers: machine mode's setup at every power-on, and the OS's state, which a
//! sleep saves and restores.
//!
//! The OS programs them only at boot, and expects their state unchanged after a wake
//! (docs/architecture.md).

use arrayvec::ArrayVec;
use poorwill_arch::Mmio;
use poorwill_arch::imsic::{self, SupervisorFile};
use poorwill_devicetree::{Machine, MessageFiles};
use poorwill_drivers::imsic::InterruptFile;
use poorwill_drivers::{ControllerState, Controllers, SectionKey, ShutDomains};
use poorwill_image::{StateError, StateSections, StateWriter};

/// Words of a controller's state on the stack at a time.
const PIECE_WORDS: usize = 32;

#[derive(Debug)]
pub(crate) struct Interrupts {
    shared: Controllers<Mmio>,
    file: Option<InterruptFile<SupervisorFile>>,
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
            file: (described.os_imsic)
                .map(|layout| InterruptFile::new(SupervisorFile, layout.identities)),
            files: MessageFiles::new(
                &machine.harts,
                described.os_imsic.as_ref(),
                imsic::guest_files(),
            ),
        }
    }

    pub(crate) fn shared(&self) -> &Controllers<Mmio> {
        &self.shared
    }

    /// Writes the OS's state, without the harts' interrupt files. For `shut` domains the state from
    /// before counts.
    ///
    /// # Errors
    ///
    /// [`StateError::NoRoom`].
    pub(crate) fn save(
        &self,
        shut: Option<&ShutDomains>,
        into: &mut StateWriter<'_>,
    ) -> Result<(), StateError> {
        self.shared.capture(shut, |key, words| {
            let mut section = into.begin(key.owner, key.number, key.version);
            // A stopping hart's stack cannot hold all words at once.
            loop {
                let piece: ArrayVec<u32, PIECE_WORDS> = (&mut *words).take(PIECE_WORDS).collect();
                if piece.is_empty() {
                    break section.end();
                }
                section.append(&piece[..])?;
            }
        })
    }

    /// Writes the pending sources.
    ///
    /// # Errors
    ///
    /// [`StateError::NoRoom`].
    pub(crate) fn save_pending(&self, into: &mut StateWriter<'_>) -> Result<(), StateError> {
        self.shared
            .capture_pending(|key, words| into.section(key.owner, key.number, key.version, words))
    }

    /// Opens the controllers that were restored from these sections.
    ///
    /// # Errors
    ///
    /// [`StateError::Payload`] if one does not fit.
    pub(crate) fn let_out(&self, sections: &mut StateSections<'_>) -> Result<(), StateError> {
        let state = self.read(sections)?;
        self.shared.let_out(&state, |key| {
            let section = sections.take(key.owner, key.number)?;
            section.read(key.version).ok()
        });
        Ok(())
    }

    /// Takes the controllers' sections out of an image's state, and checks that they fit this
    /// machine. Restores nothing yet.
    ///
    /// # Errors
    ///
    /// [`StateError::Payload`] if one does not fit.
    pub(crate) fn read<'a>(
        &self,
        sections: &mut StateSections<'a>,
    ) -> Result<ControllerState<'a>, StateError> {
        let take = |key: SectionKey| {
            let section = sections.take(key.owner, key.number);
            section.map(|section| section.read(key.version)).transpose()
        };
        self.shared.check(take, |key, length| StateError::Payload {
            owner: key.owner,
            version: key.version,
            found: length.found * size_of::<u32>(),
        })
    }

    /// Returns whether the OS receives message-signalled interrupts at this address.
    pub(crate) fn takes_message(&self, address: u64) -> bool {
        self.files.take(address)
    }

    /// The calling hart's S-level interrupt file, if the machine has IMSICs.
    pub(crate) fn file(&self) -> Option<&InterruptFile<SupervisorFile>> {
        self.file.as_ref()
    }
}
