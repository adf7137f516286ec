//! This machine, for the traits of the `sleep` crate.

use core::cell::Cell;

use arrayvec::ArrayVec;
use poorwill_devicetree::memory_fingerprint;
use poorwill_hart::{HartContext, NEVER, PageTables};
use poorwill_image::{Progress, StateSections, StateWriter, Workers};
use poorwill_medium::nvme::Stop;
use poorwill_memory::linux::{AddressSpace, Free, FreeListError, Span, free_pages};
use poorwill_memory::{EntryPoint, FreeContents, MachineIdentity, OsMemory, PageMap, PhysRange};
use poorwill_sleep::cut::{CutCommitted, CutReason, NoCut};
use poorwill_sleep::retain::Sleeper;
use poorwill_sleep::{
    AreaError, Bar, BootAttempt, Clock, Console, Core, Devices, Domain, Event, HasVault, Job,
    LeftInUse, LoadMark, MAX_DEVICES, Machine, Moment, NotKept, Obstacle, Outcome, Power, RamWake,
    Startup, StateRefusal, WakeReport, WarmReset,
};
use poorwill_store::RecordFormat;
use spin::Mutex;

use super::device::{self, Place, Running};
use super::iommus::{self, Phase};
use super::release::{self, StartCold};
use super::retain::Resting;
use super::woken;
use crate::cut::{self, MachineState};
use crate::domain::kept::{DomainState, OfDomain};
use crate::domain::{self, LiveDomain, dma, report};
use crate::hart::resting::{self, Late};
use crate::hart::workers::StoppedHarts;
use crate::hart::{this_hart, waking};
use crate::platform::bus::WakingDevices;
use crate::platform::console::{self, print, say};
use crate::platform::{entropy, platform, power_fail, vault, virtio};
use poorwill_state::{Keep, Saving, Store};

/// The machine that this firmware runs on.
pub(super) struct Firmware<'a> {
    phase: Phase,
    /// Ticks by which the counter has jumped since the power-on.
    jumped: Cell<u64>,
    start_cold: StartCold<'a>,
}

impl Firmware<'_> {
    /// The machine, for work that starts no domain.
    pub(super) fn new(phase: Phase) -> Self {
        Firmware {
            phase,
            jumped: Cell::new(0),
            start_cold: &|_, _| {},
        }
    }

    /// The machine at a power-on.
    pub(super) fn starting(start_cold: StartCold<'_>) -> Firmware<'_> {
        Firmware {
            phase: Phase::Start,
            jumped: Cell::new(0),
            start_cold,
        }
    }
}

/// The progress bar on the console.
static BAR: Mutex<Option<Bar>> = Mutex::new(None);

impl Machine for Firmware<'_> {
    type Domain = LiveDomain;
    type State<'a> = MachineState<'a>;

    fn format(&self) -> RecordFormat {
        platform().keeps.unwrap_or(RecordFormat::Set)
    }

    fn workers(&self) -> &dyn Workers {
        &StoppedHarts
    }

    fn capture(&self, into: &mut StateWriter<'_>) -> Result<(), NotKept> {
        cut::MACHINE.save(&SAVING, into)
    }

    fn check<'a>(
        &self,
        sections: &mut StateSections<'a>,
    ) -> Result<MachineState<'a>, StateRefusal> {
        Ok(cut::MACHINE.check(Store::Image, sections)?)
    }

    fn restore(&self, state: MachineState<'_>) {
        cut::MACHINE.put_back(Store::Image, &state);
    }

    fn continue_time(&self, core: &Core) {
        let time = &platform().time;
        let before = time.ticks();
        time.set_ticks(core.ticks_at(time.now_ns(), |slept_ns| time.ticks_in(slept_ns)));
        self.jumped.set(time.ticks().wrapping_sub(before));
    }

    fn release(&self, domain: &LiveDomain, outcome: Outcome<Core>) {
        release::release(domain::at(domain.index), outcome, self.start_cold);
    }
}

/// The facts of a save in an image.
const SAVING: Saving<'_> = Saving {
    store: Store::Image,
    vector: None,
    shut: None,
};

impl Clock for Firmware<'_> {
    fn ticks(&self) -> u64 {
        platform().time.ticks().wrapping_sub(self.jumped.get())
    }

    fn ticks_in(&self, nanoseconds: u64) -> u64 {
        platform().time.ticks_in(nanoseconds)
    }

    fn milliseconds_in(&self, ticks: u64) -> u64 {
        platform().time.milliseconds_in(ticks)
    }

    fn now_ns(&self) -> Option<u64> {
        platform().time.now_ns()
    }
}

