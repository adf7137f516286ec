use poorwill_memory::{PAGE_BYTES, PhysRange};

use super::commands::{Command, CommandQueue};
use super::context::{TRANSLATION_CONTROL, space_of};
use super::directory::Directory;
use super::faults::{Drained, Fault, FaultQueue};
use super::memory::{TableMemory, TablePages};
use super::mode::{close_all, settled};
use super::queue::turn_off;
use super::register::{CQCSR, DDTP, FQCSR, PAGE_NUMBER, PQCSR, ddtp};
use super::{Capabilities, Context, DeviceId, DmaRange, IdentityMap, IommuError};
use crate::Registers;

/// An IOMMU with a device directory: a device reaches memory only through its
/// [context](Context), and all contexts are closed at first.
///
/// After [`IommuError::Stalled`] or [`IommuError::Stopped`] the IOMMU may still use old contexts.
/// Later changes fail, too, until it has completed all commands.
#[derive(Debug)]
pub struct TranslatingIommu<R, M> {
    registers: R,
    memory: M,
    capabilities: Capabilities,
    directory: Directory,
    commands: CommandQueue,
    faults: FaultQueue,
    /// Overflows of the fault queue.
    overflows: u64,
    /// The address space number of the next map. Number 0 is not used.
    next_space: u32,
}

