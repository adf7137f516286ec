use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use poorwill_image::Digest;
use poorwill_memory::{PAGE_BYTES, Page};
use poorwill_sleep::cut::{self, CutMemory, LINE_BYTES, Layout, Line, Newest, Place, Proof};
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use thiserror::Error;
use zerocopy::{FromBytes, IntoBytes};

use super::report::RecordReport;
use crate::ram::{RamError, open_to_change, open_to_look};

const PAGE: usize = size_of::<Page>();

/// Harts of QEMU's largest `virt` machine.
const MOST_HARTS: usize = 512;

/// Bytes of a read from the file: whole pages.
const CHUNK: usize = 256 * PAGE;

/// Why a memory file could not be read or changed.
#[derive(Debug, Error)]
pub enum CutFileError {
    #[error(transparent)]
    Ram(#[from] RamError),
    #[error("cannot read memory file {file}: {reason}", file = .file.display())]
    Read { file: PathBuf, reason: io::Error },
    #[error("cannot write memory file {file}: {reason}; the cut may still be there", file = .file.display())]
    Write { file: PathBuf, reason: io::Error },
}

/// A record of a cut in a memory file.
struct FileRecord<'a> {
    file: &'a File,
    /// Offset in the file, in bytes.
    start: u64,
    /// The record's bytes, as far as they were read.
    bytes: &'a [u8],
    layout: Layout,
    /// The first error of a write to the file.
    failed: RefCell<Option<io::Error>>,
}

impl<'a> FileRecord<'a> {
    /// The record at offset `start`, of which `bytes` were read.
    fn new(file: &'a File, start: u64, bytes: &'a [u8], harts: usize) -> Self {
        FileRecord {
            file,
            start,
            bytes,
            layout: Layout::new(harts, Layout::TREE_PAGES),
            failed: RefCell::new(None),
        }
    }

    fn line_in(&self, place: Place) -> Option<Line> {
        let start = self.layout.line_offset(place);
        let bytes = self.bytes.get(start..start + LINE_BYTES)?;
        Line::read_from_bytes(bytes).ok()
    }

    /// Number of the machine's harts: the parts of cut `sequence`, without those for the whole
    /// machine.
    fn harts(&self, sequence: u64) -> usize {
        let parts = (0..self.layout.parts()).map(Place::Part);
        let of_cut = |place: &Place| {
            let entry = self.line_in(*place).and_then(|line| line.read_part());
            entry.is_some_and(|(of, _)| of == sequence)
        };
        let parts = parts.take_while(of_cut).count();
        parts.saturating_sub(Layout::hart(0))
    }
}

impl CutMemory for FileRecord<'_> {
    fn layout(&self) -> Layout {
        self.layout
    }

    /// A line of the record. Bytes past those that were read are zeros.
    fn line(&self, place: Place) -> Line {
        self.line_in(place).unwrap_or(Line::EMPTY)
    }

    fn store(&self, place: Place, line: &Line) {
        let at = self.start + self.layout.line_offset(place) as u64;
        self.note(self.file.write_all_at(line.as_bytes(), at));
    }

    fn write_back(&self, _place: Place) {
        self.note(self.file.sync_data());
    }

    fn digest(&self, part: usize, bytes: u64, proof: &Proof) -> Option<Digest> {
        let pages = self.layout.part_pages(part);
        let read = self.bytes.get(pages.start * PAGE..pages.end * PAGE)?;
        // The bytes are copied to whole pages: the digest needs their alignment.
        let mut pages = vec![Page::ZERO; pages.len()];
        pages.as_mut_bytes().copy_from_slice(read);
        proof.of_part(part, &pages, bytes)
    }
}

impl FileRecord<'_> {
    fn note(&self, result: io::Result<()>) {
        if let Err(error) = result {
            self.failed.borrow_mut().get_or_insert(error);
        }
    }
}

/// Reads the records of cuts in the memory file of a machine that is off. More than one means that
/// another machine used the file before.
///
/// # Errors
///
/// [`CutFileError`].
pub fn look(ram: &Path) -> Result<Vec<RecordReport>, CutFileError> {
    let file = open_to_look(ram)?;
    records(ram, &file)
}

