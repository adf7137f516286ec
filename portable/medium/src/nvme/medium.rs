use poorwill_clock::Clock;
use poorwill_memory::{OsPage, PAGE_BYTES, Page};

use super::device::Device;
use super::engine::{Engine, Transfer};
use super::identify::Namespace;
use super::memory::physical_address;
use super::slots::Purpose;
use super::{NvmeError, Registers};
use crate::wait::Wait;
use crate::{Direction, Medium, MediumError, check_range};

/// The longest time without a completion while transfers are in flight, in milliseconds.
/// Linux has the same limit. Drives that collect garbage and disks of a busy host do
/// pause for seconds. A false alarm during a wake would cost the machine its image.
pub const TRANSFER_TIMEOUT_MS: u32 = 30_000;

/// The same limit, in milliseconds, while transfers are drained without use of their
/// results.
const QUIESCE_TIMEOUT_MS: u32 = 2_000;

/// The same limit, in milliseconds, while the power fails: a quarter of the shortest
/// hold-up.
const POWER_FAILS_MS: u32 = 4;

/// The longest time of a flush, in milliseconds: it may have to write the contents of a
/// cache.
pub const FLUSH_TIMEOUT_MS: u32 = 60_000;

/// One namespace as a medium. Offsets must only be multiples of the namespace's block
/// length.
///
/// A device that is silent for [`TRANSFER_TIMEOUT_MS`], or that breaks the protocol, is
/// stopped. Then all operations fail with [`MediumError::Stopped`] until a new
/// [`Controller::start`](super::Controller::start).
#[derive(Debug)]
pub struct NvmeMedium<'c, 'a, R: Registers, K: Clock> {
    device: &'c Device<R, K>,
    engine: &'c mut Engine<'a>,
    namespace: u32,
    block_shift: u32,
    capacity: u64,
}

impl<'c, 'a, R: Registers, K: Clock> NvmeMedium<'c, 'a, R, K> {
    pub(super) fn new(
        device: &'c Device<R, K>,
        engine: &'c mut Engine<'a>,
        namespace: Namespace,
    ) -> Result<Self, NvmeError> {
        let Namespace {
            id,
            blocks,
            block_bytes,
            metadata_bytes,
        } = namespace;
        let bytes = blocks.checked_mul(u64::from(block_bytes));
        match bytes {
            Some(bytes) if metadata_bytes == 0 && (512..=4096).contains(&block_bytes) => {
                Ok(NvmeMedium {
                    device,
                    engine,
                    namespace: id,
                    block_shift: block_bytes.trailing_zeros(),
                    capacity: bytes / PAGE_BYTES * PAGE_BYTES,
                })
            }
            _ => Err(NvmeError::Format(id)),
        }
    }

    fn check(&self, offset: u64, pages: usize) -> Result<(), MediumError> {
        check_range(self.capacity, offset, pages)?;
        if offset.trailing_zeros() < self.block_shift {
            return Err(MediumError::Misaligned(offset));
        }
        if !self.engine.is_running() {
            return Err(MediumError::Stopped);
        }
        Ok(())
    }

    fn describe(&self, purpose: Purpose, direction: Direction, offset: u64) -> Transfer {
        Transfer {
            purpose,
            direction,
            namespace: self.namespace,
            offset,
            block_shift: self.block_shift,
        }
    }

    /// Moves `pages` pages from address `memory` on, with the fewest commands, in parallel.
    /// Waits for all of them.
    fn transfer(
        &mut self,
        direction: Direction,
        offset: u64,
        memory: u64,
        pages: usize,
    ) -> Result<(), MediumError> {
        self.check(offset, pages)?;
        let mut done = 0;
        let mut outcome = Ok(());
        loop {
            while outcome.is_ok() && done < pages && self.engine.has_room() {
                let count = (pages - done).min(self.engine.max_pages());
                let skip = done as u64 * PAGE_BYTES;
                let transfer = self.describe(Purpose::Awaited, direction, offset + skip);
                let addresses = (0..count).map(|page| memory + skip + page as u64 * PAGE_BYTES);
                self.engine
                    .transfer(&self.device.registers, transfer, addresses);
                done += count;
            }
            if self.engine.awaited() == 0 {
                return outcome.and(if done < pages {
                    Err(MediumError::TooMany)
                } else {
                    Ok(())
                });
            }
            // The failure is returned after the device has stopped accessing `memory`.
            outcome = outcome.and(self.progress(TRANSFER_TIMEOUT_MS)?);
        }
    }