impl<R, M> TranslatingIommu<R, M>
where
    R: Registers<u32> + Registers<u64>,
    M: TableMemory,
{
    /// Turns translation on, with all contexts closed (6.2). Whatever an earlier boot stage set up
    /// is turned off first. The directory has the fewest levels that hold `highest`.
    ///
    /// Interrupts of the IOMMU stay off: [`drain_faults`](Self::drain_faults) polls.
    ///
    /// # Errors
    ///
    /// [`Capabilities::read`]'s; [`IommuError::DeviceId`], [`IommuError::Levels`],
    /// [`IommuError::NoPages`]; [`IommuError::Busy`], [`IommuError::Stalled`],
    /// [`IommuError::Stopped`]. Devices then reach no memory, unless the IOMMU did not answer.
    pub fn start(
        registers: R,
        memory: M,
        pages: &mut TablePages,
        highest: DeviceId,
    ) -> Result<Self, IommuError> {
        let capabilities = Capabilities::read(&registers)?;
        close_all(&registers)?;
        turn_off(&registers, CQCSR)?;
        turn_off(&registers, FQCSR)?;
        if capabilities.has_ats {
            turn_off(&registers, PQCSR)?;
        }
        let directory = Directory::new(&memory, pages, &capabilities, highest)?;
        let commands = CommandQueue::start(&registers, &memory, pages)?;
        let faults = FaultQueue::start(&registers, &memory, pages)?;
        let mut iommu = TranslatingIommu {
            registers,
            memory,
            capabilities,
            directory,
            commands,
            faults,
            overflows: 0,
            next_space: 1,
        };
        iommu.translate()?;
        Ok(iommu)
    }

    /// The IOMMU's features.
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// Writes the tables of a map. Several devices may use it.
    ///
    /// # Errors
    ///
    /// [`IommuError::Misaligned`], [`IommuError::OutOfReach`], [`IommuError::Overlap`],
    /// [`IommuError::NoPages`], [`IommuError::TooManyMaps`].
    pub fn map(
        &mut self,
        pages: &mut TablePages,
        ranges: impl Iterator<Item = DmaRange> + Clone,
    ) -> Result<IdentityMap, IommuError> {
        let space = self.next_space;
        self.next_space += 1;
        IdentityMap::build(&self.memory, pages, ranges, (&self.capabilities, space))
    }

    /// Opens or shuts a range that the map was built with. When this returns after a shut, all earlier
    /// accesses there are complete, and no later one reaches it.
    ///
    /// # Errors
    ///
    /// [`IommuError::Unmapped`], [`IommuError::NoPages`], [`IommuError::Overlap`]: the map was built
    /// without the range.
    /// [`IommuError::Stalled`], [`IommuError::Stopped`]: the range may still be open.
    pub fn set_open(
        &mut self,
        map: &IdentityMap,
        range: PhysRange,
        is_open: bool,
    ) -> Result<(), IommuError> {
        map.set_open(&self.memory, range, is_open)?;
        let translations = Command::invalidate_translations(Some(map.space()));
        let commands = core::iter::once(translations);
        self.commands.run(&self.registers, &self.memory, commands)
    }

    /// Gives a device a context. Between an old and a new one the device is closed.
    ///
    /// A device beyond the directory's levels adds levels. That closes all devices for a moment, so
    /// it must not happen while an OS runs.
    ///
    /// # Errors
    ///
    /// [`IommuError::DeviceId`], [`IommuError::Levels`], [`IommuError::NoPages`]: the device keeps
    /// its context. [`IommuError::Busy`], [`IommuError::Stalled`], [`IommuError::Stopped`]: the
    /// IOMMU did not answer.
    pub fn set(
        &mut self,
        pages: &mut TablePages,
        device: DeviceId,
        context: &Context,
    ) -> Result<(), IommuError> {
        let levels = self.directory.levels_for(device)?;
        if levels > self.directory.levels {
            self.widen(pages, levels)?;
        }
        let place = self.directory.find_or_add(&self.memory, pages, device)?;
        self.close_at(place, device)?;
        let [control, others @ ..] = context.words();
        for (word, value) in (1..self.directory.words()).zip(others) {
            self.memory.write(place + 8 * word, value);
        }
        // The IOMMU may read the context at any time, so it becomes valid last.
        self.memory.write(place + TRANSLATION_CONTROL, control);
        // A directory page above it may be new, too.
        self.invalidate(None, None)
    }

    /// Closes a device's context. When this returns, all its earlier accesses are complete, and
    /// no later one reaches memory.
    ///
    /// # Errors
    ///
    /// [`IommuError::Stalled`], [`IommuError::Stopped`].
    pub fn close(&mut self, device: DeviceId) -> Result<(), IommuError> {
        match self.directory.find(&self.memory, device) {
            Some(place) => self.close_at(place, device),
            None => Ok(()),
        }
    }

    /// Takes at most `limit` records from the fault queue, and shows each. If the queue has
    /// overflowed, records again from now on, and counts it.
    pub fn drain_faults(&mut self, limit: u32, show: impl FnMut(Fault)) -> Drained {
        let drained = self
            .faults
            .drain(&self.registers, &self.memory, limit, show);
        self.overflows += u64::from(drained.has_overflowed);
        drained
    }

    /// The number of fault queue overflows. Each lost at least one record.
    pub fn overflows(&self) -> u64 {
        self.overflows
    }

    /// Makes a context invalid, and drops its cached copies (6.3.1). An invalid one may have copies
    /// after a failure, so the commands run in any case.
    fn close_at(&mut self, place: u64, device: DeviceId) -> Result<(), IommuError> {
        self.memory.write(place + TRANSLATION_CONTROL, 0);
        let space = space_of(|word| self.memory.read(place + 8 * word));
        self.invalidate(Some(device), space)
    }

    /// Drops cached copies of a device's context, or of the whole directory, and of an address
    /// space's translations.
    fn invalidate(
        &mut self,
        device: Option<DeviceId>,
        space: Option<u32>,
    ) -> Result<(), IommuError> {
        let translations = space.map(|space| Command::invalidate_translations(Some(space)));
        let commands = core::iter::once(Command::invalidate_directory(device)).chain(translations);
        self.commands.run(&self.registers, &self.memory, commands)
    }

    /// Adds levels to the directory. Its mode may change only in the mode "off" (5.5).
    fn widen(&mut self, pages: &mut TablePages, levels: u32) -> Result<(), IommuError> {
        let wider = self.directory.widened(&self.memory, pages, levels)?;
        close_all(&self.registers)?;
        let before = core::mem::replace(&mut self.directory, wider);
        match self.translate() {
            Err(error @ IommuError::Levels(_)) => {
                self.directory = before;
                close_all(&self.registers)?;
                self.translate()?;
                Err(error)
            }
            outcome => outcome,
        }
    }

    /// Runs `job` with all devices' addresses as physical ones, while no OS runs.
    ///
    /// # Errors
    ///
    /// [`IommuError`]: no device reaches memory. `job` may not have run.
    pub fn open_for<T>(&mut self, job: impl FnOnce() -> T) -> Result<T, IommuError> {
        close_all(&self.registers)?;
        let root = (self.directory.root / PAGE_BYTES) << PAGE_NUMBER;
        Registers::<u64>::write(&self.registers, DDTP, root | ddtp::BARE);
        let found = settled(&self.registers)?;
        if found & ddtp::MODE != ddtp::BARE {
            close_all(&self.registers)?;
            return Err(IommuError::Closed(found));
        }
        let result = job();
        close_all(&self.registers)?;
        self.translate()?;
        Ok(result)
    }

    /// Turns translation on in the mode "off". The mode change keeps caches (5.5), so they are
    /// emptied first.
    fn translate(&mut self) -> Result<(), IommuError> {
        let all = [
            Command::invalidate_directory(None),
            Command::invalidate_translations(None),
        ];
        self.commands
            .run(&self.registers, &self.memory, all.into_iter())?;
        let levels = self.directory.levels;
        let mode = ddtp::ONE_LEVEL + u64::from(levels) - 1;
        let root = (self.directory.root / PAGE_BYTES) << PAGE_NUMBER;
        Registers::<u64>::write(&self.registers, DDTP, root | mode);
        if settled(&self.registers)? & ddtp::MODE != mode {
            close_all(&self.registers)?;
            return Err(IommuError::Levels(levels));
        }
        Ok(())
    }
}