/// Discards the cuts in the memory file of a machine that is off, and returns them. Its next
/// power-on is a cold boot. Consumed cuts stay as they are.
///
/// # Errors
///
/// [`CutFileError`].
pub fn discard(ram: &Path) -> Result<Vec<RecordReport>, CutFileError> {
    let file = open_to_change(ram)?;
    let mut records = records(ram, &file)?;
    records.retain(|record| !record.is_over());
    for report in &records {
        let start = report.offset;
        let bytes = read(&file, start, PAGE).map_err(|reason| CutFileError::Read {
            file: ram.to_owned(),
            reason,
        })?;
        let record = FileRecord::new(&file, start, &bytes, 0);
        cut::discard(&record);
        if let Some(reason) = record.failed.into_inner() {
            return Err(CutFileError::Write {
                file: ram.to_owned(),
                reason,
            });
        }
    }
    Ok(records)
}

fn records(ram: &Path, file: &File) -> Result<Vec<RecordReport>, CutFileError> {
    let reports = find(file).and_then(|starts| {
        let reports = starts.into_iter().map(|start| report(file, start));
        reports.collect::<io::Result<Vec<_>>>()
    });
    let reports = reports.map_err(|reason| CutFileError::Read {
        file: ram.to_owned(),
        reason,
    })?;
    Ok(reports.into_iter().flatten().collect())
}

/// Finds the offsets of records, which begin at page boundaries.
fn find(file: &File) -> io::Result<Vec<u64>> {
    let mut found = Vec::new();
    let mut next = 0;
    while let Some(start) = next_data(file, next)? {
        let start = start / PAGE_BYTES * PAGE_BYTES;
        let chunk = read(file, start, CHUNK)?;
        let pages = (0_u64..).zip(chunk.chunks(PAGE));
        found.extend(pages.filter_map(|(number, page)| {
            let start = start + number * PAGE_BYTES;
            let record = FileRecord::new(file, start, page, 0);
            Newest::in_record(&record).map(|_| start)
        }));
        next = start + CHUNK as u64;
    }
    Ok(found)
}

