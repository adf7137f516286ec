use arrayvec::ArrayVec;
use dtoolkit::Node;
use dtoolkit::fdt::{Fdt, FdtNode};
use poorwill_memory::{MAX_RANGES, MachineIdentity, PhysRange};
use thiserror::Error;

use crate::binding::Binding;
use crate::blob::open;
use crate::bound::{self, TooMany};
use crate::caches::{self, DataCaches};
use crate::census::{Census, Known, MAX_UARTS};
use crate::chosen::{MAX_SEED, read_seed, stdout_name};
use crate::clint;
use crate::cold_boot::ColdBootHarts;
use crate::devices::{PciHost, Uart};
use crate::disabled;
use crate::flash::Flash;
use crate::hart::{Hart, MAX_HARTS, find_hart};
use crate::identity::{self, Fingerprint};
use crate::interrupts::{Interrupts, TwoImsics};
use crate::intruder::{self, Intruder};
use crate::isa::{Extensions, read_cache_block, read_zero_block};
use crate::memory;
use crate::memory_controller::MemoryController;
use crate::node::{
    BUS_LEVELS, MAX_DEPTH, can_run_os, cell, is_any, is_enabled, phandle, places_of, reg,
};
use crate::own_size::{self, AllBeyond, Closing, MACHINE_ONLY, MAX_MACHINE_ONLY};
use crate::partition;
use crate::power_fail::{PowerFail, PowerFailError, PowerFailNode};
use crate::reserved::{self, MAX_RESERVED, Reserved};
use crate::salvage::salvage;
use crate::spare_source::{self, SpareSource};
use crate::switch::Switches;
use crate::visited::Place;
use crate::weak_hart::{self, Around, NoExecutor, WeakHart};

/// Maximum number of PCI host bridges.
pub const MAX_PCI_HOSTS: usize = 4;

/// Maximum number of time registers: one for each socket.
pub const MAX_MTIMES: usize = 4;

/// Maximum number of firmware configuration devices.
pub const MAX_FW_CFGS: usize = 2;

/// Maximum number of IOMMUs with memory-mapped registers (not PCI functions).
pub const MAX_IOMMUS: usize = 4;

/// Maximum number of memory-mapped virtio devices.
pub const MAX_VIRTIO: usize = 32;

pub(crate) const MACHINE_SOFTWARE: u32 = 3;
pub(crate) const MACHINE_TIMER: u32 = 7;

const MTIME: &str = "MTIME registers";

