//! What a hart holds for the OS, and the order in which it is put back.

mod access;
mod bank;
mod csr;
mod execution;
mod sections;
mod vector;

use arrayvec::ArrayVec;
use thiserror::Error;

pub use access::{CsrAccess, FileWords, FloatRegisters, HartAccess, MAX_FILE_WORDS};
pub use bank::{Bank, BankAccess, BankMisfit, MAX_RECORDS, PRIORITY_WORDS, RECORD_WORDS};
pub use csr::{Csr, CsrValue};
pub use execution::{Execution, NotOfTheOs};
pub use sections::{Section, SectionError, section};
pub use vector::{MAX_VLENB, VectorRegisters};

/// All that a hart holds for the OS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HartContext {
    /// Where the OS was stopped between any two instructions. `None` where it has
    /// called: it goes on at the address that it gave. Whoever enters the OS loads it;
    /// [`restore`](HartContext::restore) does not.
    pub execution: Option<Execution>,
    /// The CSRs that the hart has, in the order of [`Csr::ALL`].
    pub csrs: ArrayVec<CsrValue, { Csr::ALL.len() }>,
    /// `None` where the hart has none. `sstatus.FS` is not asked: an OS may turn the unit Off
    /// while the registers of a task stay in it, as Linux does at each kernel entry. So with
    /// the vector registers.
    pub float: Option<FloatRegisters>,
    /// Likewise.
    pub vector: Option<VectorRegisters>,
    /// When the OS's timer is to ring, in ticks of `time`, where machine mode keeps
    /// it.
    pub deadline: Option<u64>,
    /// The S-level interrupt file, where the hart has one.
    pub file: Option<FileWords>,
}

/// The hart holds what cannot be captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CaptureError {
    /// Its vector registers are longer than [`MAX_VLENB`].
    #[error("vector registers of {0} bytes cannot be kept, only of up to {MAX_VLENB}")]
    VectorLength(u64),
}

/// A context is another hart's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Misfit {
    /// There are floating point registers, and this hart has none.
    #[error("there are floating point registers, and this hart has none")]
    Float,
    /// The vector registers have another length.
    #[error("the vector registers have {saved} bytes, those of this hart {here}")]
    VectorLength {
        /// Of which length they are.
        saved: u64,
        /// Of which length they are here; zero where there are none.
        here: u64,
    },
    /// The interrupt file has other registers.
    #[error("the interrupt file's state has {saved} words, that of this hart {here}")]
    File {
        /// Words that it has.
        saved: usize,
        /// Words that it has here; zero where there is no file.
        here: usize,
    },
}

impl HartContext {
    /// What the calling hart holds.
    ///
    /// # Errors
    ///
    /// [`CaptureError`].
    pub fn capture(hart: &impl HartAccess) -> Result<Self, CaptureError> {
        let mut context = HartContext::default();
        context.capture_from(hart)?;
        Ok(context)
    }

    /// The same, in place: a context is large. [`execution`](HartContext::execution) stays
    /// as it is.
    ///
    /// # Errors
    ///
    /// [`CaptureError`].
    pub fn capture_from(&mut self, hart: &impl HartAccess) -> Result<(), CaptureError> {
        self.float = hart.read_float();
        let has_float = self.float.is_some();
        let csrs = Csr::ALL.iter().copied();
        // Those registers come with `fcsr`, which Zfinx has without them.
        let csrs = csrs.filter(|csr| *csr != Csr::Fcsr || !has_float);
        self.csrs.clear();
        self.csrs.extend(csrs.filter_map(|csr| {
            Some(CsrValue {
                number: csr.number().into(),
                value: hart.read_csr(csr)?,
            })
        }));
        self.deadline = hart.deadline();
        self.file = hart.file_words().map(|_| hart.read_file());
        self.vector = None;
        if let Some(vlenb) = hart.vector_bytes() {
            let too_long = CaptureError::VectorLength(vlenb);
            let registers = VectorRegisters::new(vlenb).ok_or(too_long)?;
            hart.read_vector(self.vector.insert(registers));
        }
        Ok(())
    }

    /// Whether all that the calling hart can hold can be captured.
    ///
    /// # Errors
    ///
    /// [`CaptureError`].
    pub fn check_capture(hart: &impl HartAccess) -> Result<(), CaptureError> {
        match hart.vector_bytes() {
            Some(vlenb) if VectorRegisters::new(vlenb).is_none() => {
                Err(CaptureError::VectorLength(vlenb))
            }
            _ => Ok(()),
        }
    }

    /// Whether it can be put back on a hart like the calling one.
    ///
    /// # Errors
    ///
    /// [`Misfit`].
    pub fn check(&self, hart: &impl HartAccess) -> Result<(), Misfit> {
        if self.float.is_some() && !hart.has_float() {
            return Err(Misfit::Float);
        }
        if let Some(VectorRegisters { vlenb: saved, .. }) = self.vector {
            let here = hart.vector_bytes().unwrap_or(0);
            if saved != here {
                return Err(Misfit::VectorLength { saved, here });
            }
        }
        if let Some(file) = &self.file {
            let (saved, here) = (file.len(), hart.file_words().unwrap_or(0));
            if saved != here {
                return Err(Misfit::File { saved, here });
            }
        }
        Ok(())
    }

    /// Puts it back on the calling hart, which it [fits](HartContext::check).
    ///
    /// The interrupt file comes before the CSRs, as it is reached through one of them,
    /// `siselect`. `sstatus` comes after the registers of the units and all other CSRs: it
    /// says of the units what the OS left there, Off included.
    pub fn restore(&self, hart: &impl HartAccess) {
        if let Some(words) = &self.file {
            hart.write_file(words);
        }
        if let Some(registers) = &self.float {
            hart.write_float(registers);
        }
        if let Some(registers) = &self.vector {
            hart.write_vector(registers);
        }
        let known = |saved: &CsrValue| Some((Csr::from_number(saved.number)?, saved.value));
        let csrs = || self.csrs.iter().filter_map(known);
        let is_status = |csr: &(Csr, u64)| csr.0 == Csr::Sstatus;
        let before_status = csrs().filter(|csr| !is_status(csr));
        for (csr, value) in before_status.chain(csrs().find(is_status)) {
            // A CSR that is as it was is not written: a write to `vstimecmp`, even of the
            // value that it holds, may make a timer ring that nobody has set.
            if hart.read_csr(csr) != Some(value) {
                hart.write_csr(csr, value);
            }
        }
        if let Some(deadline) = self.deadline
            && hart.deadline().is_some()
        {
            hart.set_deadline(deadline);
        }
    }
}
