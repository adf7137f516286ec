use poorwill_clock::{Clock, wait_firmly, wait_for};

use super::error::NvmeError;
use super::queue::Queue;
use super::register::{
    ACQ, AQA, ASQ, CAP, CC, CC_EN, CC_SHN, CC_SHN_NORMAL, CSTS, CSTS_CFS, CSTS_RDY, CSTS_SHST,
    CSTS_SHST_BUSY, CSTS_SHST_DONE, DOORBELLS, INTMC, INTMS, VS,
};
use super::registers::Registers;
use crate::wait::Wait;

/// Entries of 64 bytes (2^6) and 16 bytes (2^4), 4 KiB pages, NVM command set.
const CC_RUN: u32 = 4 << 20 | 6 << 16 | CC_EN;

const ALL_ONES: u32 = u32::MAX;

/// A controller's registers and capabilities (CAP).
#[derive(Debug)]
pub(super) struct Device<R, K> {
    pub(super) registers: R,
    pub(super) clock: K,
    /// The longest time to enable or disable the controller, in milliseconds.
    pub(super) patience: u32,
    /// The number of entries of an I/O queue.
    pub(super) entries: u16,
    /// The distance of doorbells in bytes.
    pub(super) stride: u64,
    /// Whether namespaces may be of other command sets than NVM (CAP.CSS, bit 6).
    pub(super) has_command_sets: bool,
    found: Found,
}

/// The registers of a controller before this driver's changes.
#[derive(Clone, Copy, Debug)]
struct Found {
    configuration: u32,
    admin_entries: u32,
    admin_submissions: u64,
    admin_completions: u64,
    masked: u32,
}

impl<R: Registers, K: Clock> Device<R, K> {
    /// Reads a controller's registers without changing them.
    pub(super) fn new(registers: R, clock: K) -> Result<Self, NvmeError> {
        let given = registers.length();
        if given < DOORBELLS {
            return Err(NvmeError::Registers {
                needed: DOORBELLS,
                given,
            });
        }
        let capabilities = registers.read64(CAP);
        if capabilities == u64::MAX || registers.read32(CSTS) == ALL_ONES {
            return Err(NvmeError::Absent);
        }
        let field = |shift: u32, bits: u32| (capabilities >> shift) & ((1 << bits) - 1);
        let stride = 4 << field(32, 4);
        // Two queues of each kind have doorbells.
        let needed = DOORBELLS + 4 * stride;
        if given < needed {
            return Err(NvmeError::Registers { needed, given });
        }
        if field(37, 1) == 0 {
            return Err(NvmeError::Unsupported("the NVM command set"));
        }
        if field(48, 4) != 0 {
            return Err(NvmeError::Unsupported("pages of 4 KiB"));
        }
        let most = field(0, 16);
        if most == 0 {
            return Err(NvmeError::Unsupported("queues of two entries"));
        }
        let found = Found::look(&registers);
        Ok(Device {
            patience: u32::try_from(field(24, 8).max(1) * 500).unwrap_or(u32::MAX),
            entries: u16::try_from(most + 1)
                .map_or(Queue::MAX_ENTRIES, |all| all.min(Queue::MAX_ENTRIES)),
            stride,
            has_command_sets: field(43, 1) == 1,
            registers,
            clock,
            found,
        })
    }

    /// Whether the controller supports the list of active namespaces: version 1.1 or
    /// later.
    pub(super) fn lists_namespaces(&self) -> bool {
        self.registers.read32(VS) >= 0x0001_0100
    }

    /// Whether the controller supports the list of a namespace's identifiers: version 1.3
    /// or later.
    pub(super) fn lists_identifiers(&self) -> bool {
        self.registers.read32(VS) >= 0x0001_0300
    }

    /// Enables a disabled controller with the given admin queue.
    pub(super) fn enable(&self, admin: &Queue<'_>) -> Result<(), NvmeError> {
        let (submissions, completions) = admin.addresses();
        let last = u32::from(admin.entries() - 1);
        self.registers.write32(INTMS, ALL_ONES);
        self.registers.write32(AQA, last << 16 | last);
        self.registers.write64(ASQ, submissions);
        self.registers.write64(ACQ, completions);
        self.registers.write32(CC, CC_RUN);
        let limit = (Wait::Ready, u64::from(self.patience));
        wait_for(&self.clock, limit, || match self.registers.read32(CSTS) {
            ALL_ONES => Some(Err(NvmeError::Absent)),
            status if status & CSTS_CFS != 0 => Some(Err(NvmeError::Fatal)),
            status if status & CSTS_RDY != 0 => Some(Ok(())),
            _ => None,
        })
        .unwrap_or(Err(NvmeError::NotReady(self.patience)))
    }

    /// Stops the controller: it accesses no memory when this returns. If it does not stop
    /// by itself, its bus mastering is turned off.
    pub(super) fn halt(&self) -> Result<(), NvmeError> {
        let configuration = self.registers.read32(CC);
        if configuration == ALL_ONES {
            // An absent device cannot access memory.
            return Ok(());
        }
        if configuration & CC_EN != 0 {
            // A controller may be disabled after it is ready (3.5.4), and after a
            // shutdown in progress has ended. If neither happens in time, it is disabled
            // nevertheless.
            self.wait_firmly(|status| {
                let settled = match status & CSTS_SHST {
                    CSTS_SHST_BUSY => false,
                    CSTS_SHST_DONE => true,
                    _ => status & CSTS_RDY != 0,
                };
                (settled || status & CSTS_CFS != 0).then_some(())
            });
            self.registers
                .write32(CC, configuration & !(CC_EN | CC_SHN));
        }
        let stopped =
            self.wait_firmly(|status| (status & CSTS_RDY == 0 || status == ALL_ONES).then_some(()));
        stopped.ok_or_else(|| {
            self.registers.cut_dma();
            NvmeError::WillNotStop(self.patience)
        })
    }

    /// Shuts the controller down within `limit` milliseconds, so that power may be
    /// removed.
    pub(super) fn shut_down(&self, limit: u32) -> Result<(), NvmeError> {
        let configuration = self.registers.read32(CC);
        self.registers
            .write32(CC, configuration & !CC_SHN | CC_SHN_NORMAL);
        wait_for(&self.clock, (Wait::Shutdown, u64::from(limit)), || {
            let status = self.registers.read32(CSTS);
            (status != ALL_ONES && status & CSTS_SHST == CSTS_SHST_DONE).then_some(())
        })
        .ok_or(NvmeError::WillNotShutDown(limit))
    }

    /// Restores the registers of a halted controller, except EN and SHN.
    pub(super) fn restore(&self) {
        let found = &self.found;
        self.registers.write32(AQA, found.admin_entries);
        self.registers.write64(ASQ, found.admin_submissions);
        self.registers.write64(ACQ, found.admin_completions);
        self.registers
            .write32(CC, found.configuration & !(CC_EN | CC_SHN));
        self.registers.write32(INTMS, found.masked);
        self.registers.write32(INTMC, !found.masked);
    }

    /// Waits for the controller to stop, also while the power fails.
    fn wait_firmly<T>(&self, judge: impl Fn(u32) -> Option<T>) -> Option<T> {
        let limit = (Wait::Stop, u64::from(self.patience));
        wait_firmly(&self.clock, limit, || judge(self.registers.read32(CSTS)))
    }
}

impl Found {
    fn look(registers: &impl Registers) -> Self {
        Found {
            configuration: registers.read32(CC),
            admin_entries: registers.read32(AQA),
            admin_submissions: registers.read64(ASQ),
            admin_completions: registers.read64(ACQ),
            masked: registers.read32(INTMS),
        }
    }
}
