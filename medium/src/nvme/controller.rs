use super::{NvmeError, NvmeMedium, QueueMemory, Registers};
use crate::Clock;

/// A namespace as the controller describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Its number (NSID), from 1.
    pub id: u32,
    /// How many blocks it has.
    pub blocks: u64,
    /// Bytes of a block, without metadata; 0 when the format is unknown.
    pub block_bytes: u32,
    /// Bytes of metadata of a block.
    pub metadata_bytes: u16,
}

/// How a controller is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The machine runs on: an OS will use the controller.
    Handover,
    /// The power goes next: the device may put its caches and tables in order.
    PowerOff,
}

/// A controller that is running under this driver.
#[derive(Debug)]
pub struct Controller<'a, R: Registers, K: Clock> {
    registers: R,
    clock: K,
    memory: &'a mut QueueMemory,
}

impl<'a, R: Registers, K: Clock> Controller<'a, R, K> {
    /// Takes over a controller in whatever state it is, and looks at its
    /// namespaces.
    ///
    /// # Errors
    ///
    /// See [`NvmeError`]; the controller is stopped and its registers are put
    /// back then, as by [`Controller::stop`].
    pub fn start(registers: R, clock: K, memory: &'a mut QueueMemory) -> Result<Self, NvmeError> {
        let _ = (&registers, &clock, &memory);
        todo!()
    }

    /// The active namespaces, ascending by number; the first 64 of them.
    #[must_use]
    pub fn namespaces(&self) -> &[Namespace] {
        todo!()
    }

    /// Whether there are more namespaces than are listed.
    #[must_use]
    pub fn has_more_namespaces(&self) -> bool {
        todo!()
    }

    /// The namespace `id` as a medium.
    ///
    /// # Errors
    ///
    /// [`NvmeError::NoNamespace`], [`NvmeError::Format`], [`NvmeError::Stopped`].
    pub fn medium(&mut self, id: u32) -> Result<NvmeMedium<'_, 'a, R, K>, NvmeError> {
        let _ = (id, &self.registers, &self.clock, &self.memory);
        todo!()
    }

    /// Stops the controller and puts its registers back as they were found.
    ///
    /// # Errors
    ///
    /// [`NvmeError::WillNotStop`], [`NvmeError::WillNotShutDown`].
    pub fn stop(self, how: Stop) -> Result<(), NvmeError> {
        let _ = how;
        todo!()
    }
}
