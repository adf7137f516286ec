//! Random cases: an instruction, the registers, and the page tables of its caller.

use fastrand::Rng;
use softcore_rv64::Privilege;

use crate::memory::{Memory, RAM, RAM_BYTES};

const PAGE: u64 = 4096;
const ROOT: u64 = RAM + 0x10_0000;
const CODE: u64 = RAM + 0x2000;
const DEVICE: u64 = 0x1010_0000;

/// Flags of an entry.
const V: u64 = 1;
const R: u64 = 1 << 1;
const W: u64 = 1 << 2;
const X: u64 = 1 << 3;
const U: u64 = 1 << 4;

#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) user: bool,
    pub(crate) x: [u64; 32],
    pub(crate) pc: u64,
    pub(crate) mstatus: u64,
    pub(crate) stvec: u64,
    pub(crate) satp: u64,
    pub(crate) memory: Memory,
}

impl Case {
    pub(crate) fn privilege(&self) -> Privilege {
        if self.user {
            Privilege::User
        } else {
            Privilege::Supervisor
        }
    }
}

/// An instruction: mostly a load or a store.
fn instruction(rng: &mut Rng) -> u32 {
    let any = rng.u32(..);
    // FLW and FSW, AMO, FENCE and CBO, SYSTEM with HLV, OP-IMM.
    const SHORT: [u32; 6] = [2, 3, 4, 4, 6, 7];
    const SHORT_BY_STACK_POINTER: [u32; 4] = [2, 3, 6, 7];
    const OTHERS: [u32; 6] = [0x07, 0x27, 0x2f, 0x0f, 0x73, 0x13];
    match rng.u32(0..20) {
        0..3 => any & !0x7f | 0x03,
        3..6 => any & !0x7f | 0x23,
        // Offsets that keep an aligned base aligned.
        6..9 => any & !0x0070_007f | 0x03,
        9..12 => any & !0x0000_03ff | 0x23,
        12..15 => any & 0x1ffc | SHORT[rng.usize(..SHORT.len())] << 13,
        15..18 => any & 0x1ffc | SHORT_BY_STACK_POINTER[rng.usize(..4)] << 13 | 2,
        18 => any & !0x7f | OTHERS[rng.usize(..OTHERS.len())],
        _ => any,
    }
}

fn one_in(rng: &mut Rng, count: u32) -> bool {
    rng.u32(0..count) == 0
}

/// An address that the mode translates, or now and then another.
fn canonical(rng: &mut Rng, levels: u64) -> u64 {
    if levels == 0 {
        return DEVICE;
    }
    let unused = 64 - (12 + 9 * levels) as u32;
    let address = rng.u64(..) & !(PAGE - 1);
    if one_in(rng, 64) {
        return address;
    }
    (address.cast_signed() << unused >> unused).cast_unsigned()
}

/// Page tables under construction.
struct Tables {
    memory: Memory,
    levels: u64,
    /// The next free table.
    next: u64,
}

impl Tables {
    /// Maps the page of `address` by a leaf of `level`.
    fn map(&mut self, address: u64, level: u64, leaf: u64) {
        let mut table = ROOT;
        for above in (level + 1..self.levels).rev() {
            let place = table + (address >> (12 + 9 * above) & 0x1ff) * 8;
            let found = self.memory.words.iter().find(|(at, _)| *at == place);
            table = if let Some((_, entry)) = found {
                if entry & (R | W | X) != 0 {
                    return;
                }
                entry >> 10 << 12
            } else {
                let own = self.next;
                self.next += PAGE;
                self.memory.words.push((place, own >> 2 | V));
                own
            };
        }
        let place = table + (address >> (12 + 9 * level) & 0x1ff) * 8;
        self.memory.put(place, leaf);
    }
}

fn leaf(rng: &mut Rng, physical: u64, level: u64, flags: u64, user: bool) -> u64 {
    let physical = physical & !((PAGE << (9 * level)) - 1);
    let own = if user != one_in(rng, 16) { U } else { 0 };
    let mut entry = physical >> 2 | V | own | flags | rng.u64(..) & 0xe0;
    if one_in(rng, 16) {
        entry ^= 1 << rng.u32(0..10);
    }
    if level == 0 && one_in(rng, 8) {
        // NAPOT, mostly with its only code.
        entry = entry & !(0xf << 10) | 0x8 << 10 | 1 << 63;
        if one_in(rng, 4) {
            entry ^= 1 << rng.u32(10..14);
        }
    }
    if one_in(rng, 24) {
        entry ^= 1 << rng.u32(..64);
    }
    if one_in(rng, 24) {
        entry |= rng.u64(..4) << 61;
    }
    entry
}

