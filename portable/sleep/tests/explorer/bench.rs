//! The bench that a run of the protocol is watched on: a device and a count of
//! sleeps that note, at every command, what a power cut would leave.

use std::cell::{RefCell, RefMut};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use poorwill_medium::fake::FakeMedium;
use poorwill_medium::{Direction, Medium, MediumError};
use poorwill_memory::{OsPage, PAGE_BYTES, Page};
use poorwill_vault::{FlashFault, VaultError};
use zerocopy::IntoBytes;

use crate::count::Count;
use crate::sectors::{Content, Contents, PAGE_SECTORS, SECTOR_BYTES, Sectors};
use crate::{Config, Flaw};

/// Bytes of the area: a MiB, and two slots in which two parts of a set have room.
pub(crate) const AREA_BYTES: u64 = 7 << 20;

/// Sectors of a slot.
pub(crate) const SLOT_SECTORS: u32 = 3 << 11;

/// First sectors of the two slots.
pub(crate) const SLOTS: [u32; 2] = [1 << 11, (1 << 11) + SLOT_SECTORS];

/// First sector of the configuration.
pub(crate) const CONFIGURATION: u32 = 0;

/// First sectors of their records.
pub(crate) const RECORDS: [u32; 2] = [PAGE_SECTORS, 2 * PAGE_SECTORS];

/// Begins the header of an image.
const HEADER: &[u8] = b"POORWILL";

/// Pages of one transfer at most: few, so that a sleep has several.
const MAX_PAGES: usize = 1;

/// Which of the two devices a fault is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Device {
    /// The medium.
    Disk,
    /// The machine's count in flash.
    Count,
}

/// How a command goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It fails, and has done nothing.
    Undone,
    /// It fails, and has done all.
    Done,
    /// A read succeeds and has one bit wrong.
    Damaged,
}

/// A fault: the `nth` command of a device goes wrong, and if it is `lasting` all
/// behind it do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) device: Device,
    pub(crate) nth: usize,
    pub(crate) effect: Effect,
    pub(crate) lasting: bool,
}

/// What a command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    Flush,
    /// A step of the count.
    Step,
}

/// An image as it was written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Image {
    /// The sleep that wrote it.
    pub(crate) sleep: u64,
    pub(crate) slot: usize,
    /// The checksum of its header, by which a record names it: of a set, that of its last part.
    pub(crate) checksum: u64,
    /// All sectors of its slot.
    pub(crate) sectors: BTreeMap<u32, Content>,
}

/// What a power cut would find.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) sectors: Sectors,
    pub(crate) count: Option<Count>,
    /// The highest generation that anything was saved under.
    pub(crate) used: u64,
    pub(crate) images: Vec<Rc<Image>>,
    /// The sleep has taken down the machine's state.
    pub(crate) captured: bool,
    /// Something was written, or about to be.
    pub(crate) changed: bool,
    /// The slot from which the device was told to change OS memory.
    pub(crate) loading: Option<usize>,
}

struct Transfer {
    tag: u32,
    effect: Option<Effect>,
    error: MediumError,
    written: Vec<(u32, Content)>,
}

/// See the [module](self).
pub(crate) struct Bench {
    pub(crate) config: Config,
    pub(crate) contents: Contents,
    pub(crate) sectors: Sectors,
    pub(crate) count: Option<Count>,
    pub(crate) used: u64,
    pub(crate) images: Vec<Rc<Image>>,
    /// The sleep that is going on, if one is.
    pub(crate) sleep: Option<u64>,
    pub(crate) captured: bool,
    pub(crate) changed: bool,
    pub(crate) loading: Option<usize>,
    /// The area's records are being changed because the OS deletes its snapshot.
    pub(crate) deleting: bool,
    /// The generation that the count gave last, on a machine with one.
    pub(crate) reserved: u64,
    /// A sleep got a generation that an earlier one had used.
    pub(crate) reused: Option<u64>,
    /// The slots that were read from.
    pub(crate) read_slots: [bool; 2],
    pub(crate) fault: Option<Fault>,
    /// The commands so far.
    pub(crate) kinds: [Vec<Kind>; 2],
    pub(crate) snapshots: Vec<Snapshot>,
    /// Nothing a power cut could tell has changed since the last snapshot.
    is_noted: bool,
    transfers: VecDeque<Transfer>,
    /// Moves pages of OS memory for the device.
    mover: FakeMedium,
    last_written: u32,
}

