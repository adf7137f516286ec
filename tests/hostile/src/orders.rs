//! The orders that a test gives the guest.

/// The guest's orders, at the address in its second argument. Words are little-endian.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Orders {
    /// 0: attack; 1: watch; 2: park again and again; 3: put the machine to sleep again and again; 4:
    /// end by a reset; 5: the same while another hart asks for a sleep; 6: try each
    /// address, and say what the accesses raise; 7: do nothing; 8: flood the console;
    /// 9: read the clock at the first address, and try to set its alarm; 10: end while the
    /// device writes; 11: attack by a disk; 12: raise more refused accesses than the IOMMU's queue
    /// holds; 13: stop the domain's only hart that runs; 14: begin a line on the console, and do not
    /// end it; 15: attack without a device; 16: park while two harts start each
    /// other; 17: park and wake without a pause; 18: ask for the machine's sleep a number of times,
    /// and say how long the longest refusal took; 19: park, and start another hart after each sleep;
    /// 20: as 3, with much memory in use; 21: as 2, likewise; 22: sleep with the machine again and
    /// again, and say each step of the life.
    pub(crate) role: u64,
    /// A hart of another domain.
    pub(crate) foreign_hart: u64,
    /// Memory of another domain.
    pub(crate) foreign_memory: u64,
    /// The domain's own APLIC.
    pub(crate) aplic: u64,
    /// Registers of the domain's PCI function; 0 without one.
    pub(crate) device: u64,
    /// Its configuration space.
    pub(crate) configuration: u64,
    /// Another hart of the domain.
    pub(crate) own_hart: u64,
    /// The interrupt file of the domain's first hart; 0: the domain takes no external interrupts.
    pub(crate) file: u64,
    /// The wired source of a watcher's PCI function; 0 without one.
    pub(crate) wire: u64,
    /// Time of a sleep until its timer is due, or between a line and the sleep that it names, in units
    /// of 100 ns; or the number of refusals.
    pub(crate) sleep: u64,
    /// The life that begins with a cold boot, a number of which no other cold boot has the same.
    pub(crate) life: u64,
    /// Number of addresses that follow.
    pub(crate) addresses: u64,
}
