//! By what caches are written back: which way is chosen, and that it leaves nothing behind,
//! on harts with a cache each before one or two that they share.

mod model;

use std::cell::RefCell;

use poorwill_memory::PhysRange;
use poorwill_sleep::cut::{CacheError, CacheMeans, CacheOperations, CacheSize, LineMeans};
use proptest::prelude::*;

use model::{Cache, Caches, Hart, LINE, MEMORY, Step};

/// A hold-up in which all of that is walked through.
const LONG_US: u32 = 100_000;

/// A machine: bytes of the caches, and what it has to empty them.
#[derive(Clone, Debug)]
struct Shape {
    levels: [u64; 3],
    is_lru: bool,
    has_whole: bool,
    lines: Option<LineMeans>,
    knows_sizes: bool,
}

impl Shape {
    fn means(&self) -> CacheMeans {
        let size = |bytes| {
            let is_lru = self.is_lru;
            self.knows_sizes.then_some(CacheSize { bytes, is_lru })
        };
        let [first, further, shared] = self.levels;
        CacheMeans {
            first: size(first),
            further: size(further),
            // The coordinator's own second one is behind its first one.
            shared: size(further + shared),
            has_whole: self.has_whole,
            block: match self.lines {
                Some(LineMeans::Instruction(block)) => Some(block),
                Some(LineMeans::Register) | None => None,
            },
            has_register: self.lines == Some(LineMeans::Register),
        }
    }

    /// Dirty lines that are left after all harts have stopped.
    fn left(&self, stores: &[(usize, u64)], forgets: Option<Step>) -> usize {
        let [first, further, shared] = self.levels;
        let cache = |bytes: u64, seed| (bytes > 0).then(|| Cache::new(bytes, self.is_lru, seed));
        let own = |seed| {
            [cache(first, seed), cache(further, seed + 7)]
                .into_iter()
                .flatten()
        };
        let caches = RefCell::new(Caches {
            own: (0..3).map(|hart| own(hart * 31 + 5).collect()).collect(),
            shared: cache(shared, 99),
            asked: Vec::new(),
        });
        for (hart, line) in stores {
            let line = MEMORY.start / LINE + line;
            let held = caches
                .borrow()
                .own
                .iter()
                .flatten()
                .any(|cache| cache.dirty().contains(&line));
            // A line is dirty in one cache: who else stores to it takes it away, which is not
            // what is tested here.
            if !held {
                caches.borrow_mut().bring(*hart, line, true);
            }
        }
        let plan = self.means().plan(&[MEMORY], LONG_US).unwrap();
        let hart = |place| Hart {
            caches: &caches,
            place,
            forgets,
        };
        plan.own(&hart(1));
        plan.own(&hart(2));
        plan.rest(&hart(0));
        caches.into_inner().dirty()
    }
}

fn shape() -> impl Strategy<Value = Shape> {
    let bytes = |most: u32| (0..=most).prop_map(|log| [0, 512, 1024, 2048][log as usize]);
    let lines = prop_oneof![
        Just(None),
        Just(Some(LineMeans::Instruction(32))),
        Just(Some(LineMeans::Register)),
    ];
    (1u32..4, bytes(3), bytes(3), any::<[bool; 3]>(), lines).prop_map(
        |(first, further, shared, [is_lru, has_whole, knows_sizes], lines)| Shape {
            levels: [512 << (first - 1), further, shared],
            is_lru,
            has_whole,
            lines,
            // Else there is no way at all.
            knows_sizes: knows_sizes || lines.is_none(),
        },
    )
}

proptest! {
    #[test]
    fn nothing_is_left_behind(
        shape in shape(),
        stores in prop::collection::vec((0usize..3, 0u64..16384), 1..200),
    ) {
        prop_assert_eq!(shape.left(&stores, None), 0);
    }
}

/// A machine with nothing but that.
const PLAIN: Shape = Shape {
    levels: [1024, 0, 0],
    is_lru: false,
    has_whole: false,
    lines: None,
    knows_sizes: true,
};

fn stores() -> Vec<(usize, u64)> {
    (0..48)
        .map(|line| (usize::try_from(line % 3).unwrap(), line * 5 + 9000))
        .collect()
}

