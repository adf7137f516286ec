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
    /// Reads the floating point registers. Called where `sstatus.FS` is not off.
    fn read_float(&self) -> FloatRegisters;

    /// Writes them; `sstatus.FS` is the same afterwards.
    fn write_float(&self, registers: &FloatRegisters);

    /// `vlenb`, the bytes of a vector register; `None` where the hart has none.
    /// `sstatus.VS` is the same afterwards, as with the other two.
    fn vector_bytes(&self) -> Option<u64>;

    /// Reads the vector registers, each of as many bytes as
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
