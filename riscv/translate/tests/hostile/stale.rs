//! The virtual TLB: without a fence an access may use an older state of the tables, after a fence
//! that covers it only the present one (12.2.1). The order of accesses, changes and fences is
//! random.

use std::collections::{BTreeMap, BTreeSet};

use poorwill_translate::fake::{FakeHost, RAM};
use poorwill_translate::{Features, Mode, Stop, VirtualHart};
use proptest::prelude::*;

use crate::common::flags::{A, D, G, N, R, V, W};
use crate::common::walk::{self, Access, Translated};
use crate::common::wall::{PAGE, put, wall, word};
use crate::common::{i, r, s};

/// Tables of an address space: the root, then the next level, and two with pages.
const TABLES: [[u64; 4]; 2] = [[6, 7, 8, 9], [10, 11, 12, 13]];
/// Tables of the code, which both have, and its page.
const CODE_TABLES: [u64; 2] = [14, 4];
const CODE: u64 = 3 << 30;
const CODE_PAGE: u64 = RAM + 15 * PAGE;

/// Pages of data: the first ones, as larger leaves begin there.
const DATA: u64 = 4;
const LOADED: u64 = 16;
const STORED: u64 = 24;

/// Virtual pages: four in a table, and three whose table a larger leaf may replace.
const ADDRESSES: [u64; 7] = [
    0,
    PAGE,
    2 * PAGE,
    3 * PAGE,
    1 << 21,
    (1 << 21) + PAGE,
    (1 << 21) + 2 * PAGE,
];

/// The changeable entries of an address space: table and place.
const ENTRIES: [(usize, u64); 8] = [
    (2, 0),
    (2, 1),
    (2, 2),
    (2, 3),
    (1, 1),
    (3, 0),
    (3, 1),
    (3, 2),
];

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Changes an entry of a space.
    Change(usize, usize, u64),
    /// Loads or stores in a space.
    Access(usize, usize, bool),
    /// Fences an address or all, in a space or in all.
    Fence(Option<usize>, Option<usize>),
}

fn frame(number: u64) -> u64 {
    RAM + PAGE * number
}

fn step() -> impl Strategy<Value = Step> {
    let entry =
        (0..DATA, 0..5_usize, any::<bool>(), 0..6_u8).prop_map(|(page, rights, global, kind)| {
            let flags = [
                V | R | A | D,
                V | R | W | A | D,
                V | R | W,
                V | R | W | A,
                0,
            ][rights];
            let flags = flags | if global { G } else { 0 };
            match kind {
                // 64 KiB from the first page on.
                0 => frame(8) >> 2 | N | flags,
                _ => frame(page) >> 2 | flags,
            }
        });
    let space = 0..TABLES.len();
    let address = 0..ADDRESSES.len();
    prop_oneof![
        // Larger leaves come and go more often.
        4 => (space.clone(), prop_oneof![2 => 0..ENTRIES.len(), 1 => Just(4)], entry)
            .prop_map(|(space, place, entry)| Step::Change(space, place, entry)),
        6 => (space.clone(), address.clone(), any::<bool>())
            .prop_map(|(space, address, store)| Step::Access(space, address, store)),
        2 => (prop::option::of(address), prop::option::of(space))
            .prop_map(|(address, space)| Step::Fence(address, space)),
    ]
}

/// Words of the tables, by their addresses.
type Words = BTreeMap<u64, u64>;

struct Machine {
    wall: FakeHost,
    hart: VirtualHart,
    /// All states of the tables; the last one is the present.
    states: Vec<Words>,
    /// States that an access to an address in a space may use.
    allowed: BTreeMap<(usize, usize), BTreeSet<usize>>,
    stored: u64,
    /// Accesses with another result than the present tables give.
    stale: u64,
}