/// The bench, shared by the device and the count on it.
#[derive(Clone)]
pub(crate) struct Shared(Rc<RefCell<Bench>>);

impl Shared {
    pub(crate) fn new(config: Config) -> Self {
        Shared(Rc::new(RefCell::new(Bench {
            config,
            contents: Contents::new(),
            sectors: Sectors::default(),
            count: None,
            used: 0,
            images: Vec::new(),
            sleep: None,
            captured: false,
            changed: false,
            loading: None,
            deleting: false,
            reserved: 0,
            reused: None,
            read_slots: [false; 2],
            fault: None,
            kinds: [Vec::new(), Vec::new()],
            snapshots: Vec::new(),
            is_noted: false,
            transfers: VecDeque::new(),
            mover: FakeMedium::new(MAX_PAGES as u64 * PAGE_BYTES).with_limits(MAX_PAGES, 1),
            last_written: 0,
        })))
    }

    pub(crate) fn get(&self) -> RefMut<'_, Bench> {
        self.0.borrow_mut()
    }
}

impl Bench {
    /// Prepares for a run.
    pub(crate) fn reset(&mut self, fault: Option<Fault>) {
        self.sleep = None;
        self.captured = false;
        self.changed = false;
        self.loading = None;
        self.deleting = false;
        self.reused = None;
        self.read_slots = [false; 2];
        self.fault = fault;
        self.kinds.iter_mut().for_each(Vec::clear);
        self.snapshots.clear();
        self.is_noted = false;
        self.transfers.clear();
    }

    /// Notes what a power cut would find now. Before the fault everything is as
    /// in the run without it.
    pub(crate) fn note(&mut self) {
        let early = self
            .fault
            .is_some_and(|fault| self.kinds[fault.device as usize].len() <= fault.nth);
        if self.is_noted || early {
            return;
        }
        self.is_noted = true;
        self.snapshots.push(Snapshot {
            sectors: self.sectors.clone(),
            count: self.count,
            used: self.used,
            images: self.images.clone(),
            captured: self.captured,
            changed: self.changed,
            loading: self.loading,
        });
    }

    /// The machine's state is taken down, for an image of the generation that was
    /// reserved last.
    pub(crate) fn capture(&mut self) {
        let generation = self.reserved;
        // Before: a cut leaves no trace of the number.
        self.note();
        if self.config.sealed && generation <= self.used {
            self.reused = Some(generation);
        }
        self.used = self.used.max(generation);
        self.captured = true;
        self.is_noted = false;
    }

    /// A command begins; how it goes wrong, if it does.
    pub(crate) fn enter(&mut self, device: Device, kind: Kind) -> Option<Effect> {
        self.note();
        let number = self.kinds[device as usize].len();
        self.kinds[device as usize].push(kind);
        let fault = self.fault.filter(|fault| fault.device == device)?;
        let hit = number == fault.nth || fault.lasting && number > fault.nth;
        (hit && (kind == Kind::Read || fault.effect != Effect::Damaged)).then_some(fault.effect)
    }

    /// A write of sectors has begun.
    fn begin(&mut self, written: &[(u32, Content)]) {
        for (sector, content) in written {
            self.sectors.begin(*sector, *content);
            let slot =
                slot_of(*sector).filter(|_| self.contents.bytes(*content).starts_with(HEADER));
            if let Some(slot) = slot {
                self.note_image(slot, *content);
            }
            self.last_written = *sector;
        }
        self.change();
    }

