//! A state of the machine between two actions, what the model knows of it, and
//! when two states are the same.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use poorwill_store::{Configuration, RecordError, SlotRecord, SlotState, SnapshotRules};

use crate::bench::{CONFIGURATION, Image, RECORDS, SLOT_SECTORS, SLOTS};
use crate::count::{Count, Stage, Value};
use crate::sectors::{Content, Contents, Sectors, Tears, ZEROS, every_outcome};

/// The image that may wake at the next power-on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// The sleep that saved it.
    pub(crate) sleep: u64,
    /// It must wake: its sleep has returned, and no power-on has got as far as
    /// to change anything. Otherwise the power was cut, and it may.
    pub(crate) certain: bool,
}

/// The snapshots that may wake.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    /// The sleeps that took them: one, or two where the power was cut as the
    /// second was to take the first one's place.
    pub(crate) may: BTreeSet<u64>,
    /// One of them must wake where nothing goes wrong. Otherwise the power was
    /// cut while the first one was taken, or while it was deleted.
    pub(crate) certain: bool,
}

impl Kept {
    /// The snapshot that `sleep` took is committed: the others are over, unless that they
    /// are given up is what failed, which the console tells.
    pub(crate) fn replace(&mut self, sleep: u64, may_have_failed: bool) {
        if !may_have_failed {
            self.may.clear();
        }
        self.may.insert(sleep);
        self.certain = true;
    }
}

/// A machine that is switched off, or whose OS runs.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) running: bool,
    pub(crate) sectors: Sectors,
    pub(crate) count: Option<Count>,
    /// The highest generation that anything was saved under.
    pub(crate) used: u64,
    pub(crate) images: Vec<Rc<Image>>,
    /// Sleeps begun.
    pub(crate) sleeps: u64,
    pub(crate) candidate: Option<Candidate>,
    pub(crate) kept: Kept,
    /// The sleeps whose images were loaded, if only in part.
    pub(crate) loaded: BTreeSet<u64>,
}

/// What a record's sector says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    New,
    Unusable,
    Committed {
        generation: u64,
        checksum: u64,
    },
    Over {
        generation: u64,
        unreported: bool,
    },
    Snapshot {
        generation: u64,
        checksum: u64,
        proven: bool,
        tries: u32,
        failed: bool,
    },
}

/// Reads records, each content once.
#[derive(Default)]
pub(crate) struct Records(HashMap<Content, Record>);

impl Records {
    pub(crate) fn read(&mut self, contents: &Contents, content: Content) -> Record {
        *self
            .0
            .entry(content)
            .or_insert_with(|| parse(contents, content))
    }
}

fn parse(contents: &Contents, content: Content) -> Record {
    if content == ZEROS {
        return Record::New;
    }
    let record: Result<SlotRecord, RecordError> = SlotRecord::parse(&contents.page(content));
    let Ok(record) = record else {
        return Record::Unusable;
    };
    let generation = record.generation;
    let parts = record.parts();
    let last = parts.last().map(|part| part.header_checksum);
    match record.state {
        SlotState::Committed => Record::Committed {
            generation,
            checksum: last.unwrap_or(record.header_checksum),
        },
        SlotState::Consumed { failure, reported } => {
            let has_failed = failure.is_some() || parts.iter().any(|part| part.failure.is_some());
            Record::Over {
                generation,
                unreported: has_failed && !reported,
            }
        }
        SlotState::Discarded(_) => Record::Over {
            generation,
            unreported: false,
        },
        SlotState::Snapshot(attempts) => Record::Snapshot {
            generation,
            checksum: record.header_checksum,
            proven: attempts.proven,
            // More than any rule allows are as many.
            tries: attempts.tries.min(SnapshotRules::default().tries),
            failed: attempts.failure.is_some(),
        },
    }
}

impl Record {
    /// The checksum of the image that it lets wake.
    pub(crate) fn checksum(self) -> Option<u64> {
        match self {
            Record::Committed { checksum, .. } | Record::Snapshot { checksum, .. } => {
                Some(checksum)
            }
            Record::New | Record::Unusable | Record::Over { .. } => None,
        }
    }

