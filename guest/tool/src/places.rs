//! Where Linux has its files.

/// Paths of Linux's files.
#[derive(Clone, Copy, Debug)]
pub struct Places<'p> {
    /// Block devices: `/sys/class/block`.
    pub blocks: &'p str,
    /// Device nodes: `/dev`.
    pub nodes: &'p str,
    /// The firmware's report of the last start or wake: `/proc/device-tree/chosen/poorwill,boot`.
    pub told: &'p str,
    /// The firmware's log: `/proc/device-tree/chosen/poorwill,log`.
    pub log: &'p str,
    /// The firmware's cut status: `/proc/device-tree/chosen/poorwill,cut`.
    pub cut: &'p str,
    /// The name of the OS's domain: `/proc/device-tree/chosen/poorwill,domain`.
    pub domain: &'p str,
    /// PCI functions: `/sys/bus/pci/devices`.
    pub pci: &'p str,
    /// The drivers of PCI functions: `/sys/bus/pci/drivers`.
    pub pci_drivers: &'p str,
    /// The drivers of virtio devices: `/sys/bus/virtio/drivers`.
    pub virtio_drivers: &'p str,
    /// Devices on buses that cannot be enumerated: `/sys/bus/platform/devices`.
    pub platform: &'p str,
    /// IOMMUs that have a driver: `/sys/class/iommu`.
    pub iommus: &'p str,
    /// Mounted file systems: `/proc/self/mounts`.
    pub mounts: &'p str,
    /// Swap devices: `/proc/swaps`.
    pub swaps: &'p str,
    /// The file that requests a sleep: `/sys/power/state`.
    pub power: &'p str,
}