/// The next byte outside of holes.
fn next_data(file: &File, from: u64) -> io::Result<Option<u64>> {
    match rustix::fs::seek(file, SeekFrom::Data(from)) {
        Ok(start) => Ok(Some(start)),
        // No data after `from`.
        Err(Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Reads `length` bytes of a file, fewer at its end.
fn read(file: &File, start: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while filled < length {
        match file.read_at(&mut bytes[filled..], start + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// The report on the record at offset `start`.
fn report(file: &File, start: u64) -> io::Result<Option<RecordReport>> {
    let most = Layout::new(MOST_HARTS, Layout::TREE_PAGES);
    let bytes = read(file, start, most.pages() * PAGE)?;
    let record = FileRecord::new(file, start, &bytes, MOST_HARTS);
    let Some(newest) = Newest::in_record(&record) else {
        return Ok(None);
    };
    let harts = record.harts(newest.sequence);
    let record = FileRecord::new(file, start, &bytes, harts);
    let running = (0..harts)
        .filter(|hart| {
            let entry = record.line(Place::Part(Layout::hart(*hart))).read_part();
            entry.is_some_and(|(_, entry)| entry.bytes > 0)
        })
        .count();
    let outcome = newest.look(&record);
    Ok(Some(RecordReport::new(
        start, newest, outcome, harts, running,
    )))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use poorwill_sleep::cut::CutReason;
    use poorwill_sleep::cut::fake::FakeRecord;

    use super::super::report::RecordState;
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A memory file of 64 MiB with `record` at offset `at`.
    fn memory(at: u64, record: &FakeRecord) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(64 * MIB).unwrap();
        file.as_file().write_all_at(&record.bytes(), at).unwrap();
        file
    }

    fn cut() -> FakeRecord {
        let mut record = FakeRecord::new(&[true, false, true]);
        record.ticks = 2640;
        record.stop().unwrap();
        record
    }

    #[test]
    fn a_cut_is_found_wherever_it_is() {
        for at in [0, 4096, 64 * MIB - cut().bytes().len() as u64] {
            let file = memory(at, &cut());
            let [record] = &look(file.path()).unwrap()[..] else {
                panic!("one record");
            };
            assert_eq!((record.offset, record.number), (at, 1));
            assert_eq!(record.state, RecordState::Whole);
            assert_eq!((record.harts, record.machine_harts), (Some(2), Some(3)));
            assert_eq!(record.bytes, Some(300 + 400 + 5000 + 2 * 600));
            assert_eq!(record.stop_ticks, Some(2640));
            assert_eq!(record.reason, None);
        }
    }

    #[test]
    fn memory_without_a_cut_has_none() {
        let empty = FakeRecord::new(&[true]);
        assert_eq!(look(memory(0, &empty).path()).unwrap(), []);
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(look(file.path()).unwrap(), [], "an empty file");
        // A record must begin at a page's start.
        assert_eq!(look(memory(64, &cut()).path()).unwrap(), []);
    }

    #[test]
    fn a_record_that_was_damaged_is_told_as_such() {
        let bytes = cut().bytes();
        let layout = Layout::new(3, Layout::TREE_PAGES);
        let [devices, part] =
            [Layout::DEVICES, Layout::hart(0)].map(|part| layout.part_pages(part).start * PAGE);
        let entry = layout.line_offset(Place::Part(Layout::hart(2)));
        for at in [devices + 399, part, part + 599, entry + 16] {
            let file = memory(8192, &cut());
            let flipped = [bytes[at] ^ 1];
            file.as_file()
                .write_all_at(&flipped, 8192 + at as u64)
                .unwrap();
            let [record] = &look(file.path()).unwrap()[..] else {
                panic!("one record");
            };
            assert_eq!(record.state, RecordState::Damaged, "byte {at}");
            assert!(record.reason.as_ref().unwrap().contains("damaged"));
        }
    }

    /// Without the vault's key the record can be read, but not proved.
    #[test]
    fn a_cut_of_a_machine_with_a_vault_is_told_as_such() {
        let tagged = || {
            let mut record = FakeRecord::new(&[true, false, true]);
            record.key = Some([7; 32]);
            record.ticks = 2640;
            record.stop().unwrap();
            record
        };
        let file = memory(8192, &tagged());
        let [record] = &look(file.path()).unwrap()[..] else {
            panic!("one record");
        };
        assert_eq!((record.state, record.number), (RecordState::Tagged, 1));
        assert_eq!((record.harts, record.machine_harts), (Some(2), Some(3)));
        assert_eq!(record.bytes, Some(300 + 400 + 5000 + 2 * 600));
        assert_eq!((record.stop_ticks, &record.reason), (Some(2640), &None));
        // A damaged line is found even without the key.
        let layout = Layout::new(3, Layout::TREE_PAGES);
        let entry = layout.line_offset(Place::Part(Layout::DEVICES)) + 16;
        let flipped = [tagged().bytes()[entry] ^ 1];
        file.as_file()
            .write_all_at(&flipped, 8192 + entry as u64)
            .unwrap();
        let [record] = &look(file.path()).unwrap()[..] else {
            panic!("one record");
        };
        assert_eq!(record.state, RecordState::Damaged);
        assert_eq!(discard(file.path()).unwrap().len(), 1);
        let [record] = &look(file.path()).unwrap()[..] else {
            panic!("one record");
        };
        assert!(record.is_over());
    }

    #[test]
    fn one_that_was_not_finished_says_why() {
        let mut record = cut();
        record.fails = Some(CutReason::HartNotStopped(2));
        record.stop().unwrap_err();
        let file = memory(0, &record);
        let [record] = &look(file.path()).unwrap()[..] else {
            panic!("one record");
        };
        assert_eq!((record.number, record.state), (2, RecordState::Unfinished));
        let reason = record.reason.as_deref();
        assert_eq!(reason, Some("hart 2 did not stop in time"));
        assert_eq!((record.harts, record.bytes), (None, None));
    }

    #[test]
    fn a_discarded_cut_is_over_and_nothing_else_has_changed() {
        let file = memory(8192, &cut());
        let before = fs::read(file.path()).unwrap();
        assert_eq!(discard(file.path()).unwrap().len(), 1);
        let [record] = &look(file.path()).unwrap()[..] else {
            panic!("one record");
        };
        assert_eq!((record.number, record.state), (1, RecordState::Consumed));
        assert_eq!(discard(file.path()).unwrap(), [], "a second time");
        let after = fs::read(file.path()).unwrap();
        let changed = (0..before.len()).filter(|at| before[*at] != after[*at]);
        let line = 8192 + Layout::new(3, Layout::TREE_PAGES).line_offset(Place::Consumed);
        assert!(
            changed
                .into_iter()
                .all(|at| (line..line + 64).contains(&at))
        );
    }

    #[test]
    fn a_machine_that_is_on_is_left_alone() {
        let file = memory(0, &cut());
        let _lock = crate::ram::lock(file.path(), crate::size::Bytes::mib(64)).unwrap();
        let before = fs::read(file.path()).unwrap();
        for refused in [look(file.path()), discard(file.path())] {
            let error = refused.unwrap_err();
            assert!(
                matches!(error, CutFileError::Ram(RamError::InUse(_))),
                "{error}"
            );
        }
        assert_eq!(fs::read(file.path()).unwrap(), before);
    }
}