    /// Handles completions. The outer error means that the device was stopped; the inner
    /// error is a command's.
    fn progress(&mut self, limit: u32) -> Result<Result<(), MediumError>, MediumError> {
        let limit = match self.device.clock.power_fails() {
            true => limit.min(POWER_FAILS_MS),
            false => limit,
        };
        let outcome = self.engine.reap(&self.device.registers);
        if outcome == Err(MediumError::Protocol) {
            self.halt();
            return Err(MediumError::Protocol);
        }
        if outcome.is_ok() && self.is_overdue(limit) {
            self.halt();
            return Err(MediumError::TimedOut(limit));
        }
        Ok(outcome)
    }

    /// Whether commands are in flight, but no command has completed for more than `limit`
    /// milliseconds.
    fn is_overdue(&mut self, limit: u32) -> bool {
        let limit = u64::from(limit);
        let clock = &self.device.clock;
        let (silent, is_to_be_told) = self.engine.silent_for(clock.milliseconds(), limit);
        if is_to_be_told {
            clock.waits(&Wait::Transfer, limit);
        }
        silent > limit
    }

    fn halt(&mut self) {
        // A controller that does not stop has lost bus mastering, which is as safe.
        let _ = self.device.halt();
        self.engine.stop();
    }
}

impl<R: Registers, K: Clock> Medium for NvmeMedium<'_, '_, R, K> {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn max_pages(&self) -> usize {
        self.engine.max_pages()
    }

    fn depth(&self) -> usize {
        self.engine.depth()
    }

    fn read(&mut self, offset: u64, into: &mut [Page]) -> Result<(), MediumError> {
        let memory = physical_address(into.as_mut_ptr());
        self.transfer(Direction::Read, offset, memory, into.len())
    }

    fn write(&mut self, offset: u64, from: &[Page]) -> Result<(), MediumError> {
        let memory = physical_address(from.as_ptr());
        self.transfer(Direction::Write, offset, memory, from.len())
    }

    /// Without a volatile write cache, completed writes are durable. With one, NVMe's
    /// Flush makes them durable.
    fn flush(&mut self) -> Result<(), MediumError> {
        self.check(0, 0)?;
        if !self.engine.has_cache() {
            return Ok(());
        }
        if !self.engine.has_room() {
            return Err(MediumError::TooMany);
        }
        self.engine
            .flush(&self.device.registers, self.namespace, Purpose::Flush);
        let mut outcome = Ok(());
        while self.engine.awaited() > 0 {
            outcome = outcome.and(self.progress(FLUSH_TIMEOUT_MS)?);
        }
        outcome
    }

    fn start_flush(&mut self, tag: u32) -> Result<bool, MediumError> {
        self.check(0, 0)?;
        if !self.engine.has_cache() || !self.engine.has_room() {
            return Ok(false);
        }
        self.engine.flush(
            &self.device.registers,
            self.namespace,
            Purpose::StartedFlush(tag),
        );
        Ok(true)
    }

    fn start(
        &mut self,
        direction: Direction,
        offset: u64,
        pages: &[OsPage],
        tag: u32,
    ) -> Result<(), MediumError> {
        self.check(offset, pages.len())?;
        let transfer = self.describe(Purpose::Started(tag), direction, offset);
        if pages.is_empty() || pages.len() > self.engine.max_pages() || !self.engine.has_room() {
            return Err(MediumError::TooMany);
        }
        self.engine.transfer(
            &self.device.registers,
            transfer,
            pages.iter().map(|page| page.address()),
        );
        Ok(())
    }

    /// Handles completions in batches, so most calls access no register. It reads the
    /// clock only if no transfer has finished.
    fn poll(&mut self) -> Result<Option<u32>, MediumError> {
        if !self.engine.is_running() {
            return Err(MediumError::Stopped);
        }
        if let Some(tag) = self.engine.take_finished() {
            return Ok(Some(tag));
        }
        self.engine.reap(&self.device.registers)?;
        if let Some(tag) = self.engine.take_finished() {
            return Ok(Some(tag));
        }
        if self.is_overdue(TRANSFER_TIMEOUT_MS) {
            return Err(MediumError::TimedOut(TRANSFER_TIMEOUT_MS));
        }
        Ok(None)
    }

    /// Lets a responding device finish its transfers. It can then be used further, and
    /// some devices (QEMU's) fail if they are disabled during transfers. Halts a device
    /// that does not respond, or that needs too long while the power fails.
    fn quiesce(&mut self) {
        let began = self.device.clock.milliseconds();
        while !self.engine.is_quiet() {
            let clock = &self.device.clock;
            let took = clock.milliseconds().saturating_sub(began);
            let is_late = clock.power_fails() && took >= u64::from(POWER_FAILS_MS);
            if is_late || !self.engine.is_running() {
                self.halt();
                return;
            }
            // Only the outer error matters, not the status of a command.
            if self.progress(QUIESCE_TIMEOUT_MS).is_err() {
                return;
            }
        }
        self.engine.forget();
    }
}
