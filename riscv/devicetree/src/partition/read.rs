use arrayvec::ArrayVec;
use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::{Node, Property};

use super::configs::{Configs, INSTANCE, has_instance};
use super::cpu::Cpu;
use super::error::{PartitionError, PermissionFault};
use super::limits::{MAX_DOMAINS, MAX_REGION_DEVICES, MAX_REGION_NODES};
use super::node::{DomainNode, NextMode, Partition};
use super::property::{double, malformed, missing, optional_cells, unknown, whole_cells, word};
use super::region::{MemoryRegion, Permissions};
use crate::blob::open;
use crate::bound;
use crate::node::{MAX_DEPTH, is_any, name_of, phandle};

const REGION: &str = "opensbi,domain,memregion";

const REGIONS: &str = "regions";
const DEVICES: &str = "devices";
const WAKE_ORDER: &str = "poorwill,wake-order";
const COLD_BOOT_HARTS: &str = "cold-boot-harts";

/// Numbers of U-mode and S-mode in `next-mode`.
const USER: u32 = 0;
const SUPERVISOR: u32 = 1;

/// Called with each reason against a partition.
type Tell<'a> = &'a mut dyn FnMut(PartitionError);

/// Reports an error. A later part of the tree may have others.
fn go_on<T: Default>(result: Result<T, PartitionError>, tell: Tell<'_>) -> T {
    result.unwrap_or_else(|error| {
        tell(error);
        T::default()
    })
}

impl Partition {
    /// Reads the partition from a device tree blob; `None` if the tree describes no domain.
    ///
    /// # Errors
    ///
    /// The first [`PartitionError`]; [`survey`](Self::survey) names the others, too.
    pub fn read(blob: &[u8]) -> Result<Option<Self>, PartitionError> {
        let tree = open(blob).ok_or(PartitionError::Damaged)?;
        let mut partition = Partition::default();
        let mut first = None;
        let is_there = partition.survey(&tree, &mut |error| {
            first.get_or_insert(error);
        });
        match first {
            Some(error) => Err(error),
            None => Ok(is_there.then_some(partition)),
        }
    }