impl Console for Firmware<'_> {
    fn say(&self, event: &Event<'_>) {
        say!("{event}");
    }

    fn show(&self, job: Job, progress: Progress) {
        let mut bar = BAR.lock();
        let bar = bar.get_or_insert_with(|| Bar::new(job));
        if bar.advance(progress) {
            print!("\rpoorwill: {bar}");
        }
    }

    fn end_show(&self) {
        if BAR.lock().take().is_some_and(|bar| bar.has_moved()) {
            print!("\n");
        }
    }

    fn key_within(&self, milliseconds: u32) -> bool {
        console::key_within(milliseconds, &platform().time)
    }
}

impl Devices for Firmware<'_> {
    type Place = Place;
    type Device<'d> = Running<'d>;

    fn devices(&self) -> ArrayVec<Place, MAX_DEVICES> {
        device::find(self.phase)
    }

    fn on_device<R>(
        &self,
        place: &Place,
        stop: impl Fn(&Result<R, AreaError>) -> Stop,
        job: impl FnOnce(&mut Running<'_>) -> Result<R, AreaError>,
    ) -> Result<R, AreaError> {
        device::on_device(place, self.phase, stop, job)
    }

    fn obstacle(&self) -> Option<Obstacle> {
        // Machine mode's own IOMMUs let its disk pass.
        let mut iommus = (platform().iommus.iter()).filter(|_| !dma::is_fenced());
        if let Some((address, _)) = iommus.find(|(_, iommu)| iommu.is_on()) {
            return Some(Obstacle::Iommu(*address));
        }
        let on_pci = iommus::translating().map(Obstacle::PciIommu);
        on_pci.or_else(|| virtio::live().map(Obstacle::LiveDevice))
    }

    fn left_in_use(&self) -> LeftInUse {
        device::left_in_use()
    }
}

impl HasVault for Firmware<'_> {
    type Vault<'v>
        = Option<vault::Access>
    where
        Self: 'v;

    fn vault(&self) -> Option<vault::Access> {
        // A set is plain: the vault only ends images on disks that are away.
        match platform().keeps_sets() && self.phase != Phase::Discard {
            true => None,
            false => Some(vault::lend()),
        }
    }

    fn new_key(&self) -> [u8; 32] {
        entropy::key()
    }

    fn new_salt(&self) -> [u8; 8] {
        entropy::salt()
    }
}

impl Power for Firmware<'_> {
    fn can_power_off(&self) -> bool {
        crate::platform::power::can_power_off()
    }

    fn wait_for_power(&self) {
        cut::wait_for_power();
    }

    fn while_loading<R>(&self, job: impl FnOnce() -> R) -> R {
        cut::note(CutReason::Loading);
        let result = job();
        cut::take_back();
        result
    }

    fn to_the_end<R>(&self, job: impl FnOnce() -> R) -> R {
        power_fail::to_the_end(job)
    }

    fn can_be_cut(&self) -> bool {
        cut::is_armed() && self.can_power_off()
    }

    fn cut(&self, vector: EntryPoint, began: u64) -> Result<CutCommitted, NoCut> {
        cut::request(vector, began)
    }

    fn only_retains(&self) -> bool {
        platform().keeps.is_none()
    }

    fn woke_from_ram(&self, wake: &RamWake) {
        woken::begin(wake);
    }

    fn with_sleeper<R>(&self, job: impl FnOnce(&mut dyn Sleeper) -> R) -> R {
        Resting::run(this_hart(), |resting| job(resting))
    }
}

impl WarmReset for Firmware<'_> {
    fn memory_is_clear(&self) -> bool {
        platform().memory_is_clear
    }

    fn last_attempt(&self) -> Option<BootAttempt> {
        platform().last_attempt
    }

    fn begin_attempt(&self, attempt: BootAttempt) {
        platform().begin_attempt(attempt);
    }

    fn last_load_mark(&self) -> LoadMark {
        platform().last_load_mark
    }

    fn set_load_mark(&self, mark: LoadMark) {
        platform().set_load_mark(mark);
    }
}

