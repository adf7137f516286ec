//! Random and adversarial page tables.

use poorwill_translate::fake::{DEVICE, FakeHost, RAM};
use poorwill_translate::{Features, Mode};
use proptest::prelude::*;

use crate::common::flags::{N, U, V};
use crate::common::walk::{Access, Hart};
use crate::common::wall::{KEPT, PAGE, PAGES, put, wall};

/// Places of entries that the drawn addresses use.
const PLACES: [u64; 5] = [0, 1, 2, 256, 511];

/// Pages that hold drawn entries.
const TABLES: u64 = 7;

/// The code's address, its page, and the pages of its own tables.
pub(crate) const CODE: u64 = 3 << 30 | 3 << 21 | 3 << 12;
pub(crate) const CODE_PAGE: u64 = RAM + 15 * PAGE;
const CODE_TABLES: u64 = RAM + 11 * PAGE;

#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) hart: Hart,
    pub(crate) address: u64,
    pub(crate) access: Access,
    /// Entries of all tables, by place.
    entries: Vec<u64>,
}

/// A page's address: of memory, of machine mode's memory, of a device, and of none.
fn page() -> impl Strategy<Value = u64> {
    prop_oneof![
        12 => (0..PAGES).prop_map(|number| RAM + PAGE * number),
        1 => Just(KEPT),
        2 => Just(DEVICE),
        1 => Just(0),
        1 => Just(((1 << 44) - 1) * PAGE),
    ]
}

/// A bit that does not belong.
fn wrong_bit() -> impl Strategy<Value = u64> {
    prop_oneof![40 => Just(0), 1 => (0..64_u32).prop_map(|bit| 1 << bit)]
}

/// A pointer in a table: mostly to a later one, or in circles, or elsewhere.
fn pointer(table: u64) -> impl Strategy<Value = u64> {
    let later = [1_u64, 3, 3, 5, 5, 5, 5][table as usize];
    let later = (later..later + 2).prop_map(|number| RAM + PAGE * number);
    let any = (0..TABLES).prop_map(|number| RAM + PAGE * number);
    prop_oneof![12 => later, 1 => any, 1 => page()].prop_map(|page| page >> 2 | V)
}

fn leaf() -> impl Strategy<Value = u64> {
    let rights = prop_oneof![16 => Just(0xcf), 10 => Just(0xdf), 3 => any::<u8>()];
    // The first pages begin larger leaves, and 64 KiB.
    let first = prop_oneof![3 => Just(RAM), 2 => Just(DEVICE), 1 => Just(RAM + 8 * PAGE)];
    let page = prop_oneof![1 => page(), 1 => first];
    let unit = prop_oneof![16 => Just(0), 1 => Just(N)];
    let kind = prop_oneof![16 => Just(0), 1 => 0..4_u64].prop_map(|kind| kind << 61);
    (page, rights, unit, kind)
        .prop_map(|(page, rights, unit, kind)| page >> 2 | u64::from(rights) | V | unit | kind)
}

fn entry(table: u64) -> BoxedStrategy<u64> {
    // Later tables mostly have leaves.
    let leaves = [2, 3, 3, 8, 8, 20, 20][table as usize];
    let ordinary = prop_oneof![8 => pointer(table), leaves => leaf()];
    let changed = (ordinary, wrong_bit()).prop_map(|(entry, bit)| entry ^ bit);
    prop_oneof![40 => changed, 1 => any::<u64>()].boxed()
}

/// Entries of all tables, by place.
fn entries() -> impl Strategy<Value = Vec<u64>> {
    let of_table = |table| vec![entry(table); PLACES.len()];
    (0..TABLES).flat_map(of_table).collect::<Vec<_>>()
}

fn features() -> impl Strategy<Value = Features> {
    (any::<bool>(), any::<bool>()).prop_map(|(sets_accessed, page_types)| Features {
        modes: 1 | 7 << 8,
        space_mask: 0xffff,
        sets_accessed,
        page_types,
        ..Features::default()
    })
}

prop_compose! {
    fn hart()(
        levels in prop_oneof![Just(3), Just(4), Just(5)],
        root in prop_oneof![24 => Just(RAM), 1 => page()],
        space in any::<u16>(),
        user in prop::bool::weighted(0.3),
        sum in prop::bool::weighted(0.7),
        mxr in any::<bool>(),
        features in features(),
    ) -> Hart {
        let satp = (levels + 5) << 60 | u64::from(space) << 44 | root >> 12;
        let mode = if user { Mode::User } else { Mode::Supervisor };
        Hart { satp, mode, sum, mxr, features }
    }
}

prop_compose! {
    /// An address of drawn places, canonical or not.
    fn address()(
        places in prop::array::uniform5(prop_oneof![2 => 0..PLACES.len(), 1 => 0..2_usize]),
        offset in prop_oneof![Just(0), Just(8), Just(0xff8), Just(0xffc), Just(0x7f1)],
        is_raw in prop::bool::weighted(0.05),
        raw in any::<u64>(),
    ) -> (u64, bool) {
        let numbers = (0..5).map(|level| PLACES[places[level as usize]] << (12 + 9 * level));
        let address = numbers.sum::<u64>() | offset;
        (if is_raw { raw } else { address }, is_raw)
    }
}

prop_compose! {
    pub(crate) fn case()(
        hart in hart(),
        (address, is_raw) in address(),
        access in prop_oneof![Just(Access::Fetch), Just(Access::Load), Just(Access::Store)],
        entries in entries(),
    ) -> Case {
        let unused = 64 - (12 + 9 * levels(hart.satp));
        let canonical = (address << unused).cast_signed() >> unused;
        let address = if is_raw { address } else { canonical.cast_unsigned() };
        // Instructions have even addresses.
        let address = if access == Access::Fetch { address & !1 } else { address };
        Case { hart, address, access, entries }
    }
}

pub(crate) fn levels(satp: u64) -> u32 {
    u32::from((satp >> 60) as u8) - 5
}

impl Case {
    /// The memory before the access.
    pub(crate) fn wall(&self) -> FakeHost {
        let host = wall();
        let mut entries = self.entries.iter();
        for table in (0..TABLES).map(|number| RAM + PAGE * number) {
            for place in PLACES {
                let entry = entries.next().expect("one for each place");
                // Machine mode's page has no entries.
                if table != KEPT {
                    put(&host, table + 8 * place, *entry);
                }
            }
        }
        self.map_code(&host);
        host
    }

    /// Maps the code from the first table, at a place that no drawn address uses.
    fn map_code(&self, wall: &FakeHost) {
        let user = if self.hart.mode == Mode::User { U } else { 0 };
        let mut table = RAM;
        for level in (0..levels(self.hart.satp)).rev() {
            let place = table + 8 * (CODE >> (12 + 9 * level) & 511);
            if level == 0 {
                put(wall, place, CODE_PAGE >> 2 | 0xcb | user);
                return;
            }
            let next = CODE_TABLES + PAGE * u64::from(level - 1);
            // The upper levels of more than three have place 0, which is drawn, too.
            put(wall, place, next >> 2 | V);
            table = next;
        }
    }
}
