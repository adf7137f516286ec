//! A machine's partition: the domains that `/chosen` describes (docs/domains.md has the bindings).
//!
//! A tree without such a description costs a look at the children of `/chosen`, and nothing of
//! [`Machine`](crate::Machine) grows for it.

mod configs;
mod cpu;
mod digest;
mod error;
mod function;
mod limits;
mod node;
mod property;
mod read;
mod region;

pub(crate) use configs::{CONFIG, described};

pub use digest::identity_with;
pub use error::{FunctionFault, PartitionError, PermissionFault};
pub use limits::{
    MAX_DOMAIN_FUNCTIONS, MAX_DOMAINS, MAX_FUNCTION_RANGES, MAX_MACHINE_FUNCTIONS,
    MAX_MACHINE_RANGES, MAX_PARTITION_HARTS, MAX_REGION_DEVICES, MAX_REGION_NODES, MAX_REGIONS,
    MAX_SPANS,
};
pub use node::{DomainNode, FunctionRange, NextMode, Partition};
pub use region::{MemoryRegion, Permissions, Span};