impl Machine {
    fn new(sets_accessed: bool) -> Self {
        let wall = wall();
        for page in 0..DATA {
            put(&wall, frame(page) + LOADED, 0x100 + page);
        }
        let pointer = |to: u64| frame(to) >> 2 | V;
        for [root, middle, first, second] in TABLES {
            put(&wall, frame(root), pointer(middle));
            put(&wall, frame(middle), pointer(first));
            put(&wall, frame(middle) + 8, pointer(second));
            put(&wall, frame(root) + 8 * 3, pointer(CODE_TABLES[0]));
        }
        put(&wall, frame(CODE_TABLES[0]), pointer(CODE_TABLES[1]));
        put(&wall, frame(CODE_TABLES[1]), CODE_PAGE >> 2 | 0xcb);
        let code = [
            i("ld", 10, 11, LOADED as i32),
            s("sd", 11, 12, STORED as i32),
        ];
        put(
            &wall,
            CODE_PAGE,
            u64::from(code[0]) | u64::from(code[1]) << 32,
        );
        let mut hart = VirtualHart::new();
        hart.features = Features {
            modes: 1 | 1 << 8,
            space_mask: 0xff,
            sets_accessed,
            ..Features::default()
        };
        let mut machine = Machine {
            wall,
            hart,
            states: Vec::new(),
            allowed: BTreeMap::new(),
            stored: 0,
            stale: 0,
        };
        machine.add_state();
        machine
    }

    fn words(&self) -> Words {
        let tables = TABLES.iter().flatten().chain(&CODE_TABLES);
        let words = tables.flat_map(|table| (0..4).map(|place| frame(*table) + 8 * place));
        words.map(|at| (at, word(&self.wall, at))).collect()
    }

    /// Notes the present state of the tables, which all accesses may use.
    fn add_state(&mut self) {
        self.states.push(self.words());
        let present = self.states.len() - 1;
        for space in 0..TABLES.len() {
            for address in 0..ADDRESSES.len() {
                self.allowed
                    .entry((space, address))
                    .or_default()
                    .insert(present);
            }
        }
    }

    fn satp(space: usize) -> u64 {
        8 << 60 | (space as u64 + 1) << 44 | frame(TABLES[space][0]) >> 12
    }

    /// The result of an access by a state of the tables, or the exception's cause.
    fn result(
        &self,
        state: usize,
        space: usize,
        address: usize,
        access: Access,
    ) -> Result<Translated, u64> {
        let hart = walk::Hart {
            satp: Self::satp(space),
            mode: Mode::Supervisor,
            sum: false,
            mxr: false,
            features: self.hart.features,
        };
        let read = |at: u64| Some(self.states[state].get(&at).copied().unwrap_or_default());
        let found = walk::translate(&hart, ADDRESSES[address], access, read);
        found.map_err(|fault| access.cause(fault))
    }

    /// All results that an access may have.
    fn results(&self, space: usize, address: usize, access: Access) -> BTreeSet<Result<u64, u64>> {
        let mut results = BTreeSet::new();
        for other in 0..TABLES.len() {
            for state in &self.allowed[&(other, address)] {
                let result = self.result(*state, other, address, access);
                // Global leaves of the other space are in this one, too.
                if other == space || result.is_ok_and(|found| found.is_global) {
                    results.insert(result.map(|found| found.physical));
                }
            }
        }
        results
    }

    fn access(&mut self, space: usize, address: usize, is_store: bool) {
        let access = if is_store {
            Access::Store
        } else {
            Access::Load
        };
        let hart = &mut self.hart;
        hart.csrs.satp = Self::satp(space);
        hart.pc = CODE + if is_store { 4 } else { 0 };
        self.stored += 1;
        (hart.x[11], hart.x[12]) = (ADDRESSES[address], self.stored);
        hart.counts = Default::default();
        assert_eq!(hart.run(&self.wall, 1), Stop::Turn);
        let result = match (hart.counts.exceptions, is_store) {
            (0, false) => Ok(frame(hart.x[10] - 0x100)),
            (0, true) => {
                let mut pages = (0..DATA).map(frame);
                let is_its = |page: &u64| word(&self.wall, page + STORED) == self.stored;
                Ok(pages.find(is_its).expect("the value is in memory"))
            }
            _ => Err(hart.csrs.scause),
        };
        let allowed = self.results(space, address, access);
        assert!(allowed.contains(&result), "{result:x?} of {allowed:x?}");
        let present = self.states.len() - 1;
        let now = self.result(present, space, address, access);
        self.stale += u64::from(now.map(|found| found.physical) != result);
        self.check_tables(access);
    }

