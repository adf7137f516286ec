use super::csr::Csr;
use super::vector::VectorRegisters;

/// f0 to f31 and fcsr.
pub type FloatRegisters = [u64; 33];

/// Maximum words of an interrupt file's state: threshold, delivery, and the pending and enable bits
/// of 2047 identities (AIA, section 3.8).
pub const MAX_FILE_WORDS: usize = 2 + 2 * 32;

/// State of an S-level interrupt file, including pending interrupts.
pub type FileWords = arrayvec::ArrayVec<u64, MAX_FILE_WORDS>;

/// The OS's CSRs on the calling hart.
pub trait CsrAccess {
    /// Reads a CSR; `None` where the hart lacks it.
    fn read_csr(&self, csr: Csr) -> Option<u64>;

    /// Writes a CSR. Does nothing if the hart lacks it.
    fn write_csr(&self, csr: Csr, value: u64);
}

/// The OS's other state on the calling hart, for [`HartContext`](super::HartContext). Tests have a
/// model.
pub trait HartAccess: CsrAccess {
    /// Returns whether the hart has floating-point registers, for every value of `sstatus.FS`. This
    /// call and the next two leave the field unchanged.
    fn has_float(&self) -> bool;

    /// Reads the floating-point registers, also while `sstatus.FS` is Off, which does not destroy
    /// them. `None` on a hart without them.
    fn read_float(&self) -> Option<FloatRegisters>;

    /// Writes the floating-point registers, which the hart has.
    fn write_float(&self, registers: &FloatRegisters);

    /// `vlenb`, the bytes of a vector register, for every value of `sstatus.VS`; `None` on a hart
    /// without them. This call and the next two leave the field unchanged.
    fn vector_bytes(&self) -> Option<u64>;

    /// Reads the vector registers, also while `sstatus.VS` is Off. Each has
    /// [`vector_bytes`](HartAccess::vector_bytes) bytes, at most [`MAX_VLENB`](super::MAX_VLENB).
    fn read_vector(&self, into: &mut VectorRegisters);

    /// Writes the vector registers; they have the hart's length.
    fn write_vector(&self, registers: &VectorRegisters);

    /// Words of the S-level interrupt file's state, at most [`MAX_FILE_WORDS`]; `None` without a
    /// file.
    fn file_words(&self) -> Option<usize>;

    /// Reads the file, which the hart has.
    fn read_file(&self) -> FileWords;

    /// Writes the file, with its number of words.
    fn write_file(&self, words: &[u64]);

    /// Deadline of the OS's timer in ticks of `time`, if machine mode keeps it; `None` if the OS
    /// does (Sstc).
    fn deadline(&self) -> Option<u64>;

    /// Sets the deadline, which machine mode keeps.
    fn set_deadline(&self, deadline: u64);
}
