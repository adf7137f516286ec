//! The UARTs of the OS, whose settings a sleep and a cut keep.

use arrayvec::ArrayVec;
use poorwill_arch::Mmio;
use poorwill_devicetree::{MAX_UARTS, Machine, Uart};
use poorwill_drivers::uart::{AnyUart, UartState};
use poorwill_image::{StateError, StateSections, StateWriter};
use poorwill_sleep::NotKept;
use poorwill_state::{Keep, Saving, Section, Store};
use spin::Once;

use super::console;

/// Owner and version of the sections of 16550 UARTs.
const NS16550: Section = (u32::from_le_bytes(*b"UART"), 1);

/// The same of SiFive's.
const SIFIVE: Section = (u32::from_le_bytes(*b"SFUA"), 1);

/// The number of the console's section. The other UARTs have numbers from 1, in the tree's order.
const CONSOLE: u16 = 0;

struct Found {
    /// Those beside the console, in the tree's order, each with its owner's index.
    others: ArrayVec<(u8, AnyUart<Mmio>), MAX_UARTS>,
    /// The index of the console's owner.
    console_owner: u8,
}

static UARTS: Once<Found> = Once::new();

/// Takes the UARTs from the tree. `owner` gives the index of the domain that may access an address.
///
/// # Safety
///
/// `machine` describes this machine, no OS runs, and nothing else uses these devices.
pub(super) unsafe fn start(machine: &Machine, owner: impl Fn(u64) -> u8) {
    let console = machine.console.map(Uart::base);
    let others = (machine.uarts.iter()).filter(|uart| Some(uart.base()) != console);
    // SAFETY: by the caller's contract the tree is right; it names these addresses as UARTs.
    let uart = |uart: &Uart| AnyUart::new(unsafe { Mmio::new(uart.base()) }, uart);
    UARTS.call_once(|| Found {
        others: others.map(|it| (owner(it.base()), uart(it))).collect(),
        console_owner: console.map_or(0, &owner),
    });
}

fn others() -> &'static [(u8, AnyUart<Mmio>)] {
    UARTS.get().map_or(&[], |found| &found.others)
}

/// Checked settings of UARTs, by number.
pub(crate) type UartStates = ArrayVec<(u16, UartState), { MAX_UARTS + 1 }>;

/// All UARTs of a domain, the console included.
pub(crate) struct Uarts {
    /// The domain's index.
    pub(crate) domain: u8,
}

impl Uarts {
    /// The numbers of its UARTs.
    fn numbers(&self) -> impl Iterator<Item = u16> {
        let has_console = console::is_there()
            && (UARTS.get()).is_some_and(|uarts| uarts.console_owner == self.domain);
        let console = has_console.then_some(CONSOLE).into_iter();
        let others = (1..).zip(others());
        let own = others.filter(|(_, (owner, _))| *owner == self.domain);
        console.chain(own.map(|(number, _)| number))
    }
}

impl Keep for Uarts {
    const SECTIONS: &'static [Section] = &[NS16550, SIFIVE];

    type State<'a> = UartStates;

    fn save(&self, _: &Saving<'_>, into: &mut StateWriter<'_>) -> Result<(), NotKept> {
        for number in self.numbers() {
            match with_uart(number, AnyUart::capture) {
                Some(UartState::Ns16550(state)) => {
                    into.section(NS16550.0, number, NS16550.1, &state)?;
                }
                Some(UartState::Sifive(state)) => {
                    into.section(SIFIVE.0, number, SIFIVE.1, &state)?;
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Images of older versions have no such section.
    fn check(
        &self,
        store: Store,
        sections: &mut StateSections<'_>,
    ) -> Result<UartStates, StateError> {
        let mut states = UartStates::new();
        let mut is_any_missing = false;
        for number in self.numbers() {
            let taken = with_uart(number, |uart| take_state(uart, sections, number));
            match taken.transpose()?.flatten() {
                Some(state) => states.push((number, state)),
                None => is_any_missing = true,
            }
        }
        let is_old = store == Store::Image && states.is_empty();
        let (owner, version) = NS16550;
        let missing = StateError::Payload {
            owner,
            version,
            found: 0,
        };
        (is_old || !is_any_missing).then_some(states).ok_or(missing)
    }

    /// Does nothing: the firmware prints until the harts continue.
    fn put_back(&self, _: Store, _: &UartStates) {}

    /// Restores them after a cut. After an image the waking hart does that.
    fn let_out(&self, _: Store, states: &UartStates) {
        restore(states);
    }
}

/// Runs `job` with the UART of this number, if there is one.
fn with_uart<R>(number: u16, job: impl FnOnce(&AnyUart<Mmio>) -> R) -> Option<R> {
    match number.checked_sub(1) {
        None => console::with_uart(job),
        Some(place) => (others().get(usize::from(place))).map(|(_, uart)| job(uart)),
    }
}

/// Takes the settings of `uart`. A section of another kind of UART stays.
fn take_state(
    uart: &AnyUart<Mmio>,
    sections: &mut StateSections<'_>,
    number: u16,
) -> Result<Option<UartState>, StateError> {
    Ok(match uart {
        AnyUart::Ns16550(_) => {
            let state = sections.take_payload(NS16550, number)?;
            state.copied().map(UartState::Ns16550)
        }
        AnyUart::Sifive(_) => {
            let state = sections.take_payload(SIFIVE, number)?;
            state.copied().map(UartState::Sifive)
        }
    })
}

pub(super) fn restore(states: &UartStates) {
    for (number, state) in states {
        match *number {
            CONSOLE => console::restore(state),
            other => with_uart(other, |uart| uart.restore(state)).unwrap_or_default(),
        }
    }
}