/// Where the caller's data is: mostly at a device.
fn target(rng: &mut Rng) -> u64 {
    match rng.u32(0..8) {
        0 => RAM + rng.u64(..RAM_BYTES),
        1 => rng.u64(..) & ((1 << 56) - 1),
        _ => DEVICE + (rng.u64(..64) << 12),
    }
}

fn registers(rng: &mut Rng, data: u64) -> [u64; 32] {
    core::array::from_fn(|_| match rng.u32(0..16) {
        0 => rng.u64(..),
        1 => data.wrapping_add(rng.u64(..64)),
        2 => data.wrapping_add(rng.u64(..64) * 4),
        _ => data.wrapping_add(rng.u64(..64) * 8),
    })
}

/// The addresses of a case.
struct Places {
    /// The page of the code, and the instruction's place in it.
    page: u64,
    offset: u64,
    /// The page of the data.
    data: u64,
}

/// The physical addresses of the instruction's halves. The second may be in another page.
const fn halves(offset: u64, is_translated: bool) -> [u64; 2] {
    let crosses = is_translated && offset == 0xffe;
    let second = if crosses { 0x3000 } else { offset + 2 };
    [CODE + offset, CODE + second]
}

/// Maps the code and the data, and the pages beside.
fn map_all(rng: &mut Rng, tables: &mut Tables, places: &Places, user: bool) {
    let &Places { page, offset, data } = places;
    if offset == 0xffe {
        let [_, second] = halves(offset, true);
        let entry = leaf(rng, second, 0, X, user);
        tables.map(page.wrapping_add(PAGE), 0, entry);
    }
    let entry = leaf(rng, CODE, 0, X, user);
    tables.map(page, 0, entry);
    for address in [data.wrapping_sub(PAGE), data.wrapping_add(PAGE), data] {
        let is_large = address == data && one_in(rng, 6);
        let level = if is_large {
            rng.u64(..tables.levels)
        } else {
            0
        };
        let physical = target(rng);
        let flags = [R, R | W, R | W, X][rng.usize(..4)];
        let entry = leaf(rng, physical, level, flags, user);
        tables.map(address, level, entry);
    }
    if one_in(rng, 16) {
        let place = rng.usize(..tables.memory.words.len());
        tables.memory.words[place].1 ^= 1 << rng.u32(..64);
    }
}

/// The case of a seed.
pub(crate) fn case(seed: u64) -> Case {
    let rng = &mut Rng::with_seed(seed);
    let bits = instruction(rng);
    let levels = [0, 3, 3, 4, 5][rng.usize(..5)];
    let user = rng.bool();
    let ends_page = one_in(rng, 6);
    let any_place = rng.u64(..0x7fe) * 2;
    let places = Places {
        page: if levels == 0 {
            CODE
        } else {
            canonical(rng, levels)
        },
        offset: if ends_page { 0xffe } else { any_place },
        data: canonical(rng, levels),
    };
    let mut tables = Tables {
        memory: Memory::default(),
        levels,
        next: ROOT + PAGE,
    };
    if levels != 0 {
        map_all(rng, &mut tables, &places, user);
    }
    let mut memory = tables.memory;
    let [first, second] = halves(places.offset, levels != 0);
    memory.parcels = vec![(first, bits as u16), (second, (bits >> 16) as u16)];
    let satp = match levels {
        0 => 0,
        levels => (levels + 5) << 60 | rng.u64(..1 << 16) << 44 | ROOT >> 12,
    };
    // Offsets mostly stay in the page.
    let within = if one_in(rng, 8) { 0 } else { 0x800 };
    Case {
        user,
        x: registers(rng, places.data + within),
        pc: places.page + places.offset,
        mstatus: rng.u64(..) & MSTATUS,
        stvec: rng.u64(..) & !2,
        satp,
        memory,
    }
}

/// Bits of `mstatus` that are drawn: SIE, MIE, SPIE, MPIE, SPP, FS, SUM, MXR.
const MSTATUS: u64 = 1 << 1 | 1 << 3 | 1 << 5 | 1 << 7 | 1 << 8 | 3 << 13 | 1 << 18 | 1 << 19;
