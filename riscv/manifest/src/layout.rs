use poorwill_devicetree::{Machine, range_bytes};
use poorwill_memory::{PAGE_BYTES, PhysRange};

/// Maximum number of terms that grow with memory; see [`DataRange::pages_per_page`].
pub const MAX_TERMS: usize = 4;

/// The memory that a firmware keeps for itself. The OS has the rest, so an image wakes only under a
/// firmware that reserves the same ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLayout {
    /// The range that the firmware is loaded into.
    pub loaded: PhysRange,
    /// The rule by which the second range is placed.
    pub placement_rule: u16,
    /// The rule by which a machine's identity is computed from its device tree.
    pub identity_rule: u16,
    /// Size of the second range.
    pub data: DataRange,
    /// Growth of the second range on a machine whose device tree has a power-fail line.
    pub cut: CutRecord,
    /// Its growth, in pages, on a machine whose weak hart runs the OS.
    pub executor_pages: u64,
}

/// What a machine's device tree adds to the second range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// Nothing.
    Nothing,
    /// A power-fail line.
    PowerFail,
    /// A weak hart that runs the OS.
    Executor,
}

impl Added {
    /// What a machine adds. No machine has both.
    #[must_use]
    pub fn of(machine: &Machine) -> Self {
        match (&machine.power_fail, &machine.executor) {
            (_, Some(Ok(_))) => Added::Executor,
            (Some(_), _) => Added::PowerFail,
            (None, _) => Added::Nothing,
        }
    }
}

/// Offset of the page that the OS may read, from the end of the first range (`firmware.ld`).
const READABLE_FROM_END: u64 = 2 * PAGE_BYTES;

/// The page of a firmware's first range that the OS may read, on machines with a generation ID.
#[must_use]
pub const fn readable_page(loaded: PhysRange) -> PhysRange {
    let start = loaded.end.saturating_sub(READABLE_FROM_END);
    PhysRange {
        start,
        end: start + PAGE_BYTES,
    }
}

impl MemoryLayout {
    /// Size of the second range on a machine with this number of harts of the OS.
    #[must_use]
    pub const fn data_with(&self, harts: u64, added: Added) -> DataRange {
        let mut data = self.data;
        let pages = match added {
            Added::Nothing => 0,
            Added::PowerFail => self.cut.pages(harts),
            // A weak hart has a stack like the OS's harts.
            Added::Executor => self.executor_pages.saturating_add(data.hart_pages),
        };
        data.fixed_pages = data.fixed_pages.saturating_add(pages);
        data
    }
}

/// Memory that a firmware keeps for cuts: the record and other data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CutRecord {
    /// Bytes on every machine.
    pub fixed_bytes: u64,
    /// Bytes for each hart.
    pub hart_bytes: u64,
}

impl CutRecord {
    /// Pages on a machine with this number of harts; saturates at the maximum.
    #[must_use]
    pub const fn pages(&self, harts: u64) -> u64 {
        let of_harts = self.hart_bytes.saturating_mul(harts);
        self.fixed_bytes
            .saturating_add(of_harts)
            .div_ceil(PAGE_BYTES)
    }
}

/// Size of a firmware's second range: a number of pages, which the placement rule rounds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataRange {
    /// Pages on every machine.
    pub fixed_pages: u64,
    /// Pages for each hart.
    pub hart_pages: u64,
    /// Terms that grow with memory. Each n that is not 0 adds one page for every n pages of memory,
    /// rounded up.
    pub pages_per_page: [u64; MAX_TERMS],
}

impl DataRange {
    /// Pages on a machine with `pages` pages of memory, including the firmware's, and `harts`
    /// harts; saturates at the maximum.
    #[must_use]
    pub const fn pages(&self, pages: u64, harts: u64) -> u64 {
        let mut sum = self
            .fixed_pages
            .saturating_add(self.hart_pages.saturating_mul(harts));
        let mut term = 0;
        while term < MAX_TERMS {
            if self.pages_per_page[term] != 0 {
                sum = sum.saturating_add(pages.div_ceil(self.pages_per_page[term]));
            }
            term += 1;
        }
        sum
    }

    /// Bytes of the range on that machine; `None` if they overflow.
    #[must_use]
    pub fn bytes(&self, pages: u64, harts: u64) -> Option<u64> {
        range_bytes(self.pages(pages, harts).checked_mul(PAGE_BYTES)?)
    }

    /// Sizes of the range on machines with `harts` harts that leave `os_pages` pages to the OS, if
    /// the first range takes `loaded_pages`. At a change of size, two machines with different
    /// memory may leave the same number of pages.
    pub(crate) fn bytes_for_os(
        self,
        os_pages: u64,
        loaded_pages: u64,
        harts: u64,
    ) -> impl Iterator<Item = u64> {
        sizes().filter(move |bytes| {
            os_pages
                .checked_add(loaded_pages)
                .and_then(|pages| pages.checked_add(bytes / PAGE_BYTES))
                .is_some_and(|pages| self.bytes(pages, harts) == Some(*bytes))
        })
    }
}

/// Possible sizes of a second range: 4 KiB to 32 GiB.
pub(crate) fn sizes() -> impl Iterator<Item = u64> {
    (12..=35).map(|shift| 1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: DataRange = DataRange {
        fixed_pages: 16,
        hart_pages: 2,
        pages_per_page: [1024, 0, 512, 0],
    };

    #[test]
    fn it_grows_with_memory_and_harts() {
        assert_eq!(DATA.pages(0, 0), 16);
        assert_eq!(DATA.pages(1, 1), 20);
        assert_eq!(DATA.pages(1025, 4), 16 + 8 + 2 + 3);
        assert_eq!(DATA.bytes(1025, 4), Some(2 << 20));
        assert_eq!(DATA.bytes(u64::MAX, u64::MAX), None);
    }

    #[test]
    fn a_power_fail_line_or_an_executor_makes_it_larger() {
        let layout = MemoryLayout {
            loaded: PhysRange::new(0, 0),
            placement_rule: 1,
            identity_rule: 1,
            data: DATA,
            cut: CutRecord {
                fixed_bytes: 2 * PAGE_BYTES + 1,
                hart_bytes: PAGE_BYTES / 2,
            },
            executor_pages: 1025,
        };
        let pages = |harts, added| layout.data_with(harts, added).pages(1, harts);
        assert_eq!(layout.data_with(3, Added::Nothing), DATA);
        assert_eq!(pages(3, Added::PowerFail), DATA.pages(1, 3) + 4);
        assert_eq!(pages(4, Added::PowerFail), DATA.pages(1, 4) + 5);
        let whole = layout.data_with(u64::MAX, Added::PowerFail);
        assert_eq!(whole.bytes(1, 1), None);
        assert_eq!(pages(3, Added::Executor), DATA.pages(1, 4) + 1025);
    }

    #[test]
    fn sizes_are_found_from_what_the_os_has() {
        for pages in [1u64 << 12, 1 << 15, 1 << 18, (1 << 22) + 77, 1 << 24] {
            let bytes = DATA.bytes(pages, 4).unwrap();
            let os_pages = pages - 448 - bytes / PAGE_BYTES;
            let mut found = DATA.bytes_for_os(os_pages, 448, 4);
            assert!(found.any(|found| found == bytes));
        }
        assert_eq!(DATA.bytes_for_os(u64::MAX, 448, 4).count(), 0);
    }
}
