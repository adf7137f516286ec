//! The weak hart: a core without an MMU, on which machine mode runs the OS's supervisor mode after a
//! sleep (`/chosen/poorwill,executor`).

use dtoolkit::Node;
use dtoolkit::fdt::FdtNode;
use thiserror::Error;

use crate::hart::Hart;
use crate::interrupts::{Interrupts, MACHINE_EXTERNAL};
use crate::node::{bytes_of, hart_interrupts, has_mmu, is_enabled_hart, phandle, reg};

const PROPERTY: &str = "poorwill,executor";
const WITHOUT: &str = "poorwill,executor-without";

/// Maximum number of lent harts.
pub const MAX_LENT: usize = 8;

/// The core that runs lent harts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WeakHart {
    /// Its ID and registers. It runs no OS.
    pub hart: Hart,
    /// Its machine-mode context of the PLIC.
    pub context: u32,
    /// What its translated code does without.
    pub without: Without,
}

/// Parts of the translation that the tree leaves out, to compare it with others
/// (`/chosen/poorwill,executor-without`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Without {
    /// Counts of instructions.
    pub counts: bool,
    /// Windows and stacks.
    pub sites: bool,
    /// All of it.
    pub blocks: bool,
}

impl Without {
    /// `None`: the tree has another word.
    fn of(chosen: Option<FdtNode<'_>>) -> Option<Self> {
        let mut without = Without::default();
        let property = chosen.and_then(|chosen| chosen.property(WITHOUT));
        let words = property.map(bytes_of).unwrap_or_default();
        for word in words.split_inclusive(|byte| *byte == 0) {
            match word {
                b"counts\0" => without.counts = true,
                b"sites\0" => without.sites = true,
                b"blocks\0" => without.blocks = true,
                _ => return None,
            }
        }
        Some(without)
    }
}

/// Why a machine whose tree asks for an executor has none.
#[expect(missing_docs, reason = "the messages say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoExecutor {
    #[error("`poorwill,executor` is neither \"on\" nor \"off\"")]
    Value,
    #[error(
        "`poorwill,executor-without` has other words than \"counts\", \"sites\" and \"blocks\""
    )]
    Without,
    #[error(
        "no enabled core without an MMU has MSIP, MTIMECMP and a machine-mode context of the PLIC"
    )]
    NoCore,
    #[error("the machine needs a single PLIC, and no AIA")]
    Controllers,
    #[error("the device tree describes domains")]
    Domains,
    #[error("the device tree has a power-fail line")]
    PowerFail,
    #[error("the OS has {0} harts, and at most {MAX_LENT} can be lent")]
    Harts(usize),
    #[error("hart {0} has vector registers")]
    Vector(u64),
}

/// What the tree asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Off,
    On,
    Unknown,
}

impl Wish {
    fn of(chosen: Option<FdtNode<'_>>) -> Self {
        let property = chosen.and_then(|chosen| chosen.property(PROPERTY));
        match property.map(bytes_of) {
            None | Some(b"off\0") => Wish::Off,
            Some(b"on\0") => Wish::On,
            Some(_) => Wish::Unknown,
        }
    }
}

/// The candidate: the first enabled core without an MMU, if the tree asks for an executor.
pub(crate) fn candidate(cpus: FdtNode<'_>, chosen: Option<FdtNode<'_>>) -> Option<WeakHart> {
    if Wish::of(chosen) != Wish::On {
        return None;
    }
    cpus.children().find_map(|cpu| {
        let controller = cpu.child("interrupt-controller")?;
        let is_weak = is_enabled_hart(cpu) && !has_mmu(cpu);
        let hart = Hart {
            id: reg(cpu, 0)?.start,
            controller: phandle(controller)?,
            ..Hart::default()
        };
        is_weak.then_some(WeakHart {
            hart,
            context: NONE,
            without: Without::default(),
        })
    })
}

/// Not the number of a context.
const NONE: u32 = u32::MAX;

/// Notes the core's machine-mode context of a PLIC.
pub(crate) fn take_plic(weak: &mut WeakHart, node: FdtNode<'_>) {
    let own = (weak.hart.controller, MACHINE_EXTERNAL);
    let mut contexts = (0..).zip(hart_interrupts(node));
    if let Some((context, _)) = contexts.find(|(_, interrupt)| *interrupt == own) {
        weak.context = context;
    }
}

/// The machine that an executor must fit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Around<'a> {
    pub(crate) interrupts: &'a Interrupts,
    /// The OS's harts.
    pub(crate) harts: &'a [Hart],
    pub(crate) has_domains: bool,
    pub(crate) has_power_fail: bool,
    pub(crate) weak: Option<WeakHart>,
    pub(crate) chosen: Option<FdtNode<'a>>,
}

/// The executor of a machine; `None`: the tree asks for none.
pub(crate) fn executor(around: &Around<'_>) -> Option<Result<WeakHart, NoExecutor>> {
    match Wish::of(around.chosen) {
        Wish::Off => None,
        Wish::On => Some(check(around)),
        Wish::Unknown => Some(Err(NoExecutor::Value)),
    }
}

fn check(around: &Around<'_>) -> Result<WeakHart, NoExecutor> {
    let Interrupts {
        plics,
        machine_aplics,
        os_aplics,
        machine_imsics,
        os_imsics,
    } = around.interrupts;
    let has_aplic = !machine_aplics.is_empty() || !os_aplics.is_empty();
    let has_imsic = !machine_imsics.is_empty() || !os_imsics.is_empty();
    if plics.len() != 1 || has_aplic || has_imsic {
        return Err(NoExecutor::Controllers);
    }
    if around.has_domains {
        return Err(NoExecutor::Domains);
    }
    if around.has_power_fail {
        return Err(NoExecutor::PowerFail);
    }
    if around.harts.len() > MAX_LENT {
        return Err(NoExecutor::Harts(around.harts.len()));
    }
    if let Some(hart) = around.harts.iter().find(|hart| hart.extensions.vector) {
        return Err(NoExecutor::Vector(hart.id));
    }
    let is_whole = |weak: &WeakHart| {
        weak.hart.msip.is_some() && weak.hart.mtimecmp.is_some() && weak.context != NONE
    };
    let without = Without::of(around.chosen).ok_or(NoExecutor::Without)?;
    let weak = around.weak.filter(is_whole).ok_or(NoExecutor::NoCore)?;
    Ok(WeakHart { without, ..weak })
}
