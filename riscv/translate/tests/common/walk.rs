//! Address translation as the privileged specification writes it (12.3.2 and 12.4 to 12.6,
//! Svnapot, Svpbmt, Svadu), step by step and apart from the product's code.
#![allow(dead_code, reason = "each test uses a part")]

use super::flags::{A, D, G, N, PBMT, R, U, V, W, X};

use poorwill_translate::{Features, Mode};

/// Kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Fetch,
    Load,
    Store,
}

/// Why an access fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Page,
    Access,
}

impl Access {
    /// The number of the exception.
    pub(crate) fn cause(self, fault: Fault) -> u64 {
        match (self, fault) {
            (Access::Fetch, Fault::Access) => 1,
            (Access::Load, Fault::Access) => 5,
            (Access::Store, Fault::Access) => 7,
            (Access::Fetch, Fault::Page) => 12,
            (Access::Load, Fault::Page) => 13,
            (Access::Store, Fault::Page) => 15,
        }
    }
}

/// The hart's state that a translation uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hart {
    pub(crate) satp: u64,
    pub(crate) mode: Mode,
    pub(crate) sum: bool,
    pub(crate) mxr: bool,
    pub(crate) features: Features,
}

/// A translated address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Translated {
    pub(crate) physical: u64,
    /// The leaf's new value and its place, if A or D is to be set.
    pub(crate) update: Option<(u64, u64)>,
    /// Place of the leaf; zero without tables.
    pub(crate) leaf: u64,
    /// The leaf maps all address spaces.
    pub(crate) is_global: bool,
}

const RESERVED: u64 = 0x7f << 54;

const PAGESIZE: u64 = 4096;
const PTESIZE: u64 = 8;

/// Translates an address. `read` reads an entry: `None` for one that PMP or PMAs refuse.
pub(crate) fn translate(
    hart: &Hart,
    address: u64,
    access: Access,
    read: impl Fn(u64) -> Option<u64>,
) -> Result<Translated, Fault> {
    let levels: u32 = match hart.satp >> 60 {
        0 if address >> 56 != 0 => return Err(Fault::Access),
        0 => {
            return Ok(Translated {
                physical: address,
                leaf: 0,
                update: None,
                is_global: false,
            });
        }
        8 => 3,
        9 => 4,
        10 => 5,
        mode => panic!("mode {mode}"),
    };
    // All bits above the translated ones are copies of the highest of these.
    let unused = 64 - (12 + 9 * levels);
    if (address.cast_signed() << unused >> unused).cast_unsigned() != address {
        return Err(Fault::Page);
    }
    let vpn = |i: u32| address >> (12 + 9 * i) & 0x1ff;
    // Step 1.
    let mut a = (hart.satp & ((1 << 44) - 1)) * PAGESIZE;
    let mut i = levels - 1;
    loop {
        // Step 2.
        let place = a + vpn(i) * PTESIZE;
        let pte = read(place).ok_or(Fault::Access)?;
        // Step 3.
        if pte & V == 0 || pte & R == 0 && pte & W != 0 || pte & RESERVED != 0 {
            return Err(Fault::Page);
        }
        let ppn = pte >> 10 & ((1 << 44) - 1);
        // Step 4.
        if pte & (R | X) == 0 {
            // Bits that are reserved in pointers to tables.
            if pte & (D | A | U | PBMT | N) != 0 || i == 0 {
                return Err(Fault::Page);
            }
            i -= 1;
            a = ppn * PAGESIZE;
            continue;
        }
        return leaf(hart, address, access, Leaf { place, pte, ppn, i });
    }
}

struct Leaf {
    place: u64,
    pte: u64,
    ppn: u64,
    i: u32,
}

fn leaf(hart: &Hart, address: u64, access: Access, leaf: Leaf) -> Result<Translated, Fault> {
    let Leaf { place, pte, ppn, i } = leaf;
    let has_type = pte & PBMT != 0;
    if pte & PBMT == PBMT || has_type && !hart.features.page_types {
        return Err(Fault::Page);
    }
    // Step 5.
    if !is_permitted(hart, pte, access) {
        return Err(Fault::Page);
    }
    // Step 6.
    let below = (1 << (9 * i)) - 1;
    if ppn & below != 0 {
        return Err(Fault::Page);
    }
    let vpn = address / PAGESIZE;
    let ppn = match pte & N != 0 {
        false => ppn & !below | vpn & below,
        // The only encoding: 64 KiB.
        true if i == 0 && ppn & 0xf == 0x8 => ppn & !0xf | vpn & 0xf,
        true => return Err(Fault::Page),
    };
    // Step 7.
    let needed = if access == Access::Store { A | D } else { A };
    let update = (pte & needed != needed).then_some((place, pte | needed));
    if update.is_some() && !hart.features.sets_accessed {
        return Err(Fault::Page);
    }
    // Step 8.
    Ok(Translated {
        physical: ppn * PAGESIZE + address % PAGESIZE,
        leaf: place,
        update,
        is_global: pte & G != 0,
    })
}

fn is_permitted(hart: &Hart, pte: u64, access: Access) -> bool {
    let has = |flag: u64| pte & flag != 0;
    let in_mode = match hart.mode {
        Mode::User => has(U),
        Mode::Supervisor => !has(U) || hart.sum && access != Access::Fetch,
    };
    in_mode
        && match access {
            Access::Fetch => has(X),
            Access::Load => has(R) || hart.mxr && has(X),
            Access::Store => has(W),
        }
}
