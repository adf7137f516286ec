use arrayvec::ArrayVec;
use poorwill_clock::{Clock, wait_for};

use super::command::{Command, Data};
use super::device::Device;
use super::engine::Engine;
use super::identify::{self, ControllerFacts, Namespace, ShutdownFacts};
use super::queue::Queue;
use super::shared::Shared;
use super::shared_namespace::{self, SharedNamespace};
use super::{NvmeError, NvmeMedium, QueueMemory, Registers};
use crate::wait::Wait;

/// The most namespaces of a controller that are listed.
pub const MAX_NAMESPACES: usize = 64;

/// The longest time of an admin command, in milliseconds.
pub const ADMIN_TIMEOUT_MS: u32 = 60_000;

/// The shortest and the longest wait for a shutdown, in milliseconds. The device reports the time
/// of a shutdown, which applies between these limits.
const SHUTDOWN_MS: (u32, u32) = (5_000, 60_000);

/// One pair of I/O queues; number 0 is the admin queue.
const IO_QUEUE: u64 = 1;
const ADMIN_ENTRIES: u16 = 16;

/// The reason for stopping a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The machine keeps running, and an OS will use the controller.
    Handover,
    /// The power goes off next, so the device must put its caches and tables in order.
    PowerOff,
}

/// A controller that runs under this driver. A drop stops it like [`Stop::Handover`].
#[derive(Debug)]
pub struct Controller<'a, R: Registers, K: Clock> {
    device: Device<R, K>,
    engine: Engine<'a>,
    admin: Queue<'a>,
    answer: Shared<'a>,
    facts: Option<ControllerFacts>,
    namespaces: ArrayVec<Namespace, MAX_NAMESPACES>,
    has_more_namespaces: bool,
    admin_id: u16,
    given_back: bool,
}

impl<'a, R: Registers, K: Clock> Controller<'a, R, K> {
    /// Takes over a controller in any state (enabled with an OS's queues, failed, shut
    /// down, never used), and lists its namespaces.
    ///
    /// Transfers of an OS that are in progress are lost; an OS that called for sleep has
    /// no such transfers.
    ///
    /// # Errors
    ///
    /// See [`NvmeError`]. The controller is then stopped and its registers are restored,
    /// as by [`Controller::stop`]. A controller with unsuitable registers
    /// ([`NvmeError::Absent`], [`NvmeError::Registers`], [`NvmeError::Unsupported`]) is
    /// not changed.
    pub fn start(registers: R, clock: K, memory: &'a mut QueueMemory) -> Result<Self, NvmeError> {
        let device = Device::new(registers, clock)?;
        device.halt()?;
        let QueueMemory {
            admin_submissions,
            admin_completions,
            submissions,
            completions,
            answer,
            lists,
        } = memory;
        let admin = (admin_submissions, admin_completions);
        let io = Queue::new(
            (submissions, completions),
            IO_QUEUE,
            device.entries,
            device.stride,
        );
        let mut controller = Controller {
            admin: Queue::new(admin, 0, ADMIN_ENTRIES, device.stride),
            answer: Shared::new(core::slice::from_mut(answer)),
            engine: Engine::new(io, lists),
            device,
            facts: None,
            namespaces: ArrayVec::new(),
            has_more_namespaces: false,
            admin_id: 0,
            given_back: false,
        };
        // After a failure, the drop stops the controller.
        controller.bring_up()?;
        Ok(controller)
    }

    /// The active namespaces, ascending by number: the first [`MAX_NAMESPACES`],
    /// including unusable ones.
    #[must_use]
    pub fn namespaces(&self) -> &[Namespace] {
        &self.namespaces
    }

    /// The shutdown facts that the controller reports; `None` if it has not started.
    #[must_use]
    pub fn shutdown_facts(&self) -> Option<ShutdownFacts> {
        self.facts.map(|facts| ShutdownFacts {
            normal_us: facts.shutdown_us,
            has_cache: facts.has_cache,
        })
    }

    /// Whether there are more namespaces than listed.
    #[must_use]
    pub fn has_more_namespaces(&self) -> bool {
        self.has_more_namespaces
    }