    /// As [`read`](Self::read), into an empty `self`: a partition takes 16 KiB and is not moved.
    /// Returns whether the tree describes domains, good or bad. `tell` is called with each reason
    /// against the partition; `self` is incomplete after one.
    pub fn survey(&mut self, tree: &Fdt<'_>, tell: &mut dyn FnMut(PartitionError)) -> bool {
        let root = tree.root();
        let configs = match Configs::of(root) {
            Ok(configs) => configs,
            Err(error) => {
                tell(error);
                return true;
            }
        };
        let Some(config) = configs.domains.filter(|config| has_instance(*config)) else {
            return false;
        };
        let cpus = match Cpu::all(root) {
            Ok(cpus) => cpus,
            Err(error) => {
                tell(error);
                return true;
            }
        };
        go_on(self.take_cold_boot_harts(configs.machine, &cpus), tell);
        let (instances, regions) = sort_nodes(config, tell);
        for (wake_order, node) in &instances {
            let Some(domain) = self.start_domain(*node, *wake_order, tell) else {
                continue;
            };
            go_on(domain.take_harts(*node, &cpus, tell), tell);
            domain.take_regions(*node, &regions, tell);
            go_on(domain.take_functions(*node), tell);
        }
        go_on(self.take_functions(config), tell);
        self.check_assignments(&cpus, &instances, tell);
        go_on(self.check_devices(root), tell);
        self.choose_boot_harts(&instances, &cpus, tell);
        self.check_masters(tell);
        true
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

    /// Adds a domain without harts, regions and functions; `None` after [`MAX_DOMAINS`].
    fn start_domain(
        &mut self,
        node: FdtNode<'_>,
        wake_order: u32,
        tell: Tell<'_>,
    ) -> Option<&mut DomainNode> {
        let name = name_of(node);
        if name.as_str() != node.name() {
            tell(PartitionError::LongName(name));
        }
        if self.domains.iter().any(|domain| domain.name == name) {
            tell(PartitionError::SameName(name));
        }
        if let Some(inherits) = node.property("root-regions-inheritance")
            && inherits.value() != b"m-only\0"
        {
            tell(PartitionError::InheritsRoot(name));
        }
        let next_mode = match go_on(word(node, "next-mode"), tell) {
            None | Some(SUPERVISOR) => NextMode::Supervisor,
            Some(USER) => NextMode::User,
            Some(mode) => {
                tell(PartitionError::NextMode { domain: name, mode });
                NextMode::Supervisor
            }
        };
        let domain = DomainNode {
            name,
            harts: ArrayVec::new(),
            boot_hart: 0,
            next_address: go_on(double(node, "next-addr"), tell),
            next_argument: go_on(double(node, "next-arg1"), tell),
            next_mode,
            regions: ArrayVec::new(),
            devices: ArrayVec::new(),
            may_suspend: may_suspend(node),
            may_reset: node.property("system-reset-allowed").is_some(),
            wake_order,
            functions: ArrayVec::new(),
            ranges: ArrayVec::new(),
        };
        self.domains.try_push(domain).ok()?;
        self.domains.last_mut()
    }

    /// Checks that the domain of each CPU exists and can use it, and that each domain has a hart. A
    /// CPU without a domain stays in machine mode.
    fn check_assignments(&self, cpus: &[Cpu], instances: &[(u32, FdtNode<'_>)], tell: Tell<'_>) {
        let exists = |domain: u32| {
            let mut nodes = instances.iter();
            nodes.any(|(_, node)| phandle(*node) == Some(domain))
        };
        for cpu in cpus.iter().filter(|cpu| cpu.is_enabled) {
            match cpu.domain {
                Some(_) if !cpu.can_run => tell(PartitionError::NoMmu(cpu.id)),
                Some(domain) if !exists(domain) => tell(PartitionError::UnknownDomain {
                    hart: cpu.id,
                    phandle: domain,
                }),
                _ => {}
            }
        }
        for (place, cpu) in cpus.iter().enumerate() {
            let mut others = cpus[place + 1..].iter();
            if others.any(|other| other.can_run && cpu.can_run && other.id == cpu.id) {
                tell(PartitionError::SameHart(cpu.id));
            }
        }
        let idle = self.domains.iter().filter(|domain| domain.harts.is_empty());
        idle.for_each(|domain| tell(PartitionError::NoHarts(domain.name)));
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

    /// Without `boot-hart` the domain's first hart that is listed for cold boots starts it, or else
    /// its first one. OpenSBI lets a listed hart start its domain even against `boot-hart`, so the
    /// two must agree.
    fn choose_boot_harts(
        &mut self,
        instances: &[(u32, FdtNode<'_>)],
        cpus: &[Cpu],
        tell: Tell<'_>,
    ) {
        let cold = &self.cold_boot_harts;
        for (domain, (_, node)) in self.domains.iter_mut().zip(instances) {
            let name = domain.name;
            let is_its = |hart: &u64| domain.harts.contains(hart);
            let first_cold = cold.iter().copied().find(is_its);
            let Some(phandle) = go_on(word(*node, "boot-hart"), tell) else {
                let first = first_cold.or(domain.harts.first().copied());
                domain.boot_hart = first.unwrap_or_default();
                continue;
            };
            let Some(cpu) = Cpu::find(cpus, phandle) else {
                tell(unknown(*node, "boot-hart", phandle));
                continue;
            };
            let hart = cpu.id;
            if !is_its(&hart) {
                tell(PartitionError::BootHart { domain: name, hart });
            } else if first_cold.is_some() && !cold.contains(&hart) {
                tell(PartitionError::NotCold { domain: name, hart });
            }
            domain.boot_hart = hart;
        }
    }

    fn check_masters(&self, tell: Tell<'_>) {
        let mut masters = self.domains.iter().filter(|domain| domain.may_suspend);
        let Some(master) = masters.next() else { return };
        masters.for_each(|other| {
            tell(PartitionError::TwoMasters {
                domain: master.name,
                other: other.name,
            });
        });
    }
}

impl DomainNode {
    /// Takes the harts whose CPUs name this domain. `possible-harts` must list them; alone it
    /// assigns no hart.
    fn take_harts(
        &mut self,
        node: FdtNode<'_>,
        cpus: &[Cpu],
        tell: Tell<'_>,
    ) -> Result<(), PartitionError> {
        const POSSIBLE: &str = "possible-harts";
        let possible = optional_cells(node, POSSIBLE)?;
        let is_known = |phandle: &u32| Cpu::find(cpus, *phandle).is_some();
        let strange = possible.clone().filter(|phandle| !is_known(phandle));
        strange.for_each(|phandle| tell(unknown(node, POSSIBLE, phandle)));
        let own = phandle(node);
        let is_its = |cpu: &&Cpu| cpu.can_run && cpu.domain.is_some() && cpu.domain == own;
        for cpu in cpus.iter().filter(is_its) {
            if !possible.clone().any(|phandle| Some(phandle) == cpu.phandle) {
                tell(PartitionError::NotPossible {
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
        tell: Tell<'_>,
    ) {
        let cells = match optional_cells(node, REGIONS) {
            Ok(cells) => cells,
            Err(error) => return tell(error),
        };
        let mut cells = cells;
        while let Some(wanted) = cells.next() {
            let Some(bits) = cells.next() else {
                return tell(malformed(node, REGIONS));
            };
            let named = nodes.iter().find(|(phandle, _)| *phandle == Some(wanted));
            match named {
                Some((_, named)) => go_on(self.take_region(*named, bits), tell),
                None => tell(unknown(node, REGIONS, wanted)),
            }
        }
        self.devices.sort_unstable();
        let regions = &mut self.regions;
        regions.sort_unstable_by_key(|region| (u32::MAX - region.order, region.base));
        let key = |region: &MemoryRegion| (region.order, region.base);
        for pair in regions
            .windows(2)
            .filter(|pair| key(&pair[0]) == key(&pair[1]))
        {
            tell(PartitionError::SameRegion {
                domain: self.name,
                base: pair[0].base,
                order: pair[0].order,
            });
        }
    }

    /// Takes a region with these permissions.
    fn take_region(&mut self, named: FdtNode<'_>, bits: u32) -> Result<(), PartitionError> {
        // A bad address was reported with its node.
        let Ok((base, order)) = addresses(named) else {
            return Ok(());
        };
        let permissions = Permissions::from_bits(bits);
        let permissions = permissions.map_err(|fault| self.refuse(base, bits, fault))?;
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
        Ok(())
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

/// Domains with their wake orders, ascending.
type Instances<'a> = ArrayVec<(u32, FdtNode<'a>), MAX_DOMAINS>;

/// Memory regions with their phandles.
type Regions<'a> = ArrayVec<(Option<u32>, FdtNode<'a>), MAX_REGION_NODES>;

/// Sorts the children of a partition's node into domains and memory regions.
fn sort_nodes<'a>(config: FdtNode<'a>, tell: Tell<'_>) -> (Instances<'a>, Regions<'a>) {
    let mut instances = Instances::new();
    let mut regions = Regions::new();
    let mut without_order = ArrayVec::<FdtNode<'a>, MAX_DOMAINS>::new();
    for node in config.children() {
        if is_any(node, &[INSTANCE]) {
            let order = go_on(word(node, WAKE_ORDER), tell);
            let added = bound::push(&mut instances, "domains", (order.unwrap_or(0), node));
            if added.is_ok() && order.is_none() {
                without_order.push(node);
            }
            go_on(added.map_err(Into::into), tell);
        } else if is_any(node, &[REGION]) {
            go_on(addresses(node).map(|_| ()), tell);
            let added = bound::push(&mut regions, "memory regions", (phandle(node), node));
            go_on(added.map_err(Into::into), tell);
        } else {
            tell(PartitionError::UnknownNode(name_of(node)));
        }
    }
    if without_order.len() == instances.len() {
        number(&mut instances);
    } else {
        let nodes = without_order.into_iter();
        nodes.for_each(|node| tell(missing(node, WAKE_ORDER)));
    }
    instances.sort_unstable_by_key(|(order, _)| *order);
    for pair in instances.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
        tell(PartitionError::SameWakeOrder {
            domain: name_of(pair[0].1),
            other: name_of(pair[1].1),
            order: pair[0].0,
        });
    }
    (instances, regions)
}

/// Gives domains without wake orders their places: the master wakes first, then the others by their
/// names. The order of nodes does not count, as a previous stage may change it.
fn number(instances: &mut Instances<'_>) {
    instances.sort_unstable_by_key(|(_, node)| (!may_suspend(*node), node.name()));
    for (place, (order, _)) in (0..).zip(instances) {
        *order = place;
    }
}

fn may_suspend(node: FdtNode<'_>) -> bool {
    node.property("system-suspend-allowed").is_some()
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
