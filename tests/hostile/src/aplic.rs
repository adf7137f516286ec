//! The domain's APLIC (RISC-V AIA 1.0, chapter 4).

use poorwill_bare::aplic::{DETACHED, SENDS_MESSAGES};
use poorwill_bare::aplic::{DOMAINCFG, GENMSI, SETIENUM, SETIPNUM, SOURCECFG, TARGET};
use poorwill_bare::mmio::{read32, write32};

/// External interrupt that attacks raise.
pub(crate) const IDENTITY: usize = 77;

/// The source that is raised.
const SOURCE: usize = 1;
/// GENMSI: the message is not yet sent.
const BUSY: u32 = 1 << 12;
/// Hart numbers that fit a target.
const NUMBERS: u32 = 1 << 14;
/// Guest indexes that fit a target (AIA, 4.5.16), and their place.
const GUESTS: u32 = 1 << 6;
const GUEST_SHIFT: u32 = 12;

/// Sends messages to each hart number that an APLIC can name: on request, and by a source, with
/// guest indexes, too.
pub(crate) fn send_everywhere(aplic: u64) {
    let aplic = aplic as usize;
    write32(aplic + DOMAINCFG, SENDS_MESSAGES);
    write32(aplic + SOURCECFG + 4 * SOURCE, DETACHED);
    write32(aplic + SETIENUM, SOURCE as u32);
    for number in 0..NUMBERS {
        let message = number << 18 | IDENTITY as u32;
        write32(aplic + GENMSI, message);
        while read32(aplic + GENMSI) & BUSY != 0 {}
        for guest in [0, number % GUESTS, GUESTS - 1] {
            write32(aplic + TARGET + 4 * SOURCE, message | guest << GUEST_SHIFT);
            write32(aplic + SETIPNUM, SOURCE as u32);
        }
    }
}