    /// Something may be lasting that was not before.
    pub(crate) fn change(&mut self) {
        self.changed = true;
        self.is_noted = false;
        self.note();
    }

    /// The device has done a write.
    fn complete(&mut self, written: &[(u32, Content)]) {
        if !self.config.write_cache {
            for (sector, content) in written {
                self.sectors.settle(*sector, *content);
            }
            self.is_noted = false;
        }
    }

    /// The header of an image is written last, so all of it is there: of a set, with the header of
    /// its last part.
    fn note_image(&mut self, slot: usize, header: Content) {
        let Some(sleep) = self.sleep else {
            return;
        };
        let first = SLOTS[slot];
        let range = first..first + SLOT_SECTORS;
        let listed = self.sectors.durable.range(range.clone());
        let pending = self.sectors.pending.range(range);
        let sectors = listed
            .map(|(sector, _)| *sector)
            .chain(pending.map(|(sector, _)| *sector))
            .map(|sector| (sector, self.sectors.now(sector)))
            .collect();
        let checksum = self.contents.word(header, 16);
        self.images.retain(|image| image.sleep != sleep);
        self.images.push(Rc::new(Image {
            sleep,
            slot,
            checksum,
            sectors,
        }));
    }

    /// Whether this flush is acknowledged and not done.
    fn lies(&self) -> bool {
        let record = self.last_written < SLOTS[0];
        match self.config.flaw {
            Flaw::ImageFlushLost => !record,
            Flaw::SleepFlushesLost => self.captured,
            Flaw::CommitFlushLost => record && self.captured,
            Flaw::DeletionFlushLost => self.deleting,
            Flaw::ConsumeFlushLost => record && self.sleep.is_none(),
            _ => false,
        }
    }

    fn flush(&mut self) {
        if self.lies() {
            return;
        }
        let under_way: Vec<_> = self.transfers.iter().map(|t| t.written.clone()).collect();
        self.sectors.settle_all();
        self.is_noted = false;
        for (sector, content) in under_way.iter().flatten() {
            self.sectors.begin(*sector, *content);
        }
    }

    /// Pages as sectors to be written.
    fn cut_up(&mut self, offset: u64, pages: &[Page]) -> Vec<(u32, Content)> {
        let sectors = pages.as_bytes().chunks(SECTOR_BYTES);
        let first = first_sector(offset);
        sectors
            .zip(first..)
            .map(|(bytes, sector)| (sector, self.contents.number(bytes)))
            .collect()
    }

    fn fill(&mut self, offset: u64, into: &mut [Page]) {
        let first = first_sector(offset);
        if let Some(slot) = slot_of(first) {
            self.read_slots[slot] = true;
        }
        let sectors = into.as_mut_bytes().chunks_mut(SECTOR_BYTES);
        for (bytes, sector) in sectors.zip(first..) {
            bytes.copy_from_slice(self.contents.bytes(self.sectors.now(sector)));
        }
    }
}

/// The slot that a sector is in.
fn slot_of(sector: u32) -> Option<usize> {
    SLOTS
        .iter()
        .position(|start| (*start..start + SLOT_SECTORS).contains(&sector))
}

fn first_sector(offset: u64) -> u32 {
    u32::try_from(offset / SECTOR_BYTES as u64).expect("within the area")
}

fn device_error(direction: Direction, offset: u64) -> MediumError {
    MediumError::Device {
        direction,
        offset,
        status: 1,
    }
}

/// The flash's error where a step of the count fails.
pub(crate) fn flash_error() -> VaultError {
    VaultError::Flash(FlashFault::Device)
}

/// The device on the bench.
pub(crate) struct Disk(pub(crate) Shared);

impl Medium for Disk {
    fn capacity(&self) -> u64 {
        AREA_BYTES
    }

    fn max_pages(&self) -> usize {
        MAX_PAGES
    }

    fn depth(&self) -> usize {
        2
    }