impl Domain for LiveDomain {
    type State<'a> = (Core, HartContext, DomainState<'a>);
    type Resume = Core;

    fn name(&self) -> &str {
        &self.name
    }

    fn identity(&self) -> MachineIdentity {
        MachineIdentity {
            memory: memory_fingerprint(self.memory.ranges()),
            ..platform().identity
        }
    }

    fn free_pages(&self, memory: &OsMemory, free: &mut PageMap<'_>) -> Result<Free, FreeListError> {
        let satp = resting::address_space(self).map_err(|_| FreeListError::NoPageTables)?;
        if satp == 0 && !self.name.is_empty() {
            // A program beside an OS: it has no list of free pages.
            return Ok(Free {
                contents: FreeContents::Zeros,
                pages: 0,
            });
        }
        let tables = PageTables::of_satp(satp).ok_or(FreeListError::NoPageTables)?;
        let space = KernelSpace {
            tables,
            until: NEVER,
        };
        let found = free_pages(memory, &space, free)?;
        #[cfg(feature = "poison-free")]
        poison(memory, free, found.contents);
        Ok(found)
    }

    fn capture(
        &self,
        vector: EntryPoint,
        at: Moment,
        into: &mut StateWriter<'_>,
    ) -> Result<(), NotKept> {
        let hart = Mutex::new((&mut *into, Ok(())));
        let capture = || {
            let (into, captured) = &mut *hart.lock();
            *captured = waking::capture(vector, at, into);
        };
        resting::run(self, &capture).map_err(|Late(hart)| NotKept::LateHart(hart))?;
        hart.into_inner().1?;
        OfDomain::of(self.number()).save(&SAVING, into)
    }

    fn check<'a>(&self, sections: &mut StateSections<'a>) -> Result<Self::State<'a>, StateRefusal> {
        let (core, hart) = waking::read(self, sections)?;
        let domain = OfDomain::of(self.number()).check(Store::Image, sections)?;
        Ok((core, hart, domain))
    }

    fn restore(&self, (core, hart, domain): Self::State<'_>, wake: &WakeReport) -> Core {
        OfDomain::of(self.number()).put_back(Store::Image, &domain);
        let has_tree = self.next_stage.tree.is_some();
        if !report::tell(self, &Startup::Image(wake)) && has_tree {
            say!("the OS has moved its device tree: /chosen does not say that it woke");
        }
        if let Some(id) = &platform().generation_id {
            id.renew();
            id.announce();
        }
        let controllers = platform().interrupts.of(self.number());
        let shut = controllers.domains(&domain.controllers);
        let devices = WakingDevices::new(&domain.uarts, domain.clock);
        waking::will_wake(self, (hart, Some(shut), devices));
        core
    }
}

/// The kernel's address space. A search in it stops when the power fails.
pub(crate) struct KernelSpace {
    pub(crate) tables: PageTables,
    /// `time` at which a search stops, too.
    pub(crate) until: u64,
}

impl AddressSpace for KernelSpace {
    fn span(&self, memory: &OsMemory, address: u64) -> Option<Span> {
        self.tables.span(memory, address)
    }

    fn find(
        &self,
        memory: &OsMemory,
        first: u64,
        most: u64,
        is_found: &dyn Fn(&PhysRange) -> bool,
    ) -> Option<PhysRange> {
        self.tables.find(memory, first, most, is_found)
    }

    fn goes_on(&self) -> bool {
        let is_late = self.until != NEVER && platform().time.ticks() >= self.until;
        !is_late && power_fail::check().is_ok()
    }

    fn is_image(&self, address: u64) -> bool {
        self.tables.is_image(address)
    }
}

/// Overwrites the free pages, and adds them to the save: an OS that uses such a page finds the
/// pattern.
#[cfg(feature = "poison-free")]
fn poison(memory: &OsMemory, free: &mut PageMap<'_>, contents: poorwill_memory::FreeContents) {
    use poorwill_memory::{FreeContents, PageWalk, ROW_WORDS, StridedFill};

    const POISON: StridedFill = StridedFill {
        row: [0xf4ee_dead_f4ee_dead; ROW_WORDS],
        step: [0; ROW_WORDS],
    };
    say!("a build for tests: free pages are overwritten");
    let mut pages = PageWalk::new(free.members());
    while let Some(page) = pages.next(memory) {
        match contents {
            FreeContents::Anything => POISON.fill(memory.words(page)),
            FreeContents::Zeros => memory.zero(page),
        }
    }
    free.clear();
}
