//! SBI calls of lent harts that the weak hart serves itself: those that act on harts alone.

use poorwill_domain::{Domain, FencePages, FenceRange};
use poorwill_hart::Task;
use poorwill_memory::EntryPoint;
use poorwill_translate::{Activity, End, VirtualHart};
use sbi_spec::{base, hsm, rfnc, spi, susp, time};

use crate::hart;

/// Serves the call of the hart at a place. Returns false, with nothing changed, for one that the lent
/// hart makes itself: an error is one of these, too.
pub(super) fn serve(harts: &mut [VirtualHart], place: usize, domain: &Domain) -> bool {
    let caller = &mut harts[place];
    let [a0, a1, a2, a3, a4, _, function, extension] = caller.x[10..18] else {
        return false;
    };
    let answer = match (extension as usize, function as usize) {
        (time::EID_TIME, time::SET_TIMER) => {
            caller.csrs.deadline = a0;
            Some(0)
        }
        (base::EID_BASE, base::GET_MVENDORID) => Some(caller.features.identity[0]),
        (base::EID_BASE, base::GET_MARCHID) => Some(caller.features.identity[1]),
        (base::EID_BASE, base::GET_MIMPID) => Some(caller.features.identity[2]),
        (hsm::EID_HSM, hsm::HART_START) => start(domain, a0, a1, a2),
        (hsm::EID_HSM, hsm::HART_STOP) => return stop(harts, place),
        (hsm::EID_HSM, hsm::HART_GET_STATUS) => status(domain, a0),
        (spi::EID_SPI, spi::SEND_IPI) => each(harts, domain, [a0, a1], |hart| {
            hart.csrs.software_interrupt = true;
        }),
        // A lent hart itself fences when it goes on.
        (rfnc::EID_RFNC, rfnc::REMOTE_FENCE_I) => {
            each(harts, domain, [a0, a1], VirtualHart::fence_instructions)
        }
        (rfnc::EID_RFNC, rfnc::REMOTE_SFENCE_VMA) => fence(harts, domain, [a0, a1, a2, a3], None),
        (rfnc::EID_RFNC, rfnc::REMOTE_SFENCE_VMA_ASID) => {
            fence(harts, domain, [a0, a1, a2, a3], Some(a4))
        }
        _ => None,
    };
    if let Some(value) = answer {
        harts[place].answer(0, value);
    }
    answer.is_some()
}

/// The end of the work by a call that [`serve`] leaves to the lent hart.
pub(super) fn end(caller: &VirtualHart) -> End {
    match caller.x[17] as usize {
        susp::EID_SUSP => End::Sleep,
        _ => End::Call,
    }
}

/// Runs `act` for each running hart of the mask, if that is valid.
fn each(
    harts: &mut [VirtualHart],
    domain: &Domain,
    [mask, base]: [u64; 2],
    act: impl Fn(&mut VirtualHart),
) -> Option<u64> {
    let selection = domain.harts(mask, base).ok()?;
    let own = hart::all().iter().zip(harts);
    own.filter(|(own, hart)| selection.contains(own.id()) && hart.activity != Activity::Stopped)
        .for_each(|(_, hart)| act(hart));
    Some(0)
}

fn fence(
    harts: &mut [VirtualHart],
    domain: &Domain,
    [mask, base, start, size]: [u64; 4],
    space: Option<u64>,
) -> Option<u64> {
    let range = FenceRange::new(start, size).ok()?;
    each(harts, domain, [mask, base], |hart| match range.pages() {
        FencePages::Few(pages) => pages.for_each(|page| hart.drop_translations(Some(page), space)),
        FencePages::Everything => hart.drop_translations(None, space),
    })
}

/// Requests a start, as for a hart that runs its OS itself. That hart leaves it to the weak one.
fn start(domain: &Domain, id: u64, address: u64, argument: u64) -> Option<u64> {
    let target = hart::find(domain.hart(id).ok()?)?;
    let entry = EntryPoint {
        address: domain.executable(address).ok()?.get(),
        argument,
    };
    target.start_by_os(Task::Start(entry)).ok()?;
    Some(0)
}

fn status(domain: &Domain, id: u64) -> Option<u64> {
    let target = hart::find(domain.hart(id).ok()?)?;
    Some(target.state() as u64)
}

/// Stops the calling hart. The last one makes the call itself, as the domain ends with it.
fn stop(harts: &mut [VirtualHart], place: usize) -> bool {
    let mut others = harts
        .iter()
        .enumerate()
        .filter(|(other, _)| *other != place);
    if others.all(|(_, hart)| hart.activity == Activity::Stopped) {
        return false;
    }
    let hsm = hart::all()[place].lent_hsm();
    if hsm.stop().is_err() {
        return false;
    }
    hsm.stopped().expect("the weak hart alone moves its state");
    harts[place].activity = Activity::Stopped;
    true
}

/// Starts the virtual harts whose start was requested.
pub(super) fn begin_requested(harts: &mut [VirtualHart]) {
    for (own, hart) in hart::all().iter().zip(harts) {
        if hart.activity != Activity::Stopped {
            continue;
        }
        let Some(starting) = own.lent_hsm().starting() else {
            continue;
        };
        if let Task::Start(entry) = starting.task() {
            hart.start(own.id(), entry.address, entry.argument);
            let started = starting.started();
            started.expect("the weak hart alone moves its state");
        }
    }
}