/// Why a device tree cannot be used.
#[expect(missing_docs, reason = "the messages say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DescriptionError {
    #[error("the device tree is damaged")]
    Damaged,
    #[error("the device tree is nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    #[error("the device tree has no hart with an MMU")]
    NoHart,
    #[error("the device tree has more than {MAX_HARTS} harts")]
    TooManyHarts,
    #[error("the device tree has no memory, or more than {MAX_RANGES} ranges")]
    Memory,
    #[error("the device tree has no timebase-frequency, or 0")]
    Timebase,
    #[error("the device tree has no CLINT or ACLINT timer")]
    NoTimer,
    #[error(transparent)]
    TooMany(#[from] TooMany),
    #[error(transparent)]
    TwoImsics(#[from] TwoImsics),
    #[error(transparent)]
    Intruder(#[from] Intruder),
}

/// A machine, as its device tree describes it.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// Harts with an MMU, in the tree's order.
    pub harts: ArrayVec<Hart, MAX_HARTS>,
    /// All memory, including the firmware's.
    pub memory: ArrayVec<PhysRange, MAX_RANGES>,
    /// Memory in use: reserved ranges, the initial RAM disk.
    pub reserved: ArrayVec<Reserved, MAX_RESERVED>,
    /// Ticks of `time` in a second.
    pub timebase_hz: u64,
    /// Addresses of the MTIME registers, one for each CLINT.
    pub mtime: ArrayVec<u64, MAX_MTIMES>,
    /// Register ranges that only machine mode may touch.
    pub machine_only: ArrayVec<PhysRange, MAX_MACHINE_ONLY>,
    /// The console's UART.
    pub console: Option<Uart>,
    /// The first UARTs on the bus of memory, the console included.
    pub uarts: ArrayVec<Uart, MAX_UARTS>,
    /// The interrupt controllers.
    pub interrupts: Interrupts,
    /// An unused source of the OS's APLIC domain, which the firmware may raise. It is not looked for
    /// in a tree that describes several domains, as the firmware raises none there.
    pub spare_source: Option<SpareSource>,
    /// The power supply's power-fail line. Such a machine has persistent RAM.
    pub power_fail: Option<PowerFail>,
    /// Why the line that a node describes cannot be used.
    pub power_fail_error: Option<PowerFailError>,
    /// The write-back caches, on a machine with a power-fail line.
    pub caches: Option<DataCaches>,
    /// The devices with state, on a machine with a power-fail line.
    pub census: Census,
    /// The controller of persistent RAM, from the power-fail line's node.
    pub memory_controller: MemoryController,
    /// PCI host bridges with ECAM.
    pub pci: ArrayVec<PciHost, MAX_PCI_HOSTS>,
    /// What resets the machine, and switches its power off.
    pub switches: Switches,
    /// Address of the goldfish real-time clock.
    pub rtc: Option<u64>,
    /// The first CFI flash.
    pub flash: Option<Flash>,
    /// Addresses of the IOMMUs' registers.
    pub iommus: ArrayVec<u64, MAX_IOMMUS>,
    /// Addresses of memory-mapped virtio devices, or of empty slots for them.
    pub virtio: ArrayVec<u64, MAX_VIRTIO>,
    /// QEMU's firmware configuration devices.
    pub fw_cfg: ArrayVec<PhysRange, MAX_FW_CFGS>,
    /// Random bytes from the previous stage (`/chosen/rng-seed`), at most [`MAX_SEED`].
    pub seed: ArrayVec<u8, MAX_SEED>,
    /// The harts that may boot the machine cold.
    pub cold_boot_harts: ColdBootHarts,
    /// `/chosen` describes [domains](crate::Partition), well or badly.
    pub has_domains: bool,
    /// The core that runs lent harts, or why it is missing; `None` if the tree does not ask for it.
    pub executor: Option<Result<WeakHart, NoExecutor>>,
    /// Memory is zero at power-on, except for loaded files. QEMU's `virt` machine guarantees this;
    /// boards do not.
    pub starts_clear: bool,
    power_fail_node: Option<Result<PowerFailNode, PowerFailError>>,
    /// The candidate for the executor.
    weak: Option<WeakHart>,
    /// Closed registers past the end of their controller's `reg`.
    beyond: AllBeyond,
    fingerprint: Fingerprint,
}

impl Machine {
    /// Identity of this machine, if its OS has `memory`.
    #[must_use]
    pub fn identity(&self, memory: &[PhysRange]) -> MachineIdentity {
        self.fingerprint.with_memory(memory)
    }

    /// Reads the machine from a device tree blob.
    ///
    /// # Errors
    ///
    /// [`DescriptionError`]. Absent devices (console, RTC, PCI) are no error: they are `None` or
    /// empty.
    pub fn read(blob: &[u8]) -> Result<Self, DescriptionError> {
        let mut machine = Machine::default();
        machine.survey(blob).map(|()| machine)
    }

    /// Reads all readable parts into an empty `self`: a machine takes many KiB and is not moved.
    /// After an error the console and the switches may still be known, to print the error and to
    /// stop the machine.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub fn survey(&mut self, blob: &[u8]) -> Result<(), DescriptionError> {
        let tree = open(blob).ok_or(DescriptionError::Damaged)?;
        self.fill(&tree)
    }

    /// As [`Self::survey`]; of a damaged tree it reads the nodes before the damage. It changes the
    /// damaged tree, so no other code may use it.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub fn survey_or_salvage(&mut self, blob: &mut [u8]) -> Result<(), DescriptionError> {
        let found = self.survey(blob);
        if found == Err(DescriptionError::Damaged) && salvage(blob) {
            // The damage is the error to report; another one before it does not matter.
            self.survey(blob).ok();
        }
        found
    }

    fn fill(&mut self, tree: &Fdt<'_>) -> Result<(), DescriptionError> {
        let root = tree.root();
        // The search is slow, as the node lies at the end of most trees.
        let chosen = root.child("chosen");
        self.seed = read_seed(chosen);
        let domains = chosen.map_or(0, partition::described);
        self.has_domains = domains > 0;
        self.starts_clear = is_any(root, &["riscv-virtio"]);
        let cpus = self.read_cpus(root);
        self.weak = (root.child("cpus")).and_then(|cpus| weak_hart::candidate(cpus, chosen));
        self.cold_boot_harts = ColdBootHarts::read(root, chosen, &self.harts);
        let memory = memory::read(root, &mut self.memory);
        let reserved = reserved::read(tree, &mut self.reserved);
        let top = Place {
            console: stdout_name(root, chosen),
            depth: 0,
            is_mapped: true,
        };
        let devices = self.visit_all(root, root, top);
        cpus.and(memory.map_err(|_| DescriptionError::Memory))?;
        reserved.and(devices)?;
        self.interrupts.link_domains()?;
        self.fingerprint =
            identity::fingerprint(root, &self.harts).ok_or(DescriptionError::TooDeep)?;
        // This walks the whole tree, so it follows the check of the depth.
        intruder::look(root, &self.beyond)?;
        if domains <= 1 {
            self.spare_source = spare_source::find(root, &self.interrupts);
        }
        if let Some(node) = self.power_fail_node {
            let line = node.and_then(|node| node.line(root, &self.interrupts, &self.harts));
            self.power_fail_error = line.err();
            self.power_fail = line.ok();
            self.caches = Some(caches::caches(root)?);
            let known = Known {
                interrupts: &self.interrupts,
                pci: &self.pci,
                rtc: self.rtc,
                flash: self.flash.as_ref(),
                fw_cfg: &self.fw_cfg,
                iommus: &self.iommus,
                virtio: &self.virtio,
                uarts: &self.uarts,
            };
            self.census = Census::take(root, &known);
            self.close_memory_controller()?;
            if let Some(page) = self
                .power_fail
                .and_then(|line| line.context(&self.interrupts))
            {
                bound::push(&mut self.machine_only, MACHINE_ONLY, page)?;
            }
        }
        if self.mtime.is_empty() {
            return Err(DescriptionError::NoTimer);
        }
        self.find_executor(chosen);
        Ok(())
    }

    fn find_executor(&mut self, chosen: Option<FdtNode<'_>>) {
        self.executor = weak_hart::executor(&Around {
            interrupts: &self.interrupts,
            harts: &self.harts,
            has_domains: self.has_domains,
            has_power_fail: self.power_fail_node.is_some(),
            weak: self.weak,
            chosen,
        });
    }

    /// The hart, weak or not, whose interrupt controller has the given phandle.
    fn hart_of(&mut self, controller: u32) -> Option<&mut Hart> {
        let weak = self.weak.as_mut().map(|weak| &mut weak.hart);
        let weak = weak.filter(|weak| weak.controller == controller);
        weak.or_else(|| find_hart(&mut self.harts, controller))
    }

    /// Returns whether every hart has instructions that write its whole data cache back and wait
    /// for that.
    #[must_use]
    pub fn writes_back_whole(&self) -> bool {
        (self.harts.iter()).all(|hart| hart.extensions.xtheadcmo && hart.extensions.xtheadsync)
    }

    /// Bytes of the smallest cache block of all harts; `None` unless each hart can write blocks
    /// back (Zicbom).
    #[must_use]
    pub fn cache_block(&self) -> Option<u64> {
        let blocks = self.harts.iter().map(|hart| hart.cache_block);
        blocks
            .reduce(|least, block| Some(least?.min(block?)))
            .flatten()
    }

    /// Foreign memory, which the OS must neither use nor lose: for example that of a trusted
    /// execution environment, or of a coprocessor. `loaded`: addresses of the OS's loaded files
    /// (next stage, device tree).
    pub fn foreign<'a>(&'a self, loaded: &'a [u64]) -> impl Iterator<Item = PhysRange> + 'a {
        reserved::foreign(&self.reserved, loaded)
    }

    fn read_cpus(&mut self, root: FdtNode<'_>) -> Result<(), DescriptionError> {
        let cpus = root.child("cpus").ok_or(DescriptionError::NoHart)?;
        self.timebase_hz = cell(cpus, "timebase-frequency")
            .filter(|hertz| *hertz != 0)
            .ok_or(DescriptionError::Timebase)?
            .into();
        for cpu in cpus.children().filter(|cpu| can_run_os(*cpu)) {
            let (Some(id), Some(controller)) = (reg(cpu, 0), cpu.child("interrupt-controller"))
            else {
                continue;
            };
            let extensions = Extensions::of(cpu);
            let hart = Hart {
                id: id.start,
                controller: phandle(controller).unwrap_or(0),
                extensions,
                cache_block: read_cache_block(cpu).filter(|_| extensions.zicbom),
                zero_block: read_zero_block(cpu).filter(|_| extensions.zicboz),
                ..Hart::default()
            };
            self.harts
                .try_push(hart)
                .map_err(|_| DescriptionError::TooManyHarts)?;
        }
        if self.harts.is_empty() {
            return Err(DescriptionError::NoHart);
        }
        Ok(())
    }

    /// Reads all devices below `bus`, even after an error, since a later node may be the console.
    /// Returns the first error.
    fn visit_all(
        &mut self,
        root: FdtNode<'_>,
        bus: FdtNode<'_>,
        place: Place<'_>,
    ) -> Result<(), TooMany> {
        let mut result = Ok(());
        for node in bus.children() {
            result = result.and(self.visit(root, node, place));
        }
        result
    }

    fn visit(
        &mut self,
        root: FdtNode<'_>,
        node: FdtNode<'_>,
        place: Place<'_>,
    ) -> Result<(), TooMany> {
        if node.name() == "cpus" || node.name() == "chosen" {
            return Ok(());
        }
        let mut closing = Closing {
            machine_only: &mut self.machine_only,
            beyond: &mut self.beyond,
        };
        if !is_enabled(node) {
            return disabled::close(node, &mut closing, place.depth);
        }
        let harts = &mut self.harts;
        match Binding::of(node) {
            Some(Binding::Uart | Binding::SifiveUart) => self.take_uart(node, place),
            Some(Binding::Clint) => self.take_clint(node)?,
            Some(Binding::AclintMtimer) => self.take_mtimer(node)?,
            Some(Binding::AclintMswi) => self.take_mswi(node)?,
            Some(Binding::Plic) => {
                self.interrupts.take_plic(node, harts, &mut closing)?;
                if let Some(weak) = &mut self.weak {
                    weak_hart::take_plic(weak, node);
                }
            }
            Some(Binding::Imsics) => self.interrupts.take_imsics(node, harts, &mut closing)?,
            Some(Binding::Aplic) => self.interrupts.take_aplic(node, harts, &mut closing)?,
            Some(Binding::PciHost) => {
                if let Some(host) = PciHost::read(node)? {
                    bound::push(&mut self.pci, "PCI host bridges", host)?;
                }
            }
            Some(Binding::Switch(action, means)) => {
                self.switches.take(action, means, root, node);
            }
            Some(Binding::Rtc) => self.rtc = reg(node, 0).map(|range| range.start),
            Some(Binding::PowerFail) => {
                self.power_fail_node = Some(PowerFailNode::read(node));
                self.memory_controller = MemoryController::read(node)?;
            }
            Some(Binding::Iommu) => {
                if let Some(range) = reg(node, 0) {
                    bound::push(&mut self.iommus, "IOMMUs", range.start)?;
                }
            }
            Some(Binding::VirtioMmio) => {
                if let Some(range) = reg(node, 0) {
                    bound::push(&mut self.virtio, "virtio devices", range.start)?;
                }
            }
            Some(Binding::FwCfg) => {
                if let Some(range) = reg(node, 0) {
                    let range = closing.own(node, range, own_size::FW_CFG)?;
                    bound::push(&mut self.fw_cfg, "firmware configuration devices", range)?;
                }
            }
            Some(Binding::Flash) if self.flash.is_none() => self.flash = Flash::read(node)?,
            None if place.depth < BUS_LEVELS => self.visit_all(root, node, place.below(node))?,
            Some(Binding::Flash) | None => {}
        }
        Ok(())
    }

    fn take_uart(&mut self, node: FdtNode<'_>, place: Place<'_>) {
        let Some(uart) = Uart::read(node) else {
            return;
        };
        let is_named = (place.console).is_some_and(|path| path.ends_with(node.name()));
        if is_named || self.console.is_none() {
            self.console = Some(uart);
        }
        if place.is_mapped {
            // The census names a UART without room.
            self.uarts.try_push(uart).unwrap_or_default();
        }
    }

    /// Closes the memory controller: only machine mode may map memory to cells, or wipe it.
    fn close_memory_controller(&mut self) -> Result<(), TooMany> {
        for pages in self.memory_controller.register_pages() {
            if !self.machine_only.contains(&pages) {
                bound::push(&mut self.machine_only, MACHINE_ONLY, pages)?;
            }
        }
        Ok(())
    }

    /// SiFive CLINT: MSIP at 0, MTIMECMP at 0x4000, MTIME at 0xbff8.
    fn take_clint(&mut self, node: FdtNode<'_>) -> Result<(), TooMany> {
        let Some(range) = reg(node, 0) else {
            return Ok(());
        };
        clint::for_each_interrupt(node, |controller, interrupt, place| {
            let hart = self.hart_of(controller);
            match (hart, interrupt) {
                (Some(hart), MACHINE_SOFTWARE) => hart.msip = range.start.checked_add(4 * place),
                (Some(hart), MACHINE_TIMER) => {
                    hart.mtimecmp = range.start.checked_add(0x4000 + 8 * place);
                }
                _ => {}
            }
        })?;
        if let Some(time) = range.start.checked_add(0xbff8) {
            bound::push(&mut self.mtime, MTIME, time)?;
        }
        self.close(node, range, own_size::CLINT)
    }

    /// Closes the registers of a controller with this number of bytes.
    fn close(&mut self, node: FdtNode<'_>, reg: PhysRange, bytes: u64) -> Result<(), TooMany> {
        let mut closing = Closing {
            machine_only: &mut self.machine_only,
            beyond: &mut self.beyond,
        };
        closing.close(node, reg, bytes).map(|_| ())
    }

    /// ACLINT MTIMER: `reg` has MTIME first, then the MTIMECMP array.
    fn take_mtimer(&mut self, node: FdtNode<'_>) -> Result<(), TooMany> {
        let (time, compare) = match (reg(node, 0), reg(node, 1)) {
            (Some(time), Some(compare)) => (time, compare),
            // The tree does not say which of the two registers this is. The OS may use neither.
            (Some(either), _) => return self.close(node, either, own_size::MTIMER),
            (None, _) => return Ok(()),
        };
        for (place, controller) in places_of(node, MACHINE_TIMER) {
            if let Some(hart) = self.hart_of(controller) {
                hart.mtimecmp = compare.start.checked_add(8 * place);
            }
        }
        bound::push(&mut self.mtime, MTIME, time.start)?;
        self.close(node, compare, own_size::MTIMECMP)?;
        self.close(node, time, own_size::MTIME)
    }

    /// ACLINT MSWI: one MSIP register of 4 bytes for each hart.
    fn take_mswi(&mut self, node: FdtNode<'_>) -> Result<(), TooMany> {
        let Some(range) = reg(node, 0) else {
            return Ok(());
        };
        for (place, controller) in places_of(node, MACHINE_SOFTWARE) {
            if let Some(hart) = self.hart_of(controller) {
                hart.msip = range.start.checked_add(4 * place);
            }
        }
        self.close(node, range, own_size::MSWI)
    }
}
