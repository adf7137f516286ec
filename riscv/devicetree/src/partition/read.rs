use arrayvec::ArrayVec;
use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::{Node, Property};

use super::cpu::Cpu;
use super::error::{PartitionError, PermissionFault};
use super::function::FUNCTIONS;
use super::property::{double, malformed, missing, optional_cells, unknown, whole_cells, word};
use super::{
    DomainNode, MAX_DOMAINS, MAX_REGION_DEVICES, MAX_REGION_NODES, MemoryRegion, NextMode,
    Partition, Permissions,
};
use crate::blob::open;
use crate::bound;
use crate::node::{MAX_DEPTH, is_any, name_of, phandle};

const CONFIG: &str = "opensbi,domain,config";
const INSTANCE: &str = "opensbi,domain,instance";
const REGION: &str = "opensbi,domain,memregion";
const MACHINE_CONFIG: &str = "opensbi,config";

const REGIONS: &str = "regions";
const DEVICES: &str = "devices";
const WAKE_ORDER: &str = "poorwill,wake-order";
const COLD_BOOT_HARTS: &str = "cold-boot-harts";

/// Number of S-mode in `next-mode`.
const SUPERVISOR: u32 = 1;

impl Partition {
    /// Reads the partition from a device tree blob; `None` if the tree describes none.
    ///
    /// # Errors
    ///
    /// [`PartitionError`].
    pub fn read(blob: &[u8]) -> Result<Option<Self>, PartitionError> {
        let tree = open(blob).ok_or(PartitionError::Damaged)?;
        let mut partition = Partition::default();
        let is_there = partition.survey(&tree)?;
        Ok(is_there.then_some(partition))
    }

    /// Returns whether the tree may restrict the harts that boot the machine cold. A partition's
    /// [`may_boot_cold`](Self::may_boot_cold) then says which.
    ///
    /// # Errors
    ///
    /// [`PartitionError`].
    pub fn restricts_cold_boot(tree: &Fdt<'_>) -> Result<bool, PartitionError> {
        let configs = Configs::of(tree.root())?;
        Ok(configs.domains.is_some() && configs.machine.is_some())
    }

    /// As [`read`](Self::read), into an empty `self`: a partition takes 16 KiB and is not moved.
    /// Returns whether the tree describes a partition.
    ///
    /// # Errors
    ///
    /// [`PartitionError`]. `self` is incomplete then.
    pub fn survey(&mut self, tree: &Fdt<'_>) -> Result<bool, PartitionError> {
        let root = tree.root();
        let configs = Configs::of(root)?;
        let Some(config) = configs.domains else {
            return Ok(false);
        };
        let cpus = Cpu::all(root)?;
        self.take_cold_boot_harts(configs.machine, &cpus)?;
        let (instances, regions) = sort_nodes(config)?;
        for (wake_order, node) in &instances {
            let domain = self.start_domain(*node, *wake_order)?;
            domain.take_harts(*node, &cpus)?;
            domain.take_regions(*node, &regions)?;
            domain.take_functions(optional_cells(*node, FUNCTIONS)?)?;
        }
        self.check_assignments(&cpus, &instances)?;
        self.check_devices(root)?;
        self.choose_boot_harts(&instances, &cpus)?;
        self.check_master()?;
        Ok(true)
    }

    fn take_cold_boot_harts(
        &mut self,
        config: Option<FdtNode<'_>>,
        cpus: &[Cpu],
    ) -> Result<(), PartitionError> {
        let Some(config) = config.filter(|node| node.property(COLD_BOOT_HARTS).is_some()) else {
            return Ok(());
        };
        for phandle in whole_cells(config, COLD_BOOT_HARTS)? {
            let cpu = Cpu::find(cpus, phandle)
                .ok_or_else(|| unknown(config, COLD_BOOT_HARTS, phandle))?;
            if cpu.can_run && !self.cold_boot_harts.contains(&cpu.id) {
                bound::push(&mut self.cold_boot_harts, "cold-boot harts", cpu.id)?;
            }
        }
        self.cold_boot_harts.sort_unstable();
        if self.cold_boot_harts.is_empty() {
            return Err(malformed(config, COLD_BOOT_HARTS));
        }
        Ok(())
    }

