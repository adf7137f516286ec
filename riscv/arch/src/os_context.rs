//! The OS's state in the calling hart, through its CSRs.

use poorwill_devicetree::ImsicFile;
use poorwill_drivers::imsic::InterruptFile;
use poorwill_drivers::{Keeper, State};
use poorwill_hart::{
    Csr, CsrAccess, FileWords, FloatRegisters, HartAccess, MAX_FILE_WORDS, VectorRegisters,
};

use crate::imsic::SupervisorFile;
use crate::{HartTimer, float, os_csr, vector};

const _: () = assert!(MAX_FILE_WORDS == poorwill_drivers::imsic::MAX_WORDS);

/// Access to the OS's state in the calling hart.
#[derive(Clone, Copy, Debug)]
pub struct OsContext {
    timer: HartTimer,
    file: Option<InterruptFile<SupervisorFile>>,
}

impl OsContext {
    /// Access to the state on a hart with this timer. `files`: the hart's IMSIC files, if it has
    /// any.
    #[must_use]
    pub fn new(timer: HartTimer, files: Option<ImsicFile>) -> Self {
        let file = |files: ImsicFile| InterruptFile::new(SupervisorFile, files.identities);
        OsContext {
            timer,
            file: files.map(file),
        }
    }

    pub(crate) fn file(&self) -> Option<&InterruptFile<SupervisorFile>> {
        self.file.as_ref()
    }
}

impl CsrAccess for OsContext {
    fn read_csr(&self, csr: Csr) -> Option<u64> {
        os_csr::read(csr)
    }

    fn write_csr(&self, csr: Csr, value: u64) {
        os_csr::write(csr, value);
    }
}

impl HartAccess for OsContext {
    fn has_float(&self) -> bool {
        float::is_there()
    }

    fn read_float(&self) -> Option<FloatRegisters> {
        float::save()
    }

    fn write_float(&self, registers: &FloatRegisters) {
        float::restore(registers);
    }

    fn vector_bytes(&self) -> Option<u64> {
        vector::register_bytes()
    }

    fn read_vector(&self, into: &mut VectorRegisters) {
        vector::save(into);
    }

    fn write_vector(&self, registers: &VectorRegisters) {
        vector::restore(registers);
    }

    fn file_words(&self) -> Option<usize> {
        Some(self.file()?.offsets().count())
    }

    fn read_file(&self) -> FileWords {
        let file = self.file().into_iter();
        file.flat_map(|file| file.capture()).collect()
    }

    fn write_file(&self, words: &[u64]) {
        let Some(file) = self.file() else { return };
        let state: State<&[u64]> = file.check(words).expect("the caller passes all words");
        file.restore(&state);
    }

    fn deadline(&self) -> Option<u64> {
        self.timer.supervisor_deadline()
    }

    fn set_deadline(&self, deadline: u64) {
        self.timer.set_supervisor_timer(deadline);
    }
}
