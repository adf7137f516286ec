use arrayvec::ArrayVec;

/// The most windows of a host bridge.
pub const MAX_WINDOWS: usize = 8;

/// The bus addresses of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowKind {
    /// Memory below 4 GiB on the bus (`ranges` space code 2).
    Memory32,
    /// Memory at any address on the bus (`ranges` space code 3).
    Memory64,
}

/// A range of addresses through which the CPU accesses memory on the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The kind of its bus addresses.
    pub kind: WindowKind,
    /// Whether the window may prefetch (`ranges` bit 30).
    pub prefetchable: bool,
    /// The first address on the bus.
    pub pci_address: u64,
    /// The first address for the CPU.
    pub cpu_address: u64,
    /// The length in bytes.
    pub length: u64,
}

/// A host bridge as the device tree describes it (`bus-range`, `ranges`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostBridge {
    /// The number of the bus directly below the host bridge.
    pub first_bus: u8,
    /// The highest bus number below the host bridge.
    pub last_bus: u8,
    /// The memory windows; I/O windows are not used.
    pub windows: ArrayVec<Window, MAX_WINDOWS>,
}

impl HostBridge {
    /// The CPU address of the `length` bytes at `pci_address`; `None` if no window has
    /// all of them.
    #[must_use]
    pub fn cpu_address(&self, pci_address: u64, length: u64) -> Option<u64> {
        let end = pci_address.checked_add(length)?;
        self.windows.iter().find_map(|window| {
            let window_end = window.pci_address.checked_add(window.length)?;
            if pci_address < window.pci_address || end > window_end {
                return None;
            }
            window
                .cpu_address
                .checked_add(pci_address - window.pci_address)
        })
    }
}
