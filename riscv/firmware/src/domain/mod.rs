//! The domains of the machine. Without a partition there is one, which has all resources that
//! machine mode does not keep, and all rights.

pub(crate) mod asleep;
pub(crate) mod dma;
pub(crate) mod fences;
pub(crate) mod kept;
mod live;
pub(crate) mod pmp;
pub(crate) mod report;
mod text;
mod waiting;
pub(crate) mod waking;

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicUsize, Ordering};

use arrayvec::ArrayVec;
use poorwill_devicetree::{DomainNode, MAX_DOMAINS, Machine, NextMode, NodeName, Uart, tree_place};
use poorwill_domain::{
    ALL_DEVICES, Domain, DomainError, HartSet, HartSetError, LoadedStage, NextStage, Rights,
    StageTree, TREE_GROWTH,
};
use poorwill_memory::{MemoryMap, PhysRange};
use poorwill_sleep::DomainSet;
use thiserror::Error;

use live::Traits;

use waking::WakingHart;

pub(crate) use live::LiveDomain;

/// Places for the domains.
struct Places(UnsafeCell<[MaybeUninit<LiveDomain>; MAX_DOMAINS]>);

// SAFETY: one hart fills a place before COUNT includes it. After that it is only shared.
unsafe impl Sync for Places {}

// Not in the part of `.bss` that the boot hart clears: the places take more than 64 KiB.
#[unsafe(link_section = ".bss.stacks")]
static PLACES: Places = Places(UnsafeCell::new(
    [const { MaybeUninit::uninit() }; MAX_DOMAINS],
));

/// Places for the state of their waking harts, which is too large to be moved with a domain.
struct WakingPlaces(UnsafeCell<[MaybeUninit<WakingHart>; MAX_DOMAINS]>);

// SAFETY: as for `Places`.
unsafe impl Sync for WakingPlaces {}

#[unsafe(link_section = ".bss.stacks")]
static WAKING: WakingPlaces = WakingPlaces(UnsafeCell::new(
    [const { MaybeUninit::uninit() }; MAX_DOMAINS],
));

/// Fills the place of a domain's waking hart.
///
/// # Safety
///
/// The place exists, and no other code uses it before COUNT includes it.
// Not inlined: its frame must not stay on the deep stack during the start.
#[inline(never)]
unsafe fn waking_of(index: usize) -> &'static WakingHart {
    // SAFETY: passed on to the caller.
    unsafe {
        let place = WAKING.0.get().cast::<WakingHart>().add(index);
        place.write(WakingHart::new());
        &*place
    }
}

/// Number of domains: the first places up to it are filled.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn first_place() -> *mut LiveDomain {
    PLACES.0.get().cast()
}

/// Makes a domain from its index, in its place, as copies take time. Only the hart that starts the
/// platform calls this.
#[inline]
fn push(make: impl FnOnce(usize, &'static WakingHart) -> LiveDomain) -> &'static LiveDomain {
    let index = COUNT.load(Ordering::Relaxed);
    assert!(
        index < MAX_DOMAINS,
        "a partition has at most {MAX_DOMAINS} domains"
    );
    // SAFETY: the place exists, and no other code uses it before COUNT includes it.
    let domain = unsafe {
        let place = first_place().add(index);
        place.write(make(index, waking_of(index)));
        &*place
    };
    COUNT.store(index + 1, Ordering::Release);
    domain
}

/// Makes the domain of a machine without fenced domains: all harts, `memory`, all devices, and flash
/// without the `vault`; or the part of them that is a `lone` domain's. `next` and `tree` are the
/// memory of its next stage and of its device tree.
///
/// # Errors
///
/// [`DomainError`], [`HartSetError`].
// Not inlined: copies of a domain must not stay on the deep stack during the start.
#[inline(never)]
pub(super) fn start(
    machine: &Machine,
    memory: &MemoryMap,
    [next, tree]: [PhysRange; 2],
    vault: Option<PhysRange>,
    lone: Option<LoneDomain<'_>>,
) -> Result<&'static LiveDomain, MakeError> {
    let harts = HartSet::new(machine.harts.iter().map(|hart| hart.id))?;
    let blob = PhysRange::new(tree.start, tree.length().saturating_sub(TREE_GROWTH));
    let reserved = machine.reserved.iter().map(|reserved| reserved.range);
    let handed_on = tree_place(memory.ranges(), reserved, next, blob, TREE_GROWTH);
    // A tree in ROM does not lie in memory.
    let loaded = memory
        .ranges()
        .iter()
        .find(|range| range.contains(tree.start));
    let end = loaded.map_or(tree.start, |range| range.end.min(tree.end));
    let domain = || Domain {
        harts,
        memory: memory.clone(),
        flash: (machine.flash.iter().flat_map(|flash| flash.of_os(vault))).collect(),
        devices: [ALL_DEVICES].into_iter().collect(),
        registers: ArrayVec::new(),
        foreign: None,
        next_stage: NextStage {
            address: next.start,
            argument: tree.start,
            tree: Some(StageTree {
                blob,
                loaded: PhysRange { end, ..tree },
                handed_on,
            }),
        },
        rights: Rights::ALL,
    };
    let traits = |node: Option<&DomainNode>| Traits {
        name: NodeName::new(),
        boot_hart: None,
        has_budget: false,
        has_console: true,
        takes_interrupts: true,
        next_mode: node.map_or_else(NextMode::default, |node| node.next_mode),
    };
    let Some(lone) = lone else {
        return Ok(push(|index, waking| {
            LiveDomain::new(index, domain(), traits(None), waking)
        }));
    };
    let mut limited = Ok(());
    let live = push(|index, waking| {
        let mut domain = domain();
        limited = domain.limit(lone.node, lone.stage, &machine.memory, lone.tree);
        LiveDomain::new(index, domain, traits(Some(lone.node)), waking)
    });
    limited?;
    Ok(live)
}

/// The only domain of a machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoneDomain<'a> {
    pub(super) node: &'a DomainNode,
    pub(super) stage: &'a LoadedStage,
    /// Address of the machine's device tree.
    pub(super) tree: u64,
}

