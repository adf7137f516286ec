//! The disk of a fake machine.

extern crate std;

use core::cell::RefCell;
use core::fmt;
use std::borrow::ToOwned;
use std::collections::BTreeSet;
use std::vec::Vec;

use arrayvec::ArrayVec;
use poorwill_medium::nvme::SharedNamespace;
use poorwill_medium::{Direction, Medium, MediumError};
use poorwill_memory::{OsPage, PAGE_BYTES, Page, to_usize};
use poorwill_store::fake::{BLOCK_BYTES, TABLE_BYTES};

use crate::{AreaError, Device, LentMedium, MAX_MEDIA, MediumId};

/// A disk behind a partition table that is not on it.
pub struct Partitioned<'d> {
    pub(super) table: Vec<u8>,
    /// The table of a namespace before the disk.
    pub(super) namespace: Option<Vec<u8>>,
    /// Whether that namespace is lent.
    pub(super) is_namespace: bool,
    /// Where the partition is on the disk.
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) disk: &'d mut dyn Medium,
    /// See [`FakeMachine::controllers`](super::FakeMachine::controllers).
    pub(super) shared: Option<SharedNamespace>,
    pub(super) controller: usize,
    pub(super) wrote: &'d RefCell<BTreeSet<usize>>,
    /// See [`FakeMachine::media`](super::FakeMachine::media).
    pub(super) media: &'d [MediumId],
}

/// A namespace before the disk.
const BEFORE: MediumId = MediumId::Namespace(1);

impl Device for Partitioned<'_> {
    type Medium<'m>
        = &'m mut Self
    where
        Self: 'm;

    fn media(&self) -> ArrayVec<(MediumId, u32), MAX_MEDIA> {
        let namespace = self.namespace.is_some().then_some(BEFORE);
        let media = namespace.into_iter().chain(self.media.iter().copied());
        media.map(|id| (id, BLOCK_BYTES)).collect()
    }

    fn medium(&mut self, id: MediumId) -> Result<Option<&mut Self>, AreaError> {
        self.is_namespace = self.namespace.is_some() && id == BEFORE;
        let is_disk = self.is_namespace || self.media.last() == Some(&id);
        Ok(is_disk.then_some(self))
    }

    fn shared_namespace(&mut self, _: MediumId) -> Result<Option<SharedNamespace>, AreaError> {
        Ok(self.shared)
    }
}

impl fmt::Debug for Partitioned<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Partitioned").finish_non_exhaustive()
    }
}

impl LentMedium for &mut Partitioned<'_> {
    fn disk(&mut self) -> &mut dyn Medium {
        *self
    }
}

impl Partitioned<'_> {
    /// Where a byte of the partition is on the disk.
    fn place(&self, offset: u64) -> u64 {
        offset - TABLE_BYTES + self.start
    }
}

impl Medium for Partitioned<'_> {
    fn capacity(&self) -> u64 {
        (self.end - self.start + TABLE_BYTES).next_multiple_of(PAGE_BYTES)
    }

    fn max_pages(&self) -> usize {
        self.disk.max_pages()
    }

    fn depth(&self) -> usize {
        self.disk.depth()
    }

    fn read(&mut self, offset: u64, into: &mut [Page]) -> Result<(), MediumError> {
        // Partitions do not begin at whole pages. Whole pages are read in search of tables and
        // their backups, and there are none after the area.
        if !offset.is_multiple_of(PAGE_BYTES) {
            let offset = self.place(offset);
            return self.disk.read(offset, into);
        }
        let table = match &self.namespace {
            Some(namespace) if self.is_namespace => namespace,
            _ => &self.table,
        };
        let rest = table.get(to_usize(offset)..);
        let mut bytes = rest.unwrap_or_default().to_owned();
        bytes.resize(into.len() * to_usize(PAGE_BYTES), 0);
        for (page, bytes) in into
            .iter_mut()
            .zip(bytes.as_chunks::<{ size_of::<Page>() }>().0)
        {
            let words = bytes.as_chunks::<8>().0.iter();
            let words: Vec<u64> = words.map(|word| u64::from_le_bytes(*word)).collect();
            page.0.copy_from_slice(&words);
        }
        Ok(())
    }

    fn write(&mut self, offset: u64, from: &[Page]) -> Result<(), MediumError> {
        assert!(offset >= TABLE_BYTES, "no partition table is written");
        assert!(!self.is_namespace, "it is refused");
        let offset = self.place(offset);
        self.wrote.borrow_mut().insert(self.controller);
        self.disk.write(offset, from)
    }

    fn flush(&mut self) -> Result<(), MediumError> {
        self.disk.flush()
    }

    fn start_flush(&mut self, tag: u32) -> Result<bool, MediumError> {
        self.disk.start_flush(tag)
    }

    fn start(
        &mut self,
        direction: Direction,
        offset: u64,
        pages: &[OsPage],
        tag: u32,
    ) -> Result<(), MediumError> {
        let offset = self.place(offset);
        if direction == Direction::Write {
            self.wrote.borrow_mut().insert(self.controller);
        }
        self.disk.start(direction, offset, pages, tag)
    }

    fn poll(&mut self) -> Result<Option<u32>, MediumError> {
        self.disk.poll()
    }

    fn quiesce(&mut self) {
        self.disk.quiesce();
    }
}
