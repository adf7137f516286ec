//! LightPC's memory holds what was written: no read returns old data, no write is lost.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use poorwill_oc_pmem::{Copy, LightPc, Map, Memory, Name, Parameters, Served, Time, Watch};
use proptest::prelude::*;

/// A copy that devices hold: the version of its contents, and when they were whole.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    version: u64,
    since: Time,
}

/// The contents of all slots, as versions: numbers of writes. An unwritten line has version 0.
#[derive(Debug, Default)]
struct Contents {
    /// The last version that row buffers accepted.
    accepted: BTreeMap<(bool, u64), u64>,
    devices: BTreeMap<(bool, u64), Held>,
    /// The version that the test writes.
    written: u64,
    /// The version that the test's read must return.
    expected: Option<u64>,
    /// The version that Start-Gap carries to another slot.
    moving: Option<u64>,
    writes: u64,
    programs: u64,
    moves: u64,
    /// Reads that returned another version, or devices that are dead.
    old: Vec<String>,
    /// The places of slots, and the dead device if one is.
    faults: Option<(Map, u64)>,
    /// Half of a read is there, and waits for this version's parity.
    half: Option<u64>,
    halves: u64,
}

impl Contents {
    fn newest(&self, copy: Copy, slot: u64) -> u64 {
        self.accepted
            .get(&key(copy, slot))
            .copied()
            .unwrap_or_default()
    }

    fn device(&self, copy: Copy, slot: u64) -> Held {
        self.devices
            .get(&key(copy, slot))
            .copied()
            .unwrap_or_default()
    }
}

impl Contents {
    /// Whether the devices of the copy that served a read have a dead one.
    fn is_on_dead(&self, slot: u64, parity: bool) -> bool {
        self.faults.as_ref().is_some_and(|(map, dead)| {
            let slot = match parity {
                true => next_dimm(map, slot),
                false => slot,
            };
            dead / 2 == map.of_slot(slot).group as u64
        })
    }
}

/// The slot of the same group and line in the next DIMM, where parity lies. Neighbouring slots are on
/// different DIMMs.
fn next_dimm(map: &Map, slot: u64) -> u64 {
    let dimms = map.dimms() as u64;
    slot - slot % dimms + (slot + 1) % dimms
}

fn key(copy: Copy, slot: u64) -> (bool, u64) {
    (copy == Copy::Parity, slot)
}

impl Watch for Contents {
    fn accepted(&mut self, copy: Copy, slot: u64) {
        // Data comes first, and gives its parity the same version.
        let version = match copy {
            Copy::Data => self.moving.take().unwrap_or(self.written),
            Copy::Parity => self.newest(Copy::Data, slot),
        };
        self.writes += u64::from(copy == Copy::Data);
        self.accepted.insert(key(copy, slot), version);
    }

    fn programmed(&mut self, copy: Copy, slot: u64, since: Time) {
        let version = self.newest(copy, slot);
        self.devices
            .insert(key(copy, slot), Held { version, since });
        self.programs += 1;
    }

    fn read(&mut self, slot: u64, served: Served, start: Time) {
        let is_parity = matches!(served, Served::Rebuilt | Served::RowBuffer(Copy::Parity));
        let is_right = match served {
            Served::Devices => !self.is_on_dead(slot, false),
            Served::Half => self.is_on_dead(slot, false),
            Served::Rebuilt => !self.is_on_dead(slot, true),
            Served::RowBuffer(_) => true,
        };
        let half = self.half.take();
        if !is_right || half.is_some() && !is_parity {
            self.old
                .push(format!("slot {slot} by {served:?}, half {half:?}"));
        }
        self.expected = self.expected.take().or(half);
        let is_move = self.expected.is_none();
        let expected = self.expected.take();
        let expected = expected.unwrap_or_else(|| self.newest(Copy::Data, slot));
        let held = match served {
            Served::Devices => self.device(Copy::Data, slot),
            Served::Half => {
                self.half = Some(expected);
                self.halves += 1;
                self.device(Copy::Data, slot)
            }
            Served::Rebuilt => self.device(Copy::Parity, slot),
            Served::RowBuffer(copy) => Held {
                version: self.newest(copy, slot),
                since: Time::ZERO,
            },
        };
        if held.version != expected || held.since > start {
            self.old.push(format!(
                "slot {slot} by {served:?} at {start:?}, move: {is_move}: {held:?} for {expected}"
            ));
        }
    }

    fn moved(&mut self, from: u64, _to: u64) {
        self.moving = Some(self.newest(Copy::Data, from));
        self.moves += 1;
    }
}

/// Lines of the tests' memory.
const LINES: u32 = 16_384;