    fn generation(self) -> u64 {
        match self {
            Record::New | Record::Unusable => 0,
            Record::Committed { generation, .. }
            | Record::Over { generation, .. }
            | Record::Snapshot { generation, .. } => generation,
        }
    }
}

/// Two states with the same key have the same future.
///
/// Numbers count only by their order. Of a slot only that is in the key which
/// differs from the image that its record commits; a slot without one may hold
/// whatever it does, as nobody reads it, which the explorer checks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    running: bool,
    candidate: Option<bool>,
    used: usize,
    certain_snapshot: bool,
    /// Whether the next sleep is to be a snapshot: what a power cut may leave,
    /// and at last what a read sees.
    asks: Vec<bool>,
    count: Option<(ValueKey, ValueKey, bool)>,
    records: [Vec<RecordKey>; 2],
}

type ValueKey = (usize, Stage, usize);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum RecordKey {
    New,
    Unusable,
    Committed {
        generation: usize,
        is_candidate: bool,
        /// The sectors of the slot that are not, or may not be, the image's:
        /// for each version whether it is.
        wrong: Vec<(u32, Vec<bool>)>,
    },
    Over {
        generation: usize,
        unreported: bool,
    },
    Snapshot {
        generation: usize,
        may_wake: bool,
        fared: (bool, u32, bool),
        wrong: Vec<(u32, Vec<bool>)>,
    },
}

/// Whether a configuration says that the next sleep is to be a snapshot.
pub(crate) fn asks(contents: &Contents, content: Content) -> bool {
    Configuration::parse(&contents.page(content))
        .is_ok_and(|configuration| configuration.next_snapshot.is_some())
}

impl State {
    /// Whether a slot has a record that may commit an image.
    pub(crate) fn commits(
        sectors: &Sectors,
        slot: usize,
        contents: &Contents,
        records: &mut Records,
    ) -> bool {
        sectors
            .versions(RECORDS[slot])
            .into_iter()
            .any(|content| records.read(contents, content).checksum().is_some())
    }

    pub(crate) fn key(&self, contents: &Contents, records: &mut Records) -> Key {
        let versions = RECORDS.map(|sector| {
            let versions = self.sectors.versions(sector);
            let read = versions
                .into_iter()
                .map(|content| records.read(contents, content));
            read.collect::<Vec<_>>()
        });
        let mut numbers: Vec<u64> = versions
            .iter()
            .flatten()
            .map(|record| record.generation())
            .chain([0])
            .collect();
        if let Some(count) = self.count {
            numbers.extend([count.kept.generation, count.known.generation, self.used]);
            numbers.extend(count.kept.snapshot.into_iter().chain(count.known.snapshot));
        }
        numbers.sort_unstable();
        numbers.dedup();
        let rank = |number: u64| numbers.partition_point(|other| *other < number);
        let records = [0, 1].map(|slot: usize| {
            let keys = versions[slot].iter();
            keys.map(|record| self.record_key(slot, *record, &rank))
                .collect()
        });
        Key {
            running: self.running,
            candidate: self.candidate.map(|candidate| candidate.certain),
            certain_snapshot: self.kept.certain,
            asks: {
                let versions = self.sectors.versions(CONFIGURATION).into_iter();
                let now = self.sectors.now(CONFIGURATION);
                let versions = versions.chain([now]);
                versions.map(|content| asks(contents, content)).collect()
            },
            used: self.count.map_or(0, |_| rank(self.used)),
            count: self.count.map(
                |Count {
                     kept,
                     known,
                     in_doubt,
                 }| {
                    let value = |value: Value| {
                        let snapshot = rank(value.snapshot.unwrap_or(0));
                        (rank(value.generation), value.stage, snapshot)
                    };
                    (value(kept), value(known), in_doubt)
                },
            ),
            records,
        }
    }