    /// The namespace `id` as a medium.
    ///
    /// # Errors
    ///
    /// [`NvmeError::NoNamespace`]. [`NvmeError::Format`] if its blocks have metadata or
    /// are not 512 to 4096 bytes long. [`NvmeError::Stopped`] after an error, or while
    /// transfers of an earlier medium are in progress.
    pub fn medium(&mut self, id: u32) -> Result<NvmeMedium<'_, 'a, R, K>, NvmeError> {
        let namespace = self.namespaces.iter().find(|namespace| namespace.id == id);
        let namespace = *namespace.ok_or(NvmeError::NoNamespace(id))?;
        if !self.engine.is_idle() {
            return Err(NvmeError::Stopped);
        }
        NvmeMedium::new(&self.device, &mut self.engine, namespace)
    }

    /// The identifiers of namespace `id`, if the controllers of a subsystem can share it.
    ///
    /// # Errors
    ///
    /// [`NvmeError::NoNamespace`]; [`NvmeError::Stopped`] after an error; the error of an
    /// Identify command.
    pub fn shared_namespace(&mut self, id: u32) -> Result<Option<SharedNamespace>, NvmeError> {
        if self.namespaces.iter().all(|namespace| namespace.id != id) {
            return Err(NvmeError::NoNamespace(id));
        }
        if !self.engine.is_running() {
            return Err(NvmeError::Stopped);
        }
        self.identify(identify::NAMESPACE, id)?;
        if !shared_namespace::is_shared(&self.answer) {
            return Ok(None);
        }
        let mut identifiers = shared_namespace::identifiers(&self.answer);
        if self.device.lists_identifiers() {
            match self.identify(identify::DESCRIPTORS, id) {
                Ok(()) => shared_namespace::add_listed(&mut identifiers, &self.answer),
                // The controller has no such list.
                Err(NvmeError::Command { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.identify(identify::CONTROLLER, 0)?;
        let (subsystem, controller) = shared_namespace::subsystem(&self.answer);
        Ok(Some(SharedNamespace {
            subsystem,
            controller,
            id,
            identifiers,
        }))
    }

    /// Stops the controller and restores its registers.
    ///
    /// The admin queue registers (AQA, ASQ, ACQ), the interrupt mask and the configuration
    /// (CC) are as before. Only CC.EN and CC.SHN are 0. So a
    /// disabled controller is unchanged. An enabled controller is disabled and has lost
    /// its I/O queues, which only their owner can create again. OS drivers reset a
    /// controller after a sleep anyway, because the power may have been off.
    ///
    /// # Errors
    ///
    /// [`NvmeError::WillNotShutDown`]: the power may still go off, because flushed data
    /// is safe. [`NvmeError::WillNotStop`].
    pub fn stop(mut self, how: Stop) -> Result<(), NvmeError> {
        let shut_down = match (how, self.facts) {
            (Stop::PowerOff, Some(facts)) if self.engine.is_running() => {
                let (least, most) = SHUTDOWN_MS;
                self.device
                    .shut_down(facts.shutdown_us.div_ceil(1000).clamp(least, most))
            }
            _ => Ok(()),
        };
        self.give_back().and(shut_down)
    }

    fn give_back(&mut self) -> Result<(), NvmeError> {
        if self.given_back {
            return Ok(());
        }
        self.given_back = true;
        self.device.halt()?;
        self.device.restore();
        Ok(())
    }

    fn bring_up(&mut self) -> Result<(), NvmeError> {
        self.device.enable(&self.admin)?;
        let facts = self.identify_controller()?;
        self.create_queues()?;
        self.list_namespaces(facts.namespaces)?;
        self.engine.run(&facts);
        self.facts = Some(facts);
        Ok(())
    }

    fn identify_controller(&mut self) -> Result<ControllerFacts, NvmeError> {
        self.identify(identify::CONTROLLER, 0)?;
        Ok(ControllerFacts::parse(&self.answer))
    }

    fn create_queues(&mut self) -> Result<(), NvmeError> {
        // One queue of each kind. Controllers that do not need this command may refuse
        // it.
        let mut number_of_queues = Command::new(Command::SET_FEATURES, 0);
        number_of_queues.low = 0x07;
        self.accept(&number_of_queues)?;

        let (submissions, completions) = self.engine.queue().addresses();
        let size = u64::from(self.engine.queue().entries() - 1) << 16;
        // PC: the queue is physically contiguous. It has no interrupts.
        let mut create = Command::new(Command::CREATE_COMPLETIONS, 0);
        create.data = Data::Pages([completions, 0]);
        create.low = IO_QUEUE | size | 1 << 32;
        self.require(&create)?;
        let mut create = Command::new(Command::CREATE_SUBMISSIONS, 0);
        create.data = Data::Pages([submissions, 0]);
        create.low = IO_QUEUE | size | (IO_QUEUE << 16 | 1) << 32;
        self.require(&create)
    }

    fn list_namespaces(&mut self, highest: u32) -> Result<(), NvmeError> {
        let mut ids = ArrayVec::<u32, MAX_NAMESPACES>::new();
        if self.device.lists_namespaces() {
            self.identify(identify::ACTIVE_NAMESPACES, 0)?;
            let listed = (0..=MAX_NAMESPACES).map(|index| identify::listed(&self.answer, index));
            for id in listed.take_while(|&id| id != 0) {
                if ids.last().is_some_and(|&last| last >= id) {
                    return Err(NvmeError::Protocol);
                }
                self.has_more_namespaces = ids.try_push(id).is_err();
            }
        } else {
            ids.extend((1..=highest).take(MAX_NAMESPACES));
            self.has_more_namespaces = highest as usize > MAX_NAMESPACES;
        }
        for id in ids {
            let namespace = self.describe(id)?;
            self.namespaces.push(namespace);
        }
        Ok(())
    }

    /// Describes a namespace. One of another command set, for example a zoned one, is listed but
    /// unusable.
    fn describe(&mut self, id: u32) -> Result<Namespace, NvmeError> {
        let unusable = Namespace {
            id,
            blocks: 0,
            block_bytes: 0,
            metadata_bytes: 0,
        };
        if !self.is_of_nvm(id)? {
            return Ok(unusable);
        }
        match self.identify(identify::NAMESPACE, id) {
            Ok(()) => Ok(identify::namespace(&self.answer, id)),
            Err(NvmeError::Command { .. }) => Ok(unusable),
            Err(error) => Err(error),
        }
    }

    /// Whether a namespace is of the NVM command set. A controller may keep namespaces of other
    /// sets attached that its OS had selected, and describe them; after a power-off it does not
    /// list them.
    fn is_of_nvm(&mut self, id: u32) -> Result<bool, NvmeError> {
        if !self.device.has_command_sets || !self.device.lists_identifiers() {
            return Ok(true);
        }
        match self.identify(identify::DESCRIPTORS, id) {
            Ok(()) => Ok(shared_namespace::command_set(&self.answer) == identify::NVM),
            // The controller has no such list.
            Err(NvmeError::Command { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    fn identify(&mut self, what: u64, namespace: u32) -> Result<(), NvmeError> {
        let mut command = Command::new(Command::IDENTIFY, namespace);
        command.data = Data::Pages([self.answer.address(0), 0]);
        command.low = what;
        self.require(&command)
    }

    /// Executes an admin command that must succeed.
    fn require(&mut self, command: &Command) -> Result<(), NvmeError> {
        match self.accept(command)? {
            0 => Ok(()),
            status => Err(NvmeError::Command {
                opcode: command.opcode,
                status,
            }),
        }
    }

    /// Executes an admin command and returns its status.
    fn accept(&mut self, command: &Command) -> Result<u16, NvmeError> {
        self.admin_id = (self.admin_id + 1) % 0x1000;
        self.admin
            .submit(&self.device.registers, command, self.admin_id);
        let limit = (Wait::Admin(command.opcode), u64::from(ADMIN_TIMEOUT_MS));
        let completion = wait_for(&self.device.clock, limit, || self.admin.take());
        let completion = completion.ok_or(NvmeError::TimedOut {
            opcode: command.opcode,
            milliseconds: ADMIN_TIMEOUT_MS,
        })?;
        self.admin
            .acknowledge(&self.device.registers, self.admin.entries());
        if completion.id != self.admin_id || completion.queue != 0 {
            return Err(NvmeError::Protocol);
        }
        Ok(completion.status)
    }
}

impl<R: Registers, K: Clock> Drop for Controller<'_, R, K> {
    fn drop(&mut self) {
        // A controller that does not stop has lost bus mastering, so this is safe.
        let _ = self.give_back();
    }
}