#[test]
fn what_is_left_out_is_missed() {
    let whole = Shape {
        has_whole: true,
        ..PLAIN
    };
    let walks = Shape {
        lines: Some(LineMeans::Instruction(64)),
        knows_sizes: false,
        ..PLAIN
    };
    for (shape, step) in [
        (&PLAIN, Step::Read),
        (&whole, Step::Whole),
        (&whole, Step::Fence),
        (&walks, Step::Lines),
        (&walks, Step::Fence),
    ] {
        assert_eq!(shape.left(&stores(), None), 0);
        assert!(shape.left(&stores(), Some(step)) > 10, "{shape:?} {step:?}");
    }
    // A cache is larger than what is named for it.
    let larger = Shape {
        levels: [2048, 0, 0],
        ..PLAIN
    };
    let mut means = PLAIN.means();
    means.first = Some(CacheSize {
        bytes: 64,
        is_lru: true,
    });
    assert_ne!(
        means.plan(&[MEMORY], LONG_US),
        larger.means().plan(&[MEMORY], LONG_US)
    );
}

#[test]
fn a_machine_that_tells_too_little_is_refused() {
    let known = PLAIN.means();
    for lacks in [
        CacheMeans {
            first: None,
            ..known
        },
        CacheMeans {
            further: None,
            ..known
        },
        CacheMeans {
            shared: None,
            ..known
        },
        // It empties the first alone.
        CacheMeans {
            shared: None,
            has_whole: true,
            ..known
        },
    ] {
        assert_eq!(lacks.plan(&[MEMORY], LONG_US), Err(CacheError::Unknown));
        // All of it can be named, if there is time.
        let walks = CacheMeans {
            block: Some(64),
            ..lacks
        };
        assert!(walks.plan(&[MEMORY], LONG_US).is_ok());
        assert_eq!(walks.plan(&[MEMORY], 1000), Err(CacheError::Unknown));
    }
    let whole = CacheMeans {
        first: None,
        has_whole: true,
        ..known
    };
    assert!(whole.plan(&[MEMORY], 1000).is_ok());
    let first = Some(CacheSize {
        bytes: 1 << 17,
        is_lru: false,
    });
    let large = CacheMeans { first, ..known };
    let needed = 20 << 17;
    assert_eq!(large.plan(&[MEMORY], 1000), Err(CacheError::NoRoom(needed)));
    let first = Some(CacheSize {
        bytes: 1 << 17,
        is_lru: true,
    });
    assert!(CacheMeans { first, ..known }.plan(&[MEMORY], 1000).is_ok());
}

#[test]
fn the_cheapest_way_is_taken() {
    let sized = |bytes| CacheMeans {
        first: Some(CacheSize {
            bytes,
            is_lru: false,
        }),
        block: Some(64),
        ..PLAIN.means()
    };
    let reads = |means: CacheMeans| {
        let asked = RefCell::new(Vec::new());
        struct Asked<'a>(&'a RefCell<Vec<&'static str>>);
        impl CacheOperations for Asked<'_> {
            fn write_back_whole(&self) {
                self.0.borrow_mut().push("whole");
            }
            fn write_back(&self, _: PhysRange, means: LineMeans) {
                self.0.borrow_mut().push(match means {
                    LineMeans::Instruction(_) => "instruction",
                    LineMeans::Register => "register",
                });
            }
            fn read(&self, bytes: u64) {
                if bytes > 0 {
                    self.0.borrow_mut().push("read");
                }
            }
            fn fence(&self) {}
            fn memory(&self) -> impl Iterator<Item = PhysRange> {
                [MEMORY].into_iter()
            }
        }
        let plan = means.plan(&[MEMORY], LONG_US).unwrap();
        plan.rest(&Asked(&asked));
        asked.borrow_mut().push("few");
        plan.few(&Asked(&asked), PhysRange::new(MEMORY.start, 64));
        asked.into_inner()
    };
    // 16384 lines of memory take longer than a small cache, and not than a large one.
    assert_eq!(reads(sized(1024)), ["read", "few", "instruction"]);
    assert_eq!(reads(sized(40_000)), ["instruction", "few", "instruction"]);
    let whole = CacheMeans {
        has_whole: true,
        block: None,
        ..sized(40_000)
    };
    assert_eq!(reads(whole), ["whole", "few", "whole"]);
    let register = CacheMeans {
        has_register: true,
        block: None,
        ..sized(1024)
    };
    assert_eq!(reads(register), ["read", "few", "register"]);
    let none = CacheMeans {
        block: None,
        ..sized(1024)
    };
    assert_eq!(reads(none), ["read", "few", "read"]);
    for (means, passes) in [(none, 3), (register, 0), (sized(1024), 0)] {
        assert_eq!(means.plan(&[MEMORY], 16_000).unwrap().passes(3), passes);
    }
}