/// An access: its pause after the last one in nanoseconds, its line, its kind.
type Access = (u64, u32, u8);

fn accesses() -> impl Strategy<Value = Vec<Access>> {
    // Few lines, so that writes and reads meet.
    let one = (0..200_u64, 0..12_u32, 0..60_u8);
    proptest::collection::vec(one, 1..600)
}

fn parameters() -> impl Strategy<Value = Parameters> {
    let dimms = prop_oneof![Just(1), Just(2), Just(2), Just(3), Just(6)];
    (
        dimms,
        1..5_u32,
        0..4_u32,
        1..6_u32,
        0..6_u32,
        0..2_usize,
        any::<[bool; 3]>(),
    )
        .prop_map(
            |(dimms, groups, page, queue, gap, parity, [random, early, rebuild])| {
                let switch = |is_on| if is_on { "on" } else { "off" };
                let mut parameters = Parameters::default();
                for text in [
                    format!("dimms={dimms}"),
                    format!("groups={groups}"),
                    format!("page={}", 32 << page),
                    format!("queue={queue}"),
                    format!("gap={gap}"),
                    // With free parity or halves a copy of parity has no place that could be watched.
                    ["parity=striped", "rebuild=off"][parity].to_owned(),
                    format!("randomise={}", switch(random)),
                    format!("early-return={}", switch(early)),
                    format!("rebuild={}", switch(rebuild)),
                    "memory=1".to_owned(),
                ] {
                    parameters.set(&text).expect("a value");
                }
                parameters
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_read_is_old_and_no_write_is_lost(
        mut parameters in parameters(),
        accesses in accesses(),
        dead in proptest::option::of(0..48_u64),
    ) {
        // A lone DIMM has no parity, so a dead device loses its lines.
        let [dimms, groups] = [Name::Dimms, Name::Groups].map(|name| parameters.get(name));
        let dead = dead.filter(|_| dimms > 1).map(|device| device % (2 * dimms * groups));
        let mut contents = Contents::default();
        if let Some(device) = dead {
            parameters.set(&format!("dead={device}")).expect("a device");
            contents.faults = Some((Map::of_pram(&parameters), device));
        }
        let mut memory = LightPc::watched(&parameters, contents);
        let (mut now, mut reads, mut writes) = (Time::ZERO, 0, 0);
        let mut versions = [0; 12];
        for (pause, number, kind) in accesses {
            // The last lines of memory are the first that Start-Gap moves.
            let line = LINES - 1 - number;
            now += Time(pause * 1000);
            match kind {
                0 => {
                    now = memory.flush(now);
                    prop_assert_eq!(memory.waiting(), 0);
                }
                1..30 => {
                    writes += 1;
                    versions[number as usize] = writes;
                    memory.watch().written = writes;
                    let free = memory.write(now, line);
                    prop_assert!(free >= now);
                    now = free;
                }
                _ => {
                    reads += 1;
                    memory.watch().expected = Some(versions[number as usize]);
                    prop_assert!(memory.read(now, line) > now, "a read takes time");
                }
            }
        }
        let end = memory.flush(now);
        prop_assert!(end >= now);
        prop_assert_eq!(memory.waiting(), 0, "a flush leaves no write");
        let counts = memory.counts();
        prop_assert_eq!((counts.reads, counts.writes, counts.contained), (reads, writes, 0));
        let contents = memory.watch();
        prop_assert!(contents.old.is_empty(), "{:#?}", contents.old);
        for (key, version) in &contents.accepted {
            let device = contents.devices.get(key).copied().unwrap_or_default();
            prop_assert_eq!(device.version, *version, "{:?}", key);
            prop_assert!(device.since <= end, "{:?}", key);
        }
        prop_assert_eq!(contents.half, None, "each half has its parity");
        // Start-Gap reads such lines, too.
        prop_assert!((counts.regenerated..=counts.regenerated + counts.moves).contains(&contents.halves));
        prop_assert_eq!(contents.moves, counts.moves);
        prop_assert_eq!(contents.writes, counts.writes + counts.moves);
        // Each accepted write is programmed, alone or with others of its page.
        prop_assert!(contents.programs <= contents.writes * 2);
    }

    /// Lines keep their own slots while Start-Gap moves them.
    #[test]
    fn no_two_lines_share_a_slot(parameters in parameters(), writes in 0..500_u32) {
        let mut memory = LightPc::new(&parameters);
        let mut now = Time::ZERO;
        for write in 0..writes {
            now = memory.write(now, LINES - 1 - write % 7);
        }
        let slots: std::collections::BTreeSet<_> = (0..LINES).map(|line| memory.slot(line)).collect();
        prop_assert_eq!(slots.len(), LINES as usize);
    }
}
