//! The interrupt controllers: what machine mode sets up at every power-on, and
//! the OS's state of them, saved and put back around a sleep.
//!
//! The OS programs them itself at boot, and takes for granted at a wake that
//! they are as it left them (see docs/architecture.md, "What a wake puts back").

use arrayvec::ArrayVec;
use poorwill_arch::Mmio;
use poorwill_arch::imsic::{self, SupervisorFile};
use poorwill_devicetree::{Machine, MessageFiles};
use poorwill_drivers::imsic::InterruptFile;
use poorwill_drivers::{ControllerState, Controllers, SectionKey, ShutDomains};
use poorwill_image::{StateError, StateSections, StateWriter};

/// Words of a controller's state that are on the stack at a time.
const PIECE_WORDS: usize = 32;

/// The interrupt controllers of the machine.
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
        // SAFETY: the tree, which is right, says the caller, names these addresses
        // as controllers of this machine.
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

    /// Those that all harts share.
    pub(crate) fn shared(&self) -> &Controllers<Mmio> {
        &self.shared
    }

    /// Writes down the OS's state, but for the harts' interrupt files, which are
    /// their own; of domains that are `shut`, as it was before.
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
            // A hart that stops has no stack for all of them at once.
            loop {
                let piece: ArrayVec<u32, PIECE_WORDS> = (&mut *words).take(PIECE_WORDS).collect();
                if piece.is_empty() {
                    break section.end();
                }
                section.append(&piece[..])?;
            }
        })
    }

    /// Writes down which sources are pending.
    ///
    /// # Errors
    ///
    /// [`StateError::NoRoom`].
    pub(crate) fn save_pending(&self, into: &mut StateWriter<'_>) -> Result<(), StateError> {
        self.shared
            .capture_pending(|key, words| into.section(key.owner, key.number, key.version, words))
    }

    /// Has the controllers interrupt again that were put back from these sections.
    ///
    /// # Errors
    ///
    /// [`StateError::Payload`] when one does not fit.
    pub(crate) fn let_out(&self, sections: &mut StateSections<'_>) -> Result<(), StateError> {
        let state = self.read(sections)?;
        self.shared.let_out(&state, |key| {
            let section = sections.take(key.owner, key.number)?;
            section.read(key.version).ok()
        });
        Ok(())
    }

    /// Takes the controllers' sections out of an image's state, once they are found to
    /// fit this machine. Nothing is put back yet.
    ///
    /// # Errors
    ///
    /// [`StateError::Payload`] when one does not fit.
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

    /// Whether the OS takes interrupts as messages at that address.
    pub(crate) fn takes_message(&self, address: u64) -> bool {
        self.files.take(address)
    }

    /// The calling hart's S-level interrupt file, where the machine has IMSICs.
    pub(crate) fn file(&self) -> Option<&InterruptFile<SupervisorFile>> {
        self.file.as_ref()
    }
}
