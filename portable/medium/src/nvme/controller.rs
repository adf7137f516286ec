use arrayvec::ArrayVec;

use super::command::{Command, Data};
use super::device::Device;
use super::engine::Engine;
use super::identify::{self, ControllerFacts, Namespace, ShutdownFacts};
use super::queue::Queue;
use super::shared::Shared;
use super::shared_namespace::{self, SharedNamespace};
use super::{NvmeError, NvmeMedium, QueueMemory, Registers};
use crate::Clock;
use crate::clock::wait_for;

/// How many namespaces of a controller are looked at.
pub const MAX_NAMESPACES: usize = 64;

/// How long an admin command may take, in milliseconds.
pub const ADMIN_TIMEOUT_MS: u32 = 60_000;

/// How long a shutdown is waited for, in milliseconds, where the device does
/// not ask for more; and how much more it may ask for.
const SHUTDOWN_MS: (u32, u32) = (5_000, 60_000);

/// One pair of I/O queues; number 0 is the admin queue.
const IO_QUEUE: u64 = 1;
const ADMIN_ENTRIES: u16 = 16;

/// How a controller is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The machine runs on: an OS will use the controller.
    Handover,
    /// The power goes next: the device may put its caches and tables in order.
    PowerOff,
}

/// A controller that is running under this driver. Dropped, it is stopped as
/// by [`Stop::Handover`].
#[derive(Debug)]
pub struct Controller<'a, R: Registers, K: Clock> {
    device: Device<R, K>,
    engine: Engine<'a>,
    admin: Queue<'a>,
    answer: Shared<'a>,
    facts: Option<ControllerFacts>,
    namespaces: ArrayVec<Namespace, MAX_NAMESPACES>,
    has_more_namespaces: bool,
    /// The last admin command's identifier.
    admin_id: u16,
    given_back: bool,
}

impl<'a, R: Registers, K: Clock> Controller<'a, R, K> {
    /// Takes over a controller in whatever state it is (enabled with queues of
    /// an OS's, failed, shut down, never touched) and looks at its namespaces.
    ///
    /// Whatever transfers an OS had under way are lost: an OS that called for
    /// sleep has none.
    ///
    /// # Errors
    ///
    /// See [`NvmeError`]; the controller is stopped and its registers are put
    /// back then, as by [`Controller::stop`]. One that cannot be used by what
    /// its registers say ([`NvmeError::Absent`], [`NvmeError::Registers`],
    /// [`NvmeError::Unsupported`]) is not touched.
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
        // A failure drops, and thereby stops, the controller.
        controller.bring_up()?;
        Ok(controller)
    }

    /// The active namespaces, ascending by number: the first
    /// [`MAX_NAMESPACES`] of them, usable or not.
    #[must_use]
    pub fn namespaces(&self) -> &[Namespace] {
        &self.namespaces
    }

    /// What it says of its shutdown; `None`: it has not come up.
    #[must_use]
    pub fn shutdown_facts(&self) -> Option<ShutdownFacts> {
        self.facts.map(|facts| ShutdownFacts {
            normal_us: facts.shutdown_us,
            has_cache: facts.has_cache,
        })
    }

    /// Whether there are more namespaces than are listed.
    #[must_use]
    pub fn has_more_namespaces(&self) -> bool {
        self.has_more_namespaces
    }

    /// The namespace `id` as a medium.
    ///
    /// # Errors
    ///
    /// [`NvmeError::NoNamespace`]; [`NvmeError::Format`] when its blocks carry
    /// metadata or are not of 512 to 4096 bytes; [`NvmeError::Stopped`] after
    /// an error or while transfers of an earlier medium are under way.
    pub fn medium(&mut self, id: u32) -> Result<NvmeMedium<'_, 'a, R, K>, NvmeError> {
        let namespace = self.namespaces.iter().find(|namespace| namespace.id == id);
        let namespace = *namespace.ok_or(NvmeError::NoNamespace(id))?;
        if !self.engine.is_idle() {
            return Err(NvmeError::Stopped);
        }
        NvmeMedium::new(&self.device, &mut self.engine, namespace)
    }

    /// What tells the namespace `id` from others, if controllers of a subsystem can share it.
    ///
    /// # Errors
    ///
    /// [`NvmeError::NoNamespace`]; [`NvmeError::Stopped`] after an error; that the controller
    /// does not describe itself or the namespace.
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
                // It has those identifiers, or none.
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

    /// Stops the controller and puts its registers back.
    ///
    /// What an OS finds then: the admin queue registers (AQA, ASQ, ACQ), the
    /// interrupt mask and the configuration (CC) as they were, but for CC.EN
    /// and CC.SHN, which are 0. So a controller that was disabled is as it was.
    /// One that was enabled is disabled, and its I/O queues are gone: they live
    /// inside the controller and only its owner can create them again. OS
    /// drivers reset a controller when they come back from sleep, as the power
    /// may have been cut; to them it is just that.
    ///
    /// # Errors
    ///
    /// [`NvmeError::WillNotShutDown`]: the power may go all the same, what was
    /// flushed is safe. [`NvmeError::WillNotStop`].
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
        // One queue of each kind. Controllers that do not need this may refuse it.
        let mut number_of_queues = Command::new(Command::SET_FEATURES, 0);
        number_of_queues.low = 0x07;
        self.accept(&number_of_queues)?;

        let (submissions, completions) = self.engine.queue().addresses();
        let size = u64::from(self.engine.queue().entries() - 1) << 16;
        // In one piece (PC), without interrupts.
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

    fn describe(&mut self, id: u32) -> Result<Namespace, NvmeError> {
        match self.identify(identify::NAMESPACE, id) {
            Ok(()) => Ok(identify::namespace(&self.answer, id)),
            // For example of another command set: listed, but not usable.
            Err(NvmeError::Command { .. }) => Ok(Namespace {
                id,
                blocks: 0,
                block_bytes: 0,
                metadata_bytes: 0,
            }),
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
        let completion = wait_for(&self.device.clock, u64::from(ADMIN_TIMEOUT_MS), || {
            self.admin.take()
        });
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
        // One that does not stop has lost bus mastering; nothing more can be done.
        let _ = self.give_back();
    }
}