    fn read(&mut self, offset: u64, into: &mut [Page]) -> Result<(), MediumError> {
        let mut bench = self.0.get();
        let effect = bench.enter(Device::Disk, Kind::Read);
        if effect == Some(Effect::Undone) {
            return Err(device_error(Direction::Read, offset));
        }
        bench.fill(offset, into);
        match effect {
            Some(Effect::Done) => Err(device_error(Direction::Read, offset)),
            Some(Effect::Damaged) => {
                into[0].0[4] ^= 1 << 17;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn write(&mut self, offset: u64, from: &[Page]) -> Result<(), MediumError> {
        let mut bench = self.0.get();
        let effect = bench.enter(Device::Disk, Kind::Write);
        if effect == Some(Effect::Undone) {
            return Err(device_error(Direction::Write, offset));
        }
        let written = bench.cut_up(offset, from);
        bench.begin(&written);
        bench.complete(&written);
        effect.map_or(Ok(()), |_| Err(device_error(Direction::Write, offset)))
    }

    fn flush(&mut self) -> Result<(), MediumError> {
        let mut bench = self.0.get();
        let effect = bench.enter(Device::Disk, Kind::Flush);
        if effect != Some(Effect::Undone) {
            bench.flush();
        }
        effect.map_or(Ok(()), |_| Err(MediumError::Flush(1)))
    }

    fn start(
        &mut self,
        direction: Direction,
        offset: u64,
        pages: &[OsPage],
        tag: u32,
    ) -> Result<(), MediumError> {
        let mut bench = self.0.get();
        let bench = &mut *bench;
        let kind = match direction {
            Direction::Read => Kind::Read,
            Direction::Write => Kind::Write,
        };
        let effect = bench.enter(Device::Disk, kind);
        let mut transfer = Transfer {
            tag,
            effect,
            error: device_error(direction, offset),
            written: Vec::new(),
        };
        if effect != Some(Effect::Undone) {
            let mut staged = vec![Page::ZERO; pages.len()];
            match direction {
                Direction::Write => {
                    move_pages(&mut bench.mover, direction, pages, &mut staged);
                    transfer.written = bench.cut_up(offset, &staged);
                    bench.begin(&transfer.written);
                }
                // The device may change memory from the start on.
                Direction::Read => {
                    bench.fill(offset, &mut staged);
                    if effect == Some(Effect::Damaged) {
                        staged[0].0[4] ^= 1 << 17;
                    }
                    move_pages(&mut bench.mover, direction, pages, &mut staged);
                    bench.loading = slot_of(first_sector(offset));
                    bench.is_noted = false;
                    bench.note();
                }
            }
        }
        bench.transfers.push_back(transfer);
        Ok(())
    }

    fn poll(&mut self) -> Result<Option<u32>, MediumError> {
        let mut bench = self.0.get();
        let Some(transfer) = bench.transfers.pop_front() else {
            return Ok(None);
        };
        bench.complete(&transfer.written);
        match transfer.effect {
            Some(Effect::Undone | Effect::Done) => Err(transfer.error),
            _ => Ok(Some(transfer.tag)),
        }
    }

    /// What is under way may get to the device, or not.
    fn quiesce(&mut self) {
        self.0.get().transfers.clear();
    }
}

/// Moves OS memory to `staged`, or back.
fn move_pages(mover: &mut FakeMedium, direction: Direction, os: &[OsPage], staged: &mut [Page]) {
    mover.restart();
    let moved = match direction {
        Direction::Write => wait(mover, direction, os).and_then(|()| mover.read(0, staged)),
        Direction::Read => mover.write(0, staged).and_then(|()| {
            // Durable, so that the next restart has nothing to take back.
            mover.flush()?;
            wait(mover, direction, os)
        }),
    };
    moved.expect("a medium without faults");
}

fn wait(mover: &mut FakeMedium, direction: Direction, os: &[OsPage]) -> Result<(), MediumError> {
    mover.start(direction, 0, os, 0)?;
    while mover.poll()?.is_none() {}
    Ok(())
}