/// Why the domain of a whole machine cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum MakeError {
    #[error(transparent)]
    Harts(#[from] HartSetError),
    #[error(transparent)]
    Lone(#[from] DomainError),
}

/// A domain of a partition.
pub(super) struct AddedDomain<'a> {
    pub(super) node: &'a DomainNode,
    pub(super) domain: Domain,
    /// The machine's console.
    pub(super) console: Option<Uart>,
    pub(super) takes_interrupts: bool,
}

/// Adds a domain that is fenced.
///
/// # Panics
///
/// After [`MAX_DOMAINS`] domains; a partition has no more.
pub(super) fn add(added: AddedDomain<'_>) {
    let AddedDomain { node, domain, .. } = added;
    let mut registers = domain.registers.iter().chain(&domain.devices);
    let has_uart = |uart: Uart| registers.any(|range| range.contains(uart.base()));
    let traits = Traits {
        name: node.name,
        boot_hart: Some(node.boot_hart),
        has_budget: true,
        has_console: added.console.is_some_and(has_uart),
        takes_interrupts: added.takes_interrupts,
        next_mode: node.next_mode,
    };
    push(|index, waking| LiveDomain::new(index, domain, traits, waking));
}

fn filled() -> &'static [LiveDomain] {
    let count = COUNT.load(Ordering::Acquire);
    // SAFETY: these places are filled, and no code writes to them.
    unsafe { core::slice::from_raw_parts(first_place(), count) }
}

/// All domains; none before the platform is set up.
pub(crate) fn all() -> impl Iterator<Item = &'static LiveDomain> + Clone {
    filled().iter()
}

/// The machine's domains, as those that sleep and wake.
pub(crate) fn set() -> DomainSet<'static, LiveDomain> {
    DomainSet::new(filled())
}

/// Index of the domain that has these registers; the first one's without such a domain.
pub(crate) fn owner(address: u64) -> u8 {
    let has = |domain: &&LiveDomain| {
        let mut ranges = domain.registers.iter().chain(&domain.devices);
        ranges.any(|range| range.contains(address))
    };
    all().find(has).map_or(0, LiveDomain::number)
}

/// The domain that wakes last.
///
/// # Panics
///
/// Before the platform is set up.
pub(crate) fn last() -> &'static LiveDomain {
    filled().last().expect("a machine has a domain")
}

/// The domain with this index.
///
/// # Panics
///
/// Without a domain there.
pub(crate) fn at(index: usize) -> &'static LiveDomain {
    &filled()[index]
}

/// The domain of the hart with this ID; `None`: the hart stays in machine mode.
pub(crate) fn of(hart: u64) -> Option<&'static LiveDomain> {
    all().find(|domain| domain.harts.contains(hart))
}