    fn record_key(&self, slot: usize, record: Record, rank: &dyn Fn(u64) -> usize) -> RecordKey {
        match record {
            Record::New => RecordKey::New,
            Record::Unusable => RecordKey::Unusable,
            Record::Over {
                generation,
                unreported,
            } => RecordKey::Over {
                generation: rank(generation),
                unreported,
            },
            Record::Snapshot {
                generation,
                checksum,
                proven,
                tries,
                failed,
            } => {
                let image = self.image(slot, checksum);
                RecordKey::Snapshot {
                    generation: rank(generation),
                    may_wake: image.is_some_and(|image| self.kept.may.contains(&image.sleep)),
                    fared: (proven, tries, failed),
                    wrong: image.map_or_else(Vec::new, |image| self.wrong(slot, image)),
                }
            }
            Record::Committed {
                generation,
                checksum,
            } => {
                let image = self.image(slot, checksum);
                let candidate = self.candidate.map(|candidate| candidate.sleep);
                RecordKey::Committed {
                    generation: rank(generation),
                    is_candidate: image.is_some_and(|image| Some(image.sleep) == candidate),
                    wrong: image.map_or_else(Vec::new, |image| self.wrong(slot, image)),
                }
            }
        }
    }

    /// What the records may say.
    pub(crate) fn records<'s>(
        &'s self,
        contents: &'s Contents,
        records: &'s mut Records,
    ) -> impl Iterator<Item = Record> + 's {
        let versions = RECORDS
            .into_iter()
            .flat_map(|sector| self.sectors.versions(sector));
        versions.map(|content| records.read(contents, content))
    }

    /// The image of a slot that a record names.
    pub(crate) fn image(&self, slot: usize, checksum: u64) -> Option<&Image> {
        let mut images = self.images.iter().map(|image| &**image);
        images.rfind(|image| image.slot == slot && image.checksum == checksum)
    }

    fn wrong(&self, slot: usize, image: &Image) -> Vec<(u32, Vec<bool>)> {
        let range = SLOTS[slot]..SLOTS[slot] + SLOT_SECTORS;
        let sectors: BTreeSet<u32> = (self.sectors.durable.range(range.clone()))
            .map(|(sector, _)| *sector)
            .chain(self.sectors.pending.range(range).map(|(sector, _)| *sector))
            .chain(image.sectors.keys().copied())
            .collect();
        let right = |sector: &u32| image.sectors.get(sector).copied().unwrap_or(ZEROS);
        sectors
            .into_iter()
            .map(|sector| {
                let versions = self.sectors.versions(sector).into_iter();
                let fits = versions.map(|content| content == right(&sector)).collect();
                (sector - SLOTS[slot], fits)
            })
            .filter(|(_, fits): &(u32, Vec<bool>)| fits != &[true])
            .collect()
    }

    /// Forgets images that no record names any more.
    pub(crate) fn forget_images(&mut self, contents: &Contents, records: &mut Records) {
        let named = [0, 1].map(|slot: usize| {
            let versions = self.sectors.versions(RECORDS[slot]).into_iter();
            versions
                .map(|content| records.read(contents, content))
                .collect::<Vec<_>>()
        });
        self.images.retain(|image| {
            named[image.slot]
                .iter()
                .any(|record| record.checksum() == Some(image.checksum))
        });
    }
}

/// Calls `leaf` with what a power cut can leave of `sectors`.
///
/// Every way for the records and for slots that a record commits; of the other
/// slots one torn medium stands for all, as [`Key`] does not tell them apart.
pub(crate) fn after_cut(
    sectors: &Sectors,
    contents: &Contents,
    records: &mut Records,
    tears: Tears,
    leaf: &mut dyn FnMut(Sectors),
) {
    let pending: Vec<u32> = sectors.pending.keys().copied().collect();
    let (head, rest) = pending.split_at(pending.partition_point(|sector| *sector < SLOTS[0]));
    every_outcome(sectors, head, Tears::EverySector, &mut |mut sectors| {
        let committed = [0, 1].map(|slot| State::commits(&sectors, slot, contents, records));
        let (read, unread): (Vec<u32>, Vec<u32>) = rest
            .iter()
            .partition(|sector| committed[usize::from(**sector >= SLOTS[1])]);
        for (number, sector) in unread.into_iter().enumerate() {
            let kept = if number.is_multiple_of(2) {
                sectors.now(sector)
            } else {
                sectors.lasting(sector)
            };
            sectors.settle(sector, kept);
        }
        every_outcome(&sectors, &read, tears, leaf);
    });
}
