//! The interrupt controllers: what machine mode sets up at every power-on, and
//! the OS's state of them, saved and put back around a sleep.
//!
//! The OS programs them itself at boot, and takes for granted at a wake that
//! they are as it left them (see docs/architecture.md, "What a wake puts back").

mod imsic;

use arrayvec::ArrayVec;
use poorwill_devicetree::{MAX_PLICS, Machine};
use poorwill_drivers::aplic::{Domain, Root};
use poorwill_drivers::imsic::InterruptFile;
use poorwill_drivers::{Keeper, MAX_WORDS, Plic, State};
use poorwill_image::{Record, StateError, StateWriter};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use self::imsic::{MachineFile, SupervisorFile};
use crate::arch::csr;
use crate::hart::Hart;
use crate::platform::mmio::Mmio;

/// The interrupt identity of machine-mode IPIs.
pub(crate) const IPI_IDENTITY: u32 = 1;

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

    /// Writes down the OS's state; run on the hart that sleeps, whose IMSIC
    /// file only it can reach.
    ///
    /// # Errors
    ///
    /// [`StateError::NoRoom`].
    pub(crate) fn save(&self, into: &mut StateWriter<'_>) -> Result<(), StateError> {
        for plic in &self.plics {
            save::<_, MAX_WORDS>(plic, into)?;
        }
        if let Some(aplic) = &self.aplic {
            save::<_, MAX_WORDS>(aplic, into)?;
        }
        if let Some(file) = &self.file {
            save::<_, FILE_WORDS>(file, into)?;
        }
        Ok(())
    }

    /// Takes a record of an image in, once it is found to fit this machine;
    /// `false` when it is none of ours. Nothing is put back yet.
    ///
    /// # Errors
    ///
    /// [`StateError::Payload`] when it does not fit.
    pub(crate) fn read<'a>(
        &self,
        record: &Record<'a>,
        devices: &mut DeviceState<'a>,
        file: &mut Option<FileState>,
    ) -> Result<bool, StateError> {
        let plic = self.plics.get(devices.plics.len());
        match (record.tag, plic, &self.aplic, &self.file) {
            (Plic::<Mmio>::TAG, Some(plic), _, _) => {
                devices
                    .plics
                    .push(check(plic, words(plic, record)?, record)?);
            }
            (Domain::<Mmio>::TAG, _, Some(aplic), _) => {
                devices.aplic = Some(check(aplic, words(aplic, record)?, record)?);
            }
            (InterruptFile::<SupervisorFile>::TAG, _, _, Some(own)) => {
                let words = ArrayVec::try_from(words(own, record)?);
                let words = words.map_err(|_| refused(record))?;
                *file = Some(check(own, words, record)?);
            }
            _ => return Ok(false),
        }
        Ok(true)
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
            plic.restore(words);
        }
        if let (Some(aplic), Some(words)) = (&self.aplic, &state.aplic) {
            aplic.restore(words);
        }
    }

    /// Puts the calling hart's S-level interrupt file back.
    pub(crate) fn restore_file(&self, state: &FileState) {
        if let Some(file) = &self.file {
            file.restore(state);
        }
    }
}

/// Most words of an interrupt file.
const FILE_WORDS: usize = poorwill_drivers::imsic::MAX_WORDS;

/// An S-level interrupt file, read from an image.
pub(crate) type FileState = State<ArrayVec<u64, FILE_WORDS>>;

/// The registers of the controllers that all harts share, in an image.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeviceState<'a> {
    plics: ArrayVec<State<&'a [u32]>, MAX_PLICS>,
    aplic: Option<State<&'a [u32]>>,
}

/// Writes the state of a controller down, of at most `N` words.
fn save<K, const N: usize>(controller: &K, into: &mut StateWriter<'_>) -> Result<(), StateError>
where
    K: Keeper<Word: IntoBytes + Immutable>,
{
    let words: ArrayVec<K::Word, N> = controller.capture().collect();
    into.record(K::TAG, K::VERSION, &words[..])
}

/// The words of a record that a controller like this one has written.
fn words<'a, K>(_: &K, record: &Record<'a>) -> Result<&'a [K::Word], StateError>
where
    K: Keeper<Word: FromBytes + Immutable>,
{
    <[K::Word]>::ref_from_bytes(record.payload)
        .ok()
        .filter(|_| record.version == K::VERSION)
        .ok_or_else(|| refused(record))
}

/// The words of a record, if they fit this controller.
fn check<K: Keeper, S: AsRef<[K::Word]>>(
    controller: &K,
    words: S,
    record: &Record<'_>,
) -> Result<State<S>, StateError> {
    controller.check(words).map_err(|_| refused(record))
}

fn refused(record: &Record<'_>) -> StateError {
    StateError::Payload {
        tag: record.tag,
        version: record.version,
        found: record.payload.len(),
    }
}

/// Gets the calling hart's own IMSIC file ready to receive machine-mode IPIs.
pub(crate) fn start_hart(hart: &Hart) {
    if hart.description.machine_imsic.is_some() {
        poorwill_drivers::imsic::open(&MachineFile, IPI_IDENTITY);
    }
}

/// Lets the calling hart be woken through its IMSIC, if it has one, before the
/// device tree has been read.
pub(crate) fn open_doorbell() {
    if csr::try_read::<{ csr::MISELECT }>().is_some() {
        poorwill_drivers::imsic::open(&MachineFile, IPI_IDENTITY);
    }
}

/// Takes what has arrived in the calling hart's machine-mode IMSIC file.
pub(crate) fn take_machine_interrupts() {
    imsic::claim_machine_interrupt();
}
