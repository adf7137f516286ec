//! The interrupt controllers: what machine mode sets up at every power-on, and
//! the OS's state of them, saved and put back around a sleep.
//!
//! The OS programs them itself at boot, and takes for granted at a wake that
//! they are as it left them (see docs/architecture.md, "What a wake puts back").

mod imsic;

use arrayvec::ArrayVec;
use poorwill_devicetree::{self as devicetree, MAX_PLICS, Machine};
use poorwill_drivers::aplic::{Domain, Root};
use poorwill_drivers::imsic::InterruptFile;
use poorwill_drivers::{Keeper, MAX_WORDS, Plic, State};
use poorwill_image::{StateError, StateSections, StateWriter};
use poorwill_manifest::SectionVersion;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use self::imsic::MachineFile;
pub(crate) use self::imsic::SupervisorFile;
use crate::arch::IPI_IDENTITY;
use crate::platform::mmio::Mmio;

/// The sections of the controllers' state that are read here.
pub(crate) const SECTIONS: [SectionVersion; 2] =
    [section_of::<Plic<Mmio>>(), section_of::<Domain<Mmio>>()];

const fn section_of<K: Keeper>() -> SectionVersion {
    SectionVersion {
        owner: K::TAG,
        version: K::VERSION,
    }
}

/// The interrupt controllers of the machine.
#[derive(Debug)]
pub(crate) struct Interrupts {
    plics: ArrayVec<Plic<Mmio>, MAX_PLICS>,
    root: Option<Root<Mmio>>,
    aplic: Option<Domain<Mmio>>,
    file: Option<InterruptFile<SupervisorFile>>,
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
        let plics = described.plics.iter();
        let os = described.os_aplic.as_ref();
        // Without a domain of the OS there is nobody to hand sources to.
        let root = os.and(described.machine_aplic.as_ref());
        let imsics = described.machine_imsic.zip(described.os_imsic);
        Interrupts {
            plics: plics.map(|plic| Plic::new(mmio(plic.base), plic)).collect(),
            root: root.map(|root| Root::new(mmio(root.base), root, imsics.map(Into::into))),
            aplic: os.map(|os| Domain::new(mmio(os.base), os)),
            file: (described.os_imsic)
                .map(|layout| InterruptFile::new(SupervisorFile, layout.identities)),
        }
    }

    /// What the OS finds at a power-on.
    pub(crate) fn start(&self) {
        self.plics.iter().for_each(Plic::start);
        if let Some(root) = &self.root {
            root.start();
        }
    }

    /// Writes down the OS's state, but for the harts' interrupt files, which are
    /// their own.
    ///
    /// # Errors
    ///
    /// [`StateError::NoRoom`].
    pub(crate) fn save(&self, into: &mut StateWriter<'_>) -> Result<(), StateError> {
        for (number, plic) in (0..).zip(&self.plics) {
            save::<_, MAX_WORDS>(plic, number, into)?;
        }
        if let Some(aplic) = &self.aplic {
            save::<_, MAX_WORDS>(aplic, 0, into)?;
        }
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
    ) -> Result<DeviceState<'a>, StateError> {
        let mut devices = DeviceState::default();
        for (number, plic) in (0..).zip(&self.plics) {
            devices.plics.push(read(plic, number, sections)?);
        }
        if let Some(aplic) = &self.aplic {
            devices.aplic = read(aplic, 0, sections)?;
        }
        Ok(devices)
    }

    /// Makes a source of the OS's APLIC domain pending that no device drives. One
    /// that the OS does not use is inactive, and stays as it is.
    pub(super) fn raise(&self, source: u32) {
        if let Some(aplic) = &self.aplic {
            aplic.raise(source);
        }
    }

    /// Puts the controllers' registers back.
    pub(crate) fn restore(&self, state: &DeviceState<'_>) {
        for (plic, words) in self.plics.iter().zip(&state.plics) {
            if let Some(words) = words {
                plic.restore(words);
            }
        }
        if let (Some(aplic), Some(words)) = (&self.aplic, &state.aplic) {
            aplic.restore(words);
        }
    }

    /// The calling hart's S-level interrupt file, where the machine has IMSICs.
    pub(crate) fn file(&self) -> Option<&InterruptFile<SupervisorFile>> {
        self.file.as_ref()
    }
}

/// The registers of the controllers that all harts share, in an image.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeviceState<'a> {
    plics: ArrayVec<Option<State<&'a [u32]>>, MAX_PLICS>,
    aplic: Option<State<&'a [u32]>>,
}

/// Writes the state of a controller down, of at most `N` words.
fn save<K, const N: usize>(
    controller: &K,
    number: u16,
    into: &mut StateWriter<'_>,
) -> Result<(), StateError>
where
    K: Keeper<Word: IntoBytes + Immutable>,
{
    let words: ArrayVec<K::Word, N> = controller.capture().collect();
    into.section(K::TAG, number, K::VERSION, &words[..])
}

/// The state of a controller, if the image has one and it fits.
fn read<'a, K>(
    controller: &K,
    number: u16,
    sections: &mut StateSections<'a>,
) -> Result<Option<State<&'a [K::Word]>>, StateError>
where
    K: Keeper<Word: FromBytes + Immutable>,
{
    let Some(section) = sections.take(K::TAG, number) else {
        return Ok(None);
    };
    let words = section.read::<[K::Word]>(K::VERSION)?;
    let state = controller.check(words).map_err(|_| section.refuse())?;
    Ok(Some(state))
}

/// Gets the calling hart's own IMSIC file, if it has one, ready to receive
/// machine-mode IPIs.
pub(crate) fn start_hart(hart: &devicetree::Hart) {
    if hart.machine_imsic.is_some() {
        poorwill_drivers::imsic::open(&MachineFile, IPI_IDENTITY);
    }
}

/// Takes what has arrived in the calling hart's machine-mode IMSIC file.
pub(crate) fn take_machine_interrupts() {
    imsic::claim_machine_interrupt();
}
