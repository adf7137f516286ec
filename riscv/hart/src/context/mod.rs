//! What a hart holds for the OS, and the order in which it is put back.

mod access;
mod csr;
mod execution;
mod sections;
mod vector;

use arrayvec::ArrayVec;
use thiserror::Error;

pub use access::{CsrAccess, FileWords, FloatRegisters, HartAccess, MAX_FILE_WORDS};
pub use csr::{Csr, CsrValue};
pub use execution::{Execution, NotOfTheOs};
pub use sections::{Section, SectionError, section};
pub use vector::{MAX_VLENB, VectorRegisters};

/// Bits of `sstatus` (privileged specification, 10.1.1).
mod sstatus {
    /// The vector unit is not off.
    pub(super) const VS: u64 = 3 << 9;
    /// The floating point unit is not off.
    pub(super) const FS: u64 = 3 << 13;
}

/// All that a hart holds for the OS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HartContext {
    /// Where the OS was stopped between any two instructions. `None` where it has
    /// called: it goes on at the address that it gave. Whoever enters the OS loads it;
    /// [`restore`](HartContext::restore) does not.
    pub execution: Option<Execution>,
    /// The CSRs that the hart has, in the order of [`Csr::ALL`].
    pub csrs: ArrayVec<CsrValue, { Csr::ALL.len() }>,
    /// `None` where the OS has the unit off or the hart lacks it. An OS saves the
    /// registers when it switches tasks, which it need not have done for the task
    /// that asked for the sleep. So with the vector registers.
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
        self.csrs.clear();
        self.csrs.extend(Csr::ALL.iter().filter_map(|csr| {
            Some(CsrValue {
                number: csr.number().into(),
                value: hart.read_csr(*csr)?,
            })
        }));
        let status = hart.read_csr(Csr::Sstatus).unwrap_or(0);
        self.float = (status & sstatus::FS != 0).then(|| hart.read_float());
        self.deadline = hart.deadline();
        self.file = hart.file_words().map(|_| hart.read_file());
        self.vector = None;
        if status & sstatus::VS != 0
            && let Some(vlenb) = hart.vector_bytes()
        {
            let too_long = CaptureError::VectorLength(vlenb);
            let registers = VectorRegisters::new(vlenb).ok_or(too_long)?;
            hart.read_vector(self.vector.insert(registers));
        }
        Ok(())
    }

    /// Whether all that the calling hart may come to hold can be captured, whatever it holds
    /// now.
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
    /// The interrupt file comes before the CSRs, as it is reached through one of
    /// them, `siselect`. Of these `sstatus` comes first, which opens the floating
    /// point and the vector unit, and has their state as the OS left it.
    pub fn restore(&self, hart: &impl HartAccess) {
        if let Some(words) = &self.file {
            hart.write_file(words);
        }
        for CsrValue { number, value } in &self.csrs {
            // What is as it was is not touched: writing `vstimecmp`, even with what
            // it holds, may make a timer ring that nobody has set.
            if let Some(csr) = Csr::from_number(*number)
                && hart.read_csr(csr) != Some(*value)
            {
                hart.write_csr(csr, *value);
            }
        }
        if let Some(registers) = &self.float {
            hart.write_float(registers);
        }
        if let Some(registers) = &self.vector {
            hart.write_vector(registers);
        }
        if let Some(deadline) = self.deadline
            && hart.deadline().is_some()
        {
            hart.set_deadline(deadline);
        }
    }
}
