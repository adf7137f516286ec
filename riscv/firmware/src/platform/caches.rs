//! The cache write-back at a power failure: runs the plan of `sleep::cut` on this machine.

use arrayvec::ArrayVec;
use poorwill_arch::{Mmio, cache, fence};
use poorwill_devicetree::{Cache, Machine};
use poorwill_drivers::FlushRegisters;
use poorwill_memory::{MAX_RANGES, MemoryMap, PhysRange};
use poorwill_sleep::cut::{
    CacheError, CacheMeans, CacheOperations, CachePlan, CacheSize, LineMeans,
};
use spin::Once;

/// The caches, with the plan for their write-back.
#[derive(Debug)]
pub(crate) struct Caches {
    plan: CachePlan,
    /// Each hart must enable the write-back instruction first.
    needs_whole: bool,
    registers: Option<FlushRegisters<Mmio>>,
}

/// The OS's memory, and the firmware's second range. These are set up after the caches, since they
/// are not copied.
static MEMORY: Once<(&MemoryMap, PhysRange)> = Once::new();

/// Sets the memory to write back.
pub(super) fn keep_memory(os: &'static MemoryMap, own: PhysRange) {
    MEMORY.call_once(|| (os, own));
}

impl Caches {
    /// The caches in the tree. `hold_up_us`: time for which the power lasts, in microseconds.
    /// `memory`: the OS's memory. `own`: the firmware's second range.
    ///
    /// # Errors
    ///
    /// [`CacheError`].
    ///
    /// # Safety
    ///
    /// `machine` describes this machine.
    pub(super) unsafe fn new(
        machine: &Machine,
        memory: &[PhysRange],
        own: PhysRange,
        hold_up_us: u32,
    ) -> Result<Self, CacheError> {
        let described = machine.caches.ok_or(CacheError::Unknown)?;
        let needs_whole = machine.writes_back_whole() && cache::allow_whole();
        let registers = described.flush_registers.map(|address| {
            // SAFETY: by the caller's contract the tree is right; it names a controller there.
            FlushRegisters::new(unsafe { Mmio::new(address) })
        });
        let size = |cache: Cache| CacheSize {
            bytes: cache.bytes,
            is_lru: cache.is_lru,
        };
        let means = CacheMeans {
            first: described.first.map(size),
            further: described.further.map(size),
            shared: described.shared.map(size),
            has_whole: needs_whole,
            block: machine.cache_block(),
            has_register: registers.is_some(),
        };
        let all: ArrayVec<PhysRange, { MAX_RANGES + 1 }> =
            memory.iter().copied().chain([own]).collect();
        Ok(Caches {
            plan: means.plan(&all, hold_up_us)?,
            needs_whole,
            registers,
        })
    }

    /// Writes back the calling hart's private caches; returns false if it cannot.
    pub(crate) fn write_back_own(&self) -> bool {
        let can = self.can_write_back();
        if can {
            self.plan.own(self);
        }
        can
    }

    /// Writes back the remaining caches, after the other harts have written back their own; returns
    /// false if it cannot.
    pub(crate) fn write_back_rest(&self) -> bool {
        let can = self.can_write_back();
        if can {
            self.plan.rest(self);
        }
        can
    }

    /// Bytes of all caches of `harts` harts; `None`: unknown.
    pub(crate) fn bytes(&self, harts: usize) -> Option<u64> {
        self.plan.bytes(harts as u64)
    }

    /// How many times all caches are written back for `lines` single lines.
    pub(crate) fn passes(&self, lines: u64) -> u64 {
        self.plan.passes(lines)
    }

    /// Writes back some bytes that the calling hart has stored.
    pub(crate) fn write_back(&self, bytes: PhysRange) {
        self.plan.few(self, bytes);
    }

    /// Returns whether the calling hart has the plan's instruction.
    fn can_write_back(&self) -> bool {
        !self.needs_whole || cache::allow_whole()
    }
}

impl CacheOperations for Caches {
    fn write_back_whole(&self) {
        cache::write_back_whole();
    }

    fn write_back(&self, bytes: PhysRange, means: LineMeans) {
        match (means, &self.registers) {
            (LineMeans::Instruction(block), _) => cache::write_back(bytes, block),
            (LineMeans::Register, Some(registers)) => registers.write_back(bytes),
            (LineMeans::Register, None) => unreachable!("the plan needs a register"),
        }
    }

    fn read(&self, bytes: u64) {
        if let Some(range) = self.memory().max_by_key(|range| range.length()) {
            let end = range.end.min(range.start + bytes);
            let start = range.start;
            // SAFETY: the device tree describes this range as memory.
            unsafe { cache::read_through(PhysRange { start, end }) };
        }
    }

    fn fence(&self) {
        fence::everything();
    }

    fn memory(&self) -> impl Iterator<Item = PhysRange> {
        let kept = MEMORY.get().into_iter();
        kept.flat_map(|(os, own)| os.ranges().iter().copied().chain([*own]))
    }
}
