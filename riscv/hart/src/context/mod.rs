//! The OS's state on a hart, and the order of restoring it.

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

/// The OS's state on a hart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HartContext {
    /// The registers of an OS that was stopped between any two instructions. `None` after an SBI
    /// call: the OS continues at the address that it gave. The code that enters the OS loads them;
    /// [`restore`](HartContext::restore) does not.
    pub execution: Option<Execution>,
    /// The CSRs that the hart has, in the order of [`Csr::ALL`].
    pub csrs: ArrayVec<CsrValue, { Csr::ALL.len() }>,
    /// `None` on a hart without them. `sstatus.FS` does not matter: an OS may turn the unit Off and
    /// leave a task's registers in it, as Linux does at each kernel entry. The same holds for the
    /// vector registers.
    pub float: Option<FloatRegisters>,
    /// `None` on a hart without them.
    pub vector: Option<VectorRegisters>,
    /// Deadline of the OS's timer in ticks of `time`, if machine mode keeps it.
    pub deadline: Option<u64>,
    /// The S-level interrupt file, if the hart has one.
    pub file: Option<FileWords>,
}

/// The hart has state that cannot be captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CaptureError {
    /// Its vector registers are longer than [`MAX_VLENB`].
    #[error("vector registers of {0} bytes cannot be saved; the maximum is {MAX_VLENB}")]
    VectorLength(u64),
}

/// A saved context does not fit this hart.
#[expect(missing_docs, reason = "the messages say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Misfit {
    #[error("the state has floating-point registers, but this hart does not")]
    Float,
    #[error("the state's vector registers have {saved} bytes, but this hart's {here}")]
    VectorLength {
        /// Bytes of a saved register.
        saved: u64,
        /// Bytes of a register of this hart; 0 without any.
        here: u64,
    },
    #[error("the state's interrupt file has {saved} words, but this hart's {here}")]
    File {
        /// Words that were saved.
        saved: usize,
        /// Words on this hart; 0 without a file.
        here: usize,
    },
}

impl HartContext {
    /// Captures the calling hart's state.
    ///
    /// # Errors
    ///
    /// [`CaptureError`].
    pub fn capture(hart: &impl HartAccess) -> Result<Self, CaptureError> {
        let mut context = HartContext::default();
        context.capture_from(hart)?;
        Ok(context)
    }

    /// As [`capture`](Self::capture), in place, since a context is large.
    /// [`execution`](HartContext::execution) stays unchanged.
    ///
    /// # Errors
    ///
    /// [`CaptureError`].
    pub fn capture_from(&mut self, hart: &impl HartAccess) -> Result<(), CaptureError> {
        self.float = hart.read_float();
        let has_float = self.float.is_some();
        let csrs = Csr::ALL.iter().copied();
        // The floating-point registers include `fcsr`. A hart with Zfinx has only `fcsr`.
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

    /// Checks that all state of the calling hart can be captured.
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

    /// Checks that the context can be restored on the calling hart.
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

    /// Restores the context on the calling hart, which it [fits](HartContext::check).
    ///
    /// The interrupt file comes before the CSRs, because it is accessed through one of them,
    /// `siselect`. `sstatus` comes last: it holds the OS's states of the units, possibly Off.
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
            // Unchanged CSRs are not written: a write of `vstimecmp`, even of its own value, may
            // raise a timer interrupt that the OS has not set.
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