    /// Adds a domain without harts, regions and functions.
    fn start_domain(
        &mut self,
        node: FdtNode<'_>,
        wake_order: u32,
    ) -> Result<&mut DomainNode, PartitionError> {
        let name = name_of(node);
        if name.as_str() != node.name() {
            return Err(PartitionError::LongName(name));
        }
        if self.domains.iter().any(|domain| domain.name == name) {
            return Err(PartitionError::SameName(name));
        }
        if let Some(inherits) = node.property("root-regions-inheritance")
            && inherits.value() != b"m-only\0"
        {
            return Err(PartitionError::InheritsRoot(name));
        }
        if let Some(mode) = word(node, "next-mode")?.filter(|mode| *mode != SUPERVISOR) {
            return Err(PartitionError::NextMode { domain: name, mode });
        }
        let domain = DomainNode {
            name,
            harts: ArrayVec::new(),
            boot_hart: 0,
            next_address: double(node, "next-addr")?,
            next_argument: double(node, "next-arg1")?,
            next_mode: NextMode::Supervisor,
            regions: ArrayVec::new(),
            devices: ArrayVec::new(),
            may_suspend: node.property("system-suspend-allowed").is_some(),
            may_reset: node.property("system-reset-allowed").is_some(),
            wake_order,
            functions: ArrayVec::new(),
            ranges: ArrayVec::new(),
        };
        bound::push(&mut self.domains, "domains", domain)?;
        let last = self.domains.len() - 1;
        Ok(&mut self.domains[last])
    }

