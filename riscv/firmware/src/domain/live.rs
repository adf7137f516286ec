//! A domain while the firmware runs.

use core::ops::Deref;
use core::sync::atomic::{AtomicBool, Ordering};

use poorwill_devicetree::{NextMode, NodeName};
use poorwill_domain::Domain;
use poorwill_domain::pmp::PmpPlan;
use poorwill_log::{LineBudget, Log};
use poorwill_sleep::{DomainCell, Member};
use spin::{Mutex, Once};

use super::asleep::Asleep;
use super::fences::Fences;
use super::waiting::Waiting;
use super::waking::WakingHart;

/// A domain, with the state that the firmware needs while it runs.
#[derive(Debug)]
pub(crate) struct LiveDomain {
    /// Its place in the order in which domains wake.
    pub(crate) index: usize,
    /// Empty if it is the machine's only domain.
    pub(crate) name: NodeName,
    domain: Domain,
    pub(crate) state: DomainCell,
    /// ID of the hart on which its next stage starts; `None`: the previous stage chooses.
    pub(crate) boot_hart: Option<u64>,
    /// It has the console's UART.
    pub(crate) has_console: bool,
    /// Its harts take external interrupts.
    pub(crate) takes_interrupts: bool,
    /// Its next stage starts in U-mode.
    starts_in_user_mode: AtomicBool,
    /// Text of a domain without the UART, which waits for the console.
    pub(super) text: Mutex<Waiting>,
    /// A part of the text is not printed yet.
    pub(super) has_text: AtomicBool,
    /// The firmware's lines that the domain may cause; `None`: any number.
    pub(super) budget: Option<Mutex<LineBudget>>,
    /// Room for a copy of the machine's log, from which the domain's text is made.
    pub(crate) log_copy: Mutex<Log>,
    /// The fences that its harts request of each other.
    pub(crate) fences: Fences,
    pub(crate) asleep: Asleep,
    /// What the hart that wakes it restores.
    pub(crate) waking: &'static WakingHart,
    /// The PMP plan of its harts; unset on a machine that cannot be protected.
    pub(crate) plan: Once<PmpPlan>,
}

/// Properties of a domain beside its resources.
pub(super) struct Traits {
    pub(super) name: NodeName,
    pub(super) boot_hart: Option<u64>,
    pub(super) has_budget: bool,
    pub(super) has_console: bool,
    pub(super) takes_interrupts: bool,
    pub(super) next_mode: NextMode,
}

impl LiveDomain {
    pub(super) fn new(
        index: usize,
        domain: Domain,
        traits: Traits,
        waking: &'static WakingHart,
    ) -> Self {
        LiveDomain {
            index,
            name: traits.name,
            boot_hart: traits.boot_hart,
            domain,
            has_console: traits.has_console,
            takes_interrupts: traits.takes_interrupts,
            starts_in_user_mode: AtomicBool::new(traits.next_mode == NextMode::User),
            state: DomainCell::new(),
            text: Mutex::new(Waiting::new()),
            has_text: AtomicBool::new(false),
            budget: traits.has_budget.then(|| Mutex::new(LineBudget::new())),
            log_copy: Mutex::new(Log::new()),
            fences: Fences::new(),
            asleep: Asleep::new(),
            waking,
            plan: Once::new(),
        }
    }

    /// Returns whether the domain's OS gets its device tree at another place than the previous stage
    /// left it.
    pub(crate) fn copies_tree(&self) -> bool {
        let tree = self.next_stage.tree;
        let place = tree.and_then(|tree| Some((tree.blob, tree.handed_on?)));
        place.is_some_and(|(blob, place)| blob.start != place.start)
    }

    /// The mode in which a hart enters the domain. Only the next stage may start in U-mode; each
    /// further start is by an OS.
    pub(crate) fn mode_at_start(&self) -> NextMode {
        match self.starts_in_user_mode.swap(false, Ordering::Relaxed) {
            true => NextMode::User,
            false => NextMode::Supervisor,
        }
    }

    /// Its index, as the number of an owner.
    pub(crate) fn number(&self) -> u8 {
        self.index as u8
    }

    /// Registers that the domain's OS runs from here on: the caller starts it.
    ///
    /// # Panics
    ///
    /// If the domain is neither starting nor waking.
    pub(crate) fn run(&self) {
        (self.state.run()).expect("a domain starts once, and after each sleep");
    }
}

impl Member for LiveDomain {
    fn cell(&self) -> &DomainCell {
        &self.state
    }
}

impl Deref for LiveDomain {
    type Target = Domain;

    fn deref(&self) -> &Domain {
        &self.domain
    }
}
