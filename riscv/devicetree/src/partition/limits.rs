/// Maximum number of domains of a machine.
pub const MAX_DOMAINS: usize = 8;

/// Maximum number of CPU nodes of a machine with a partition.
pub const MAX_PARTITION_HARTS: usize = 64;

/// Maximum number of memory region nodes of a machine.
pub const MAX_REGION_NODES: usize = 64;

/// Maximum number of memory regions of a domain.
pub const MAX_REGIONS: usize = 16;

/// Maximum number of devices that the regions of a domain name.
pub const MAX_REGION_DEVICES: usize = 32;

/// Maximum number of PCI functions of a domain.
pub const MAX_DOMAIN_FUNCTIONS: usize = 16;

/// Maximum number of address ranges of a domain's PCI functions.
pub const MAX_FUNCTION_RANGES: usize = 24;

/// Maximum number of machine mode's own PCI functions.
pub const MAX_MACHINE_FUNCTIONS: usize = 2;

/// Maximum number of address ranges of machine mode's own PCI functions.
pub const MAX_MACHINE_RANGES: usize = 6;

/// Maximum number of spans of a domain: each region has a start and an end.
pub const MAX_SPANS: usize = 2 * MAX_REGIONS;
