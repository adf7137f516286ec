//! The interrupt controllers: what machine mode sets up at every power-on, and
//! the OS's state of them, saved and put back around a sleep.
//!
//! The OS programs them itself at boot, and takes for granted at a wake that
//! they are as it left them (see docs/architecture.md, "What a wake puts back").

mod aplic;
mod imsic;
mod plic;

use arrayvec::ArrayVec;
use poorwill_devicetree::{MAX_HARTS, MAX_PLICS, Machine};
use poorwill_image::{Record, StateError, StateWriter};
use zerocopy::{FromBytes, Immutable};

pub(crate) use imsic::FileState;

use crate::arch::csr;
use crate::hart::Hart;
use crate::platform::mmio::Mmio;

/// The interrupt controllers of the machine.
#[derive(Debug)]
pub(crate) struct Interrupts {
    plics: ArrayVec<plic::Plic, MAX_PLICS>,
    aplic: Option<aplic::Aplic>,
    identities: Option<u32>,
}

impl Interrupts {
    /// The controllers that the device tree names.
    ///
    /// # Safety
    ///
    /// `machine` describes this machine; one value for a machine.
    pub(crate) unsafe fn new(machine: &Machine) -> Self {
        let described = &machine.interrupts;
        Interrupts {
            plics: (described.plics.iter())
                // SAFETY: passed on to the caller.
                .map(|plic| unsafe { plic::Plic::new(plic) })
                .collect(),
            // SAFETY: passed on to the caller.
            aplic: unsafe { aplic::Aplic::new(described) },
            identities: described.os_imsic.map(|layout| layout.identities),
        }
    }

    /// What the OS finds at a power-on.
    pub(crate) fn start(&self) {
        self.plics.iter().for_each(plic::Plic::start);
        if let Some(aplic) = &self.aplic {
            aplic.start();
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
            plic.save(into)?;
        }
        if let Some(aplic) = &self.aplic {
            aplic.save(into)?;
        }
        if let Some(identities) = self.identities {
            imsic::save(identities, into)?;
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
        match (record.tag, plic, &self.aplic, self.identities) {
            (plic::Plic::TAG, Some(plic), _, _) => devices.plics.push(plic.read(record)?),
            (aplic::Aplic::TAG, _, Some(aplic), _) => devices.aplic = Some(aplic.read(record)?),
            (imsic::TAG, _, _, Some(identities)) => {
                *file = Some(FileState::read(identities, record)?);
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
        if let (Some(aplic), Some(words)) = (&self.aplic, state.aplic) {
            aplic.restore(words);
        }
    }
}

/// The registers of the controllers that all harts share, in an image.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeviceState<'a> {
    plics: ArrayVec<&'a [u32], MAX_PLICS>,
    aplic: Option<&'a [u32]>,
}

/// Gets the calling hart's own IMSIC file ready to receive machine-mode IPIs.
pub(crate) fn start_hart(hart: &Hart) {
    if hart.description.machine_imsic.is_some() {
        imsic::start_machine_file();
    }
}

/// Lets the calling hart be woken through its IMSIC, if it has one, before the
/// device tree has been read.
pub(crate) fn open_doorbell() {
    if csr::try_read::<{ csr::MISELECT }>().is_some() {
        imsic::start_machine_file();
    }
}

/// Takes what has arrived in the calling hart's machine-mode IMSIC file.
pub(crate) fn take_machine_interrupts() {
    imsic::take_machine_interrupts();
}

/// The interrupt identity that machine mode uses for its IPIs.
pub(crate) const IPI_IDENTITY: u32 = imsic::IPI_IDENTITY;

/// Most registers of a controller: an APLIC's with 1023 sources and delivery
/// controls for every hart, and a PLIC's with as many.
const MAX_REGISTERS: usize = 2 * 1024 + 32 + MAX_HARTS * 33;

/// A controller whose state is a list of 32-bit registers.
trait RegisterSet {
    /// Tag of its record in an image.
    const TAG: u32;
    /// Version of the record: which registers, in which order.
    const VERSION: u16;

    /// The registers.
    fn registers(&self) -> Mmio;

    /// The offsets of those that keep the OS's state, in the order in which they
    /// are put back. Pending bits are not among them: they are the devices' to
    /// raise again.
    fn offsets(&self) -> impl Iterator<Item = usize>;

    /// Writes the state down.
    fn save(&self, into: &mut StateWriter<'_>) -> Result<(), StateError> {
        let words: ArrayVec<u32, MAX_REGISTERS> = self
            .offsets()
            .map(|offset| self.registers().read32(offset))
            .collect();
        into.record(Self::TAG, Self::VERSION, &words[..])
    }

    /// The words of an image's record, if they fit this machine.
    fn read<'a>(&self, record: &Record<'a>) -> Result<&'a [u32], StateError> {
        words(record, Self::VERSION, self.offsets().count())
    }

    /// Puts the state back.
    fn restore(&self, words: &[u32]) {
        for (offset, word) in self.offsets().zip(words) {
            self.registers().write32(offset, *word);
        }
    }
}

/// The words of a record that must have this version and length.
fn words<'a, T>(record: &Record<'a>, version: u16, count: usize) -> Result<&'a [T], StateError>
where
    T: FromBytes + Immutable,
{
    <[T]>::ref_from_bytes(record.payload)
        .ok()
        .filter(|words| record.version == version && words.len() == count)
        .ok_or(StateError::Payload {
            tag: record.tag,
            version: record.version,
            found: record.payload.len(),
        })
}
