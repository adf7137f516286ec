use super::queue::QueuePair;
use crate::nvme::register::{ACQ, AQA, ASQ, CAP, CC, CSTS, DOORBELLS, INTMC, INTMS, VS};

/// The registers that hold their last value. The status is the model's.
#[derive(Clone, Debug)]
pub struct FakeRegisters {
    pub capabilities: u64,
    pub version: u32,
    pub masked: u32,
    pub configuration: u32,
    /// AQA, ASQ and ACQ, as dwords.
    pub admin: [u32; 5],
}

impl FakeRegisters {
    /// An untouched controller of version 1.4: queues of up to 2048 entries, 7.5 s to get ready.
    pub const NEW: FakeRegisters = FakeRegisters {
        capabilities: 0x0000_0020_0f01_07ff,
        version: 0x0001_0400,
        masked: 0,
        configuration: 0,
        admin: [0; 5],
    };

    /// Reads a register; `status` is CSTS.
    ///
    /// # Panics
    ///
    /// When the driver needs no such register.
    pub fn read(&self, offset: u64, status: u32) -> u32 {
        match offset {
            CAP => self.capabilities as u32,
            0x04 => (self.capabilities >> 32) as u32,
            VS => self.version,
            INTMS | INTMC => self.masked,
            CC => self.configuration,
            CSTS => status,
            AQA..=0x34 => self.admin[((offset - AQA) / 4) as usize],
            _ => panic!("register {offset:#x} was read"),
        }
    }

    /// Whether the doorbell at this offset is of a tail, and its queue.
    pub(super) fn doorbell(&self, offset: u64) -> (bool, usize) {
        let (offset, stride) = (offset - DOORBELLS, 4 << (self.capabilities >> 32 & 0xf));
        assert!(offset.is_multiple_of(stride), "not a doorbell");
        let is_tail = (offset / stride).is_multiple_of(2);
        (is_tail, (offset / stride / 2) as usize)
    }

    /// The addresses of the admin queues: ASQ and ACQ.
    pub fn admin_addresses(&self) -> [u64; 2] {
        let at = |offset| (offset - AQA) as usize / 4;
        [at(ASQ), at(ACQ)].map(|at| u64::from(self.admin[at]) | u64::from(self.admin[at + 1]) << 32)
    }

    pub fn admin_queues(&self) -> QueuePair {
        let sizes = u64::from(self.admin[0]);
        let entries = [sizes & 0xfff, sizes >> 16 & 0xfff].map(|last| last + 1);
        QueuePair::new(self.admin_addresses(), entries)
    }
}
