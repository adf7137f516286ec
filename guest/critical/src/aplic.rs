//! An S-level APLIC that sends messages (RISC-V AIA 1.0, chapter 4). The firmware sets the
//! addresses of the messages.

use poorwill_drivers::Registers;

const DOMAINCFG: u64 = 0;
/// Interrupts on (bit 8), as messages (bit 2).
const SENDS_MESSAGES: u32 = 1 << 8 | 1 << 2;
/// `sourcecfg` and `target` of source 0, which does not exist.
const SOURCECFG: u64 = 0;
const TARGET: u64 = 0x3000;
const LEVEL_HIGH: u32 = 6;
const SETIPNUM: u64 = 0x2000;
const SETIENUM: u64 = 0x1edc;

/// Sends the level-sensitive `source` as message `identity` to the hart with this index.
pub fn route(registers: &impl Registers<u32>, source: u32, hart_index: u32, identity: u32) {
    let place = u64::from(source) * 4;
    registers.write(SOURCECFG + place, LEVEL_HIGH);
    registers.write(TARGET + place, hart_index << 18 | identity);
    registers.write(SETIENUM, source);
    registers.write(DOMAINCFG, SENDS_MESSAGES);
    retrigger(registers, source);
}

/// Sends another message if the source's line is still high (AIA 1.0, 4.9.2).
pub fn retrigger(registers: &impl Registers<u32>, source: u32) {
    registers.write(SETIPNUM, source);
}