    /// Checks that each CPU that runs an OS has a domain, and that the domain exists.
    fn check_assignments(
        &self,
        cpus: &[Cpu],
        instances: &[(u32, FdtNode<'_>)],
    ) -> Result<(), PartitionError> {
        for cpu in cpus {
            match cpu.domain {
                None if cpu.can_run => return Err(PartitionError::RootHart(cpu.id)),
                Some(_) if cpu.is_enabled && !cpu.can_run => {
                    return Err(PartitionError::NoMmu(cpu.id));
                }
                Some(domain)
                    if cpu.can_run
                        && !instances
                            .iter()
                            .any(|(_, node)| phandle(*node) == Some(domain)) =>
                {
                    return Err(PartitionError::UnknownDomain {
                        hart: cpu.id,
                        phandle: domain,
                    });
                }
                _ => {}
            }
        }
        for (place, cpu) in cpus.iter().enumerate() {
            let others = &cpus[place + 1..];
            if others
                .iter()
                .any(|other| other.can_run && cpu.can_run && other.id == cpu.id)
            {
                return Err(PartitionError::SameHart(cpu.id));
            }
        }
        let empty = self.domains.iter().find(|domain| domain.harts.is_empty());
        empty.map_or(Ok(()), |domain| Err(PartitionError::NoHarts(domain.name)))
    }

    /// Checks that the tree has each device that a region names.
    fn check_devices(&self, root: FdtNode<'_>) -> Result<(), PartitionError> {
        let all = self.domains.iter().flat_map(|domain| &domain.devices);
        let mut missing: ArrayVec<u32, { MAX_DOMAINS * MAX_REGION_DEVICES }> =
            all.copied().collect();
        look_for(root, MAX_DEPTH, &mut |phandle| {
            missing.retain(|device| *device != phandle);
            missing.is_empty()
        })?;
        let mut domains = self.domains.iter();
        let unknown = domains.find_map(|domain| {
            let mut devices = domain.devices.iter();
            Some((domain, devices.find(|device| missing.contains(device))?))
        });
        unknown.map_or(Ok(()), |(domain, device)| {
            Err(PartitionError::UnknownPhandle {
                node: domain.name,
                property: DEVICES,
                phandle: *device,
            })
        })
    }

    /// Without `boot-hart` a domain's first hart that is listed for cold boots starts it. OpenSBI
    /// lets such a hart start its domain even against `boot-hart`, so the two must agree.
    fn choose_boot_harts(
        &mut self,
        instances: &[(u32, FdtNode<'_>)],
        cpus: &[Cpu],
    ) -> Result<(), PartitionError> {
        let cold = &self.cold_boot_harts;
        for (domain, (_, node)) in self.domains.iter_mut().zip(instances) {
            let name = domain.name;
            let is_its = |hart: &u64| domain.harts.contains(hart);
            let first_cold = cold.iter().copied().find(is_its);
            let Some(phandle) = word(*node, "boot-hart")? else {
                domain.boot_hart = first_cold.ok_or(PartitionError::NoBootHart(name))?;
                continue;
            };
            let cpu =
                Cpu::find(cpus, phandle).ok_or_else(|| unknown(*node, "boot-hart", phandle))?;
            if !is_its(&cpu.id) {
                return Err(PartitionError::BootHart {
                    domain: name,
                    hart: cpu.id,
                });
            }
            if first_cold.is_some() && !cold.contains(&cpu.id) {
                return Err(PartitionError::NotCold {
                    domain: name,
                    hart: cpu.id,
                });
            }
            domain.boot_hart = cpu.id;
        }
        Ok(())
    }

    fn check_master(&self) -> Result<(), PartitionError> {
        let mut masters = self.domains.iter().filter(|domain| domain.may_suspend);
        let master = masters.next().ok_or(PartitionError::NoMaster)?;
        match masters.next() {
            None => Ok(()),
            Some(other) => Err(PartitionError::TwoMasters {
                domain: master.name,
                other: other.name,
            }),
        }
    }
}

impl DomainNode {
    /// Takes the harts whose CPUs name this domain. `possible-harts` must list them; alone it
    /// assigns no hart.
    fn take_harts(&mut self, node: FdtNode<'_>, cpus: &[Cpu]) -> Result<(), PartitionError> {
        let possible = optional_cells(node, "possible-harts")?;
        for phandle in possible.clone() {
            Cpu::find(cpus, phandle).ok_or_else(|| unknown(node, "possible-harts", phandle))?;
        }
        let own = phandle(node);
        let is_its = |cpu: &&Cpu| cpu.can_run && cpu.domain.is_some() && cpu.domain == own;
        for cpu in cpus.iter().filter(is_its) {
            if !possible.clone().any(|phandle| Some(phandle) == cpu.phandle) {
                return Err(PartitionError::NotPossible {
                    domain: self.name,
                    hart: cpu.id,
                });
            }
            bound::push(&mut self.harts, "harts of a domain", cpu.id)?;
        }
        self.harts.sort_unstable();
        Ok(())
    }

    /// Takes the regions with the permissions that the domain has there.
    fn take_regions(
        &mut self,
        node: FdtNode<'_>,
        nodes: &[(Option<u32>, FdtNode<'_>)],
    ) -> Result<(), PartitionError> {
        let mut cells = optional_cells(node, REGIONS)?;
        while let Some(wanted) = cells.next() {
            let bits = cells.next().ok_or_else(|| malformed(node, REGIONS))?;
            let mut nodes = nodes.iter();
            let (_, named) = *nodes
                .find(|(phandle, _)| *phandle == Some(wanted))
                .ok_or_else(|| unknown(node, REGIONS, wanted))?;
            let (base, order) = addresses(named)?;
            let permissions =
                Permissions::from_bits(bits).map_err(|fault| self.refuse(base, bits, fault))?;
            let region = MemoryRegion {
                base,
                order,
                is_mmio: named.property("mmio").is_some(),
                permissions,
            };
            bound::push(&mut self.regions, "memory regions of a domain", region)?;
            for device in optional_cells(named, DEVICES)? {
                if !self.devices.contains(&device) {
                    bound::push(&mut self.devices, "devices of a domain's regions", device)?;
                }
            }
        }
        self.devices.sort_unstable();
        let regions = &mut self.regions;
        regions.sort_unstable_by_key(|region| (u32::MAX - region.order, region.base));
        let mut pairs = regions.windows(2);
        let key = |region: &MemoryRegion| (region.order, region.base);
        match pairs.find(|pair| key(&pair[0]) == key(&pair[1])) {
            None => Ok(()),
            Some(pair) => Err(PartitionError::SameRegion {
                domain: self.name,
                base: pair[0].base,
                order: pair[0].order,
            }),
        }
    }

    fn refuse(&self, base: u64, bits: u32, fault: PermissionFault) -> PartitionError {
        PartitionError::Permissions {
            domain: self.name,
            base,
            bits,
            fault,
        }
    }
}

/// Returns whether `/chosen` describes a partition, good or bad.
pub(crate) fn is_described(chosen: FdtNode<'_>) -> bool {
    let mut configs = Configs::default();
    let found = configs.find(chosen, MAX_DEPTH);
    configs.domains.is_some() || found.is_err()
}

/// The nodes below `/chosen` that describe a partition.
#[derive(Default)]
struct Configs<'a> {
    domains: Option<FdtNode<'a>>,
    machine: Option<FdtNode<'a>>,
}

impl<'a> Configs<'a> {
    fn of(root: FdtNode<'a>) -> Result<Self, PartitionError> {
        let mut configs = Configs::default();
        if let Some(chosen) = root.child("chosen") {
            configs.find(chosen, MAX_DEPTH)?;
        }
        Ok(configs)
    }

    fn find(&mut self, node: FdtNode<'a>, depth: u32) -> Result<(), PartitionError> {
        let depth = depth.checked_sub(1).ok_or(PartitionError::TooDeep)?;
        for child in node.children() {
            let (place, name) = if is_any(child, &[CONFIG]) {
                (&mut self.domains, CONFIG)
            } else if is_any(child, &[MACHINE_CONFIG]) {
                (&mut self.machine, MACHINE_CONFIG)
            } else {
                self.find(child, depth)?;
                continue;
            };
            if place.replace(child).is_some() {
                return Err(PartitionError::Twice(name));
            }
        }
        Ok(())
    }
}

/// Domains with their wake orders, ascending.
type Instances<'a> = ArrayVec<(u32, FdtNode<'a>), MAX_DOMAINS>;

/// Memory regions with their phandles.
type Regions<'a> = ArrayVec<(Option<u32>, FdtNode<'a>), MAX_REGION_NODES>;

/// Sorts the children of a partition's node into domains and memory regions.
fn sort_nodes<'a>(config: FdtNode<'a>) -> Result<(Instances<'a>, Regions<'a>), PartitionError> {
    let mut instances = Instances::new();
    let mut regions = Regions::new();
    let mut without_order = None;
    for node in config.children() {
        if is_any(node, &[INSTANCE]) {
            let order = word(node, WAKE_ORDER)?;
            without_order = without_order.or(order.is_none().then_some(node));
            bound::push(&mut instances, "domains", (order.unwrap_or(0), node))?;
        } else if is_any(node, &[REGION]) {
            addresses(node)?;
            bound::push(&mut regions, "memory regions", (phandle(node), node))?;
        } else {
            return Err(PartitionError::UnknownNode(name_of(node)));
        }
    }
    if instances.is_empty() {
        return Err(PartitionError::NoDomain);
    }
    // A lone domain needs no order.
    if let Some(node) = without_order.filter(|_| instances.len() > 1) {
        return Err(missing(node, WAKE_ORDER));
    }
    instances.sort_unstable_by_key(|(order, _)| *order);
    if let Some(pair) = instances.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(PartitionError::SameWakeOrder {
            domain: name_of(pair[0].1),
            other: name_of(pair[1].1),
            order: pair[0].0,
        });
    }
    Ok((instances, regions))
}

/// Base and order of a memory region.
fn addresses(node: FdtNode<'_>) -> Result<(u64, u32), PartitionError> {
    let base = double(node, "base")?.ok_or_else(|| missing(node, "base"))?;
    let order = word(node, "order")?.ok_or_else(|| missing(node, "order"))?;
    let name = name_of(node);
    if !(3..=u64::BITS).contains(&order) {
        return Err(PartitionError::Order { node: name, order });
    }
    if base.trailing_zeros() < order {
        return Err(PartitionError::Misaligned {
            node: name,
            base,
            order,
        });
    }
    Ok((base, order))
}

/// Calls `is_last` with each phandle here and below, until it returns true. Returns whether it did.
fn look_for(
    node: FdtNode<'_>,
    depth: u32,
    is_last: &mut dyn FnMut(u32) -> bool,
) -> Result<bool, PartitionError> {
    if phandle(node).is_some_and(&mut *is_last) {
        return Ok(true);
    }
    let depth = depth.checked_sub(1).ok_or(PartitionError::TooDeep)?;
    for child in node.children() {
        if look_for(child, depth, is_last)? {
            return Ok(true);
        }
    }
    Ok(false)
}