    /// An access may set A and D of one leaf.
    fn check_tables(&mut self, access: Access) {
        let before = self.states.last().expect("a state");
        let now = self.words();
        let changed: Vec<_> = now
            .iter()
            .filter(|(at, word)| before[*at] != **word)
            .collect();
        assert!(changed.len() <= 1, "{changed:x?}");
        for (at, word) in changed {
            let set = if access == Access::Store { A | D } else { A };
            assert_eq!(*word, before[at] | set, "{at:#x}");
            assert!(self.hart.features.sets_accessed);
        }
        if now != *before {
            self.add_state();
        }
    }

    fn fence(&mut self, address: Option<usize>, space: Option<usize>) {
        let (rs1, rs2) = (address.map_or(0, |_| 13), space.map_or(0, |_| 14));
        let fence = r("sfence.vma", 0, rs1, rs2);
        put(&self.wall, CODE_PAGE + 8, fence.into());
        let hart = &mut self.hart;
        hart.csrs.satp = Self::satp(0);
        hart.pc = CODE + 8;
        // Any byte of the page, and bits of an ASID that the hart does not keep.
        hart.x[13] = address.map_or(0, |address| ADDRESSES[address] + 0x123);
        hart.x[14] = space.map_or(0, |space| (space as u64 + 1) | 0xab00);
        assert_eq!(hart.run(&self.wall, 1), Stop::Turn);
        let keys: Vec<_> = self.allowed.keys().copied().collect();
        for key in keys {
            let kept = self.kept(key, address, space);
            self.allowed.insert(key, kept);
        }
    }

    /// States that an access may still use after a fence.
    fn kept(
        &self,
        key: (usize, usize),
        address: Option<usize>,
        space: Option<usize>,
    ) -> BTreeSet<usize> {
        let (own_space, own) = key;
        let present = self.states.len() - 1;
        let is_kept = |state: &&usize| {
            let found = |address| self.result(**state, own_space, address, Access::Load).ok();
            let is_global = found(own).is_some_and(|found| found.is_global);
            let in_space = space.is_none_or(|space| space == own_space && !is_global);
            // A fence is for a leaf, and so for all its pages.
            let leaf = |address| found(address).map(|found| found.leaf);
            let has_leaf = |address| leaf(own).is_some() && leaf(own) == leaf(address);
            let is_there = address.is_none_or(|address| address == own || has_leaf(address));
            **state == present || !(in_space && is_there)
        };
        self.allowed[&key].iter().filter(is_kept).copied().collect()
    }

    fn run(&mut self, steps: &[Step]) {
        for step in steps {
            match *step {
                Step::Change(space, place, entry) => {
                    let (table, index) = ENTRIES[place];
                    // The larger leaf takes turns with the table that it replaces.
                    let is_table = table == 1 && entry & D == 0;
                    let next = frame(TABLES[space][3]) >> 2 | V;
                    let larger = entry & 0xff | RAM >> 2;
                    let entry = match (table, is_table) {
                        (1, true) => next,
                        (1, false) => larger,
                        _ => entry,
                    };
                    put(&self.wall, frame(TABLES[space][table]) + 8 * index, entry);
                    self.add_state();
                }
                Step::Access(space, address, is_store) => self.access(space, address, is_store),
                Step::Fence(address, space) => self.fence(address, space),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(800))]

    #[test]
    fn only_unfenced_changes_may_be_stale(
        steps in prop::collection::vec(step(), 1..80),
        sets_accessed in any::<bool>(),
    ) {
        Machine::new(sets_accessed).run(&steps);
    }
}

/// The property is not empty: accesses do see older tables.
#[test]
fn accesses_without_fences_are_stale_at_times() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = prop::collection::vec(step(), 100);
    let steps = strategy.new_tree(&mut runner).expect("steps").current();
    let mut machine = Machine::new(true);
    machine.run(&steps);
    assert!(machine.stale > 0);
}
