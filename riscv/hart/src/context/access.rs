use super::csr::Csr;
use super::vector::VectorRegisters;

/// f0 to f31 and fcsr.
pub type FloatRegisters = [u64; 33];

/// Most words of an interrupt file's state: threshold, delivery, and the pending and
/// the enable bits of 2047 identities (AIA, section 3.8).
pub const MAX_FILE_WORDS: usize = 2 + 2 * 32;

/// The state of an S-level interrupt file, pending interrupts included.
pub type FileWords = arrayvec::ArrayVec<u64, MAX_FILE_WORDS>;

/// The OS's CSRs on the hart that runs the call.
pub trait CsrAccess {
    /// Reads a CSR; `None` where the hart lacks it.
    fn read_csr(&self, csr: Csr) -> Option<u64>;

    /// Writes a CSR. On a hart that lacks it nothing happens.
    fn write_csr(&self, csr: Csr, value: u64);
}

/// The hart that runs the call, as [`HartContext`](super::HartContext) reaches what
/// it holds for the OS beside its CSRs. Tests have a model.
pub trait HartAccess: CsrAccess {
    /// Whether the hart has floating point registers, whatever `sstatus.FS` says. The field
    /// is the same afterwards, as with the next two.
    fn has_float(&self) -> bool;

    /// Reads the floating point registers, also while `sstatus.FS` is Off: Off does not
    /// destroy them. `None` where the hart has none.
    fn read_float(&self) -> Option<FloatRegisters>;

    /// Writes them; called where there are some.
    fn write_float(&self, registers: &FloatRegisters);

    /// `vlenb`, the bytes of a vector register, whatever `sstatus.VS` says; `None` where the
    /// hart has none. The field is the same afterwards, as with the next two.
    fn vector_bytes(&self) -> Option<u64>;

    /// Reads the vector registers, also while `sstatus.VS` is Off, each of as many bytes as
    /// [`vector_bytes`](HartAccess::vector_bytes) says, at most
    /// [`MAX_VLENB`](super::MAX_VLENB).
    fn read_vector(&self, into: &mut VectorRegisters);

    /// Writes them. They are as long as the hart's.
    fn write_vector(&self, registers: &VectorRegisters);

    /// How many words the state of the hart's S-level interrupt file has, at most
    /// [`MAX_FILE_WORDS`]; `None` where it has no file.
    fn file_words(&self) -> Option<usize>;

    /// Reads the file; called where there is one.
    fn read_file(&self) -> FileWords;

    /// Writes the file; called with as many words as it has.
    fn write_file(&self, words: &[u64]);

    /// When the OS's timer is to ring, in ticks of `time`, where machine mode keeps
    /// it; `None` where the OS does (Sstc).
    fn deadline(&self) -> Option<u64>;

    /// Sets it; called where machine mode keeps it.
    fn set_deadline(&self, deadline: u64);
}
