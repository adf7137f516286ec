//! The domain's APLIC (RISC-V AIA 1.0, chapter 4).

use crate::IDENTITY;
use crate::probe::{read, write};

/// Registers of an APLIC's domain (AIA, 4.5).
const DOMAINCFG: u64 = 0;
const SOURCECFG: u64 = 4;
const GENMSI: u64 = 0x3000;
const TARGET: u64 = 0x3004;
const SETIENUM: u64 = 0x1edc;
const SETIPNUM: u64 = 0x1cdc;

/// DOMAINCFG: interrupts are enabled, and sent as messages.
const ENABLED_MESSAGES: u32 = 1 << 8 | 1 << 2;
/// GENMSI: the message is not yet sent.
const BUSY: u32 = 1 << 12;
/// SOURCECFG: detached, so that software alone raises it.
const DETACHED: u32 = 1;
/// Hart numbers that fit a target.
const NUMBERS: u32 = 1 << 14;
/// Guest indexes that fit a target (AIA, 4.5.16), and their place.
const GUESTS: u32 = 1 << 6;
const GUEST_SHIFT: u32 = 12;

/// Sends messages to each hart number that an APLIC can name: on request, and by a source, with
/// guest indexes, too.
pub(crate) fn send_everywhere(aplic: u64) {
    write(aplic + DOMAINCFG, ENABLED_MESSAGES);
    write(aplic + SOURCECFG, DETACHED);
    write(aplic + SETIENUM, 1);
    for number in 0..NUMBERS {
        let message = number << 18 | IDENTITY as u32;
        write(aplic + GENMSI, message);
        while read(aplic + GENMSI) & BUSY != 0 {}
        for guest in [0, number % GUESTS, GUESTS - 1] {
            write(aplic + TARGET, message | guest << GUEST_SHIFT);
            write(aplic + SETIPNUM, 1);
        }
    }
}

/// Lets a level-sensitive source of the APLIC send the identity to the domain's first hart.
pub(crate) fn listen(aplic: u64, source: u64) {
    const LEVEL_HIGH: u32 = 6;
    let place = 4 * (source - 1);
    write(aplic + SOURCECFG + place, LEVEL_HIGH);
    write(aplic + TARGET + place, IDENTITY as u32);
    write(aplic + SETIENUM, source as u32);
    write(aplic + DOMAINCFG, ENABLED_MESSAGES);
}
