//! SBI calls of a lent hart that the weak hart serves itself: those that act on the hart alone.

use poorwill_domain::{Domain, FencePages, FenceRange};
use poorwill_translate::VirtualHart;
use sbi_spec::{rfnc, spi, time};

/// Serves the call. Returns false, with nothing changed, for one that the lent hart makes itself:
/// an error is one of these, too.
pub(super) fn serve(hart: &mut VirtualHart, domain: &Domain, id: u64) -> bool {
    let [a0, a1, a2, a3, a4, _, function, extension] = hart.x[10..18] else {
        return false;
    };
    let served = match (extension as usize, function as usize) {
        (time::EID_TIME, time::SET_TIMER) => {
            hart.csrs.deadline = a0;
            true
        }
        (spi::EID_SPI, spi::SEND_IPI) => is_own(domain, [a0, a1], id, || {
            hart.csrs.software_interrupt = true;
        }),
        // A later instruction is read from memory, and the lent hart fences when it goes on.
        (rfnc::EID_RFNC, rfnc::REMOTE_FENCE_I) => is_own(domain, [a0, a1], id, || {}),
        (rfnc::EID_RFNC, rfnc::REMOTE_SFENCE_VMA) => {
            fence(hart, domain, id, [a0, a1, a2, a3], None)
        }
        (rfnc::EID_RFNC, rfnc::REMOTE_SFENCE_VMA_ASID) => {
            fence(hart, domain, id, [a0, a1, a2, a3], Some(a4))
        }
        _ => false,
    };
    if served {
        hart.answer(0, 0);
    }
    served
}

/// Runs `act` if the mask names the hart. Returns whether the mask is valid. No other hart of the OS
/// runs: it has one.
fn is_own(domain: &Domain, [mask, base]: [u64; 2], id: u64, act: impl FnOnce()) -> bool {
    let Ok(selection) = domain.harts(mask, base) else {
        return false;
    };
    if selection.contains(id) {
        act();
    }
    true
}

fn fence(
    hart: &mut VirtualHart,
    domain: &Domain,
    id: u64,
    [mask, base, start, size]: [u64; 4],
    space: Option<u64>,
) -> bool {
    let Ok(range) = FenceRange::new(start, size) else {
        return false;
    };
    is_own(domain, [mask, base], id, || match range.pages() {
        FencePages::Few(pages) => pages.for_each(|page| hart.drop_translations(Some(page), space)),
        FencePages::Everything => hart.drop_translations(None, space),
    })
}
