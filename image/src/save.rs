use poorwill_medium::{Direction, Medium, MediumError};
use poorwill_memory::{OsMemory, OsPage, PAGE_BYTES, Page, PageMap, PageMapError, to_usize};
use thiserror::Error;

use crate::Progress;
use crate::checksum::{self, Hasher};
use crate::header::{Header, Section};
use crate::identity::MachineIdentity;
use crate::layout::{self, Batch, Layout, PIECE_PAGES};
use crate::workspace::{NoRoom, Workspace};

/// What a save has to know beside memory.
#[derive(Clone, Copy, Debug)]
pub struct SaveRequest {
    /// The machine that goes to sleep.
    pub identity: MachineIdentity,
    /// The sleep's number, from the store.
    pub generation: u64,
    /// Now, in nanoseconds since 1970 (UTC); 0 when unknown.
    pub saved_at_ns: u64,
    /// Bytes of state in the workspace, from [`crate::StateWriter::finish`].
    pub state_bytes: u64,
}

/// The proof that a whole image is durable in a slot; the store takes it for a
/// commit.
#[derive(Debug, PartialEq, Eq)]
pub struct Saved {
    pub(crate) generation: u64,
    pub(crate) header_checksum: u64,
    pub(crate) image_bytes: u64,
    pub(crate) saved_pages: u64,
}

impl Saved {
    /// The sleep's number.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The checksum of the image's header, which stands for the whole image.
    #[must_use]
    pub fn header_checksum(&self) -> u64 {
        self.header_checksum
    }

    /// Bytes of the slot that the image takes.
    #[must_use]
    pub fn image_bytes(&self) -> u64 {
        self.image_bytes
    }

    /// Pages of OS memory that were not zero.
    #[must_use]
    pub fn saved_pages(&self) -> u64 {
        self.saved_pages
    }
}

/// Why a machine was not saved. Nothing is committed then, and the OS goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SaveError {
    /// The slot cannot hold what is used of memory.
    #[error(
        "the sleep area is too small: an image of {needed_bytes} bytes does not fit in a slot of {slot_bytes}"
    )]
    TooSmall {
        /// Bytes of the image.
        needed_bytes: u64,
        /// Bytes of the slot.
        slot_bytes: u64,
    },
    /// The workspace is too small.
    #[error(transparent)]
    Workspace(#[from] NoRoom),
    /// The medium failed.
    #[error(transparent)]
    Medium(#[from] MediumError),
}

/// Saves memory, and the state that is in the workspace, into `slot` and makes
/// all of it durable. The other harts are stopped: memory does not change while
/// it is saved.
///
/// # Errors
///
/// See [`SaveError`]. The medium touches memory no more then.
pub fn save<M: Medium>(
    slot: &mut M,
    memory: &OsMemory,
    request: &SaveRequest,
    workspace: &mut Workspace<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Saved, SaveError> {
    let result = save_parts(slot, memory, request, workspace, progress);
    if result.is_err() {
        slot.quiesce();
    }
    result
}

fn save_parts<M: Medium>(
    slot: &mut M,
    memory: &OsMemory,
    request: &SaveRequest,
    workspace: &mut Workspace<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Saved, SaveError> {
    workspace.check_room(memory.pages(), request.state_bytes)?;
    let layout = Layout::new(memory.pages(), request.state_bytes);
    let saved_pages = save_memory(slot, memory, layout.data, workspace, progress)?;

    let header = Header {
        checksum: 0,
        generation: request.generation,
        saved_at_ns: request.saved_at_ns,
        os_pages: memory.pages(),
        saved_pages,
        identity: request.identity,
        state: write_section(slot, layout.state, request.state_bytes, workspace.state)?,
        map: write_section(
            slot,
            layout.map,
            PageMap::pages_needed(memory.pages()) * PAGE_BYTES,
            workspace.map,
        )?,
        digests: write_section(
            slot,
            layout.digests,
            layout::pieces(saved_pages) * 8,
            workspace.digests,
        )?,
        data: Section {
            first_page: layout.data,
            bytes: saved_pages * PAGE_BYTES,
            checksum: 0,
        },
    };
    let header_checksum = header.write(workspace.header);
    slot.write(0, core::slice::from_ref(workspace.header))?;
    slot.flush()?;
    Ok(Saved {
        generation: request.generation,
        header_checksum,
        image_bytes: header.image_bytes(),
        saved_pages,
    })
}

/// Writes the pages of memory that are not zero from page `data` of the slot
/// on, and fills in the map and the digests; tells how many pages those were.
fn save_memory<M: Medium>(
    slot: &mut M,
    memory: &OsMemory,
    data: u64,
    workspace: &mut Workspace<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<u64, SaveError> {
    let total_pages = memory.pages();
    let mut map = PageMap::new(workspace.map, total_pages).map_err(no_map)?;
    Page::words_mut(workspace.digests).fill(0);
    let mut writer = Writer::new(slot, data, Page::words_mut(workspace.digests));
    let mut pages = memory.iter();
    if !writer.has_room_for(0) {
        return Err(too_small(&writer, memory, pages, 0));
    }
    while let Some((index, page)) = pages.next() {
        if index % PROGRESS_PAGES == 0 {
            progress(Progress {
                done_pages: index,
                total_pages,
                moved_bytes: writer.saved * PAGE_BYTES,
            });
        }
        if memory.page(page).is_zero() {
            continue;
        }
        map.insert(index);
        if !writer.has_room_for(1) {
            return Err(too_small(&writer, memory, pages, 1));
        }
        writer.push(memory, page)?;
    }
    let saved = writer.finish(memory)?;
    progress(Progress {
        done_pages: total_pages,
        total_pages,
        moved_bytes: saved * PAGE_BYTES,
    });
    Ok(saved)
}

/// The error that says how much room an image needs: for the pages taken so
/// far, for `more` pages, and for those of `rest` that are not zero.
fn too_small<M: Medium>(
    writer: &Writer<'_, M>,
    memory: &OsMemory,
    rest: impl Iterator<Item = (u64, OsPage)>,
    more: u64,
) -> SaveError {
    let rest = rest.filter(|(_, page)| !memory.page(*page).is_zero());
    SaveError::TooSmall {
        needed_bytes: (writer.end() + more + rest.count() as u64) * PAGE_BYTES,
        slot_bytes: writer.slot.capacity(),
    }
}

/// A map that does not fit in its room, which was checked before.
fn no_map(error: PageMapError) -> NoRoom {
    match error {
        PageMapError::NoRoom { needed, given } => NoRoom { needed, given },
        PageMapError::BeyondEnd(_) => NoRoom {
            needed: 0,
            given: 0,
        },
    }
}

/// Pages looked at between two calls of `progress`: 16 MiB.
const PROGRESS_PAGES: u64 = 4096;

/// Writes page data: collects pages, starts a transfer as soon as there are
/// enough, and hashes them while it runs.
struct Writer<'w, M> {
    slot: &'w mut M,
    /// First page of the slot that holds page data.
    data: u64,
    digests: &'w mut [u64],
    batch: Batch,
    batch_pages: u64,
    piece: Hasher,
    /// Pages in transfers that have been started.
    saved: u64,
    in_flight: usize,
}

impl<'w, M: Medium> Writer<'w, M> {
    fn new(slot: &'w mut M, data: u64, digests: &'w mut [u64]) -> Self {
        let batch_pages = (slot.max_pages() as u64).clamp(1, PIECE_PAGES);
        Writer {
            slot,
            data,
            digests,
            batch: Batch::new(),
            batch_pages,
            piece: Hasher::new(),
            saved: 0,
            in_flight: 0,
        }
    }

    /// The first page of the slot behind the pages taken so far.
    fn end(&self) -> u64 {
        self.data + self.saved + self.batch.len() as u64
    }

    fn has_room_for(&self, pages: u64) -> bool {
        self.end() + pages <= self.slot.capacity() / PAGE_BYTES
    }

    fn push(&mut self, memory: &OsMemory, page: OsPage) -> Result<(), MediumError> {
        self.batch.push(page);
        let pages = self.batch.len() as u64;
        if pages == self.batch_pages || (self.saved + pages).is_multiple_of(PIECE_PAGES) {
            self.send(memory)?;
        }
        Ok(())
    }

    /// Starts the transfer of the pages collected, and hashes them meanwhile.
    fn send(&mut self, memory: &OsMemory) -> Result<(), MediumError> {
        self.reap(self.slot.depth().max(1) - 1)?;
        let offset = (self.data + self.saved) * PAGE_BYTES;
        self.slot.start(Direction::Write, offset, &self.batch, 0)?;
        self.in_flight += 1;
        for page in &self.batch {
            self.piece.page(memory.page(*page));
        }
        self.saved += self.batch.len() as u64;
        self.batch.clear();
        if self.saved.is_multiple_of(PIECE_PAGES) {
            self.end_piece();
        }
        Ok(())
    }

    /// Notes the digest of the piece that the last saved page belongs to.
    fn end_piece(&mut self) {
        let piece = (self.saved - 1) / PIECE_PAGES;
        self.digests[to_usize(piece)] = self.piece.finish();
        self.piece = Hasher::new();
    }

    /// Waits until no more than `left` transfers are under way.
    fn reap(&mut self, left: usize) -> Result<(), MediumError> {
        while self.in_flight > left {
            match self.slot.poll()? {
                Some(_) => self.in_flight -= 1,
                None => core::hint::spin_loop(),
            }
        }
        Ok(())
    }

    fn finish(mut self, memory: &OsMemory) -> Result<u64, MediumError> {
        if !self.batch.is_empty() {
            self.send(memory)?;
        }
        if !self.saved.is_multiple_of(PIECE_PAGES) {
            self.end_piece();
        }
        self.reap(0)?;
        Ok(self.saved)
    }
}

/// Writes the `bytes` of a section from the pages that hold them.
fn write_section<M: Medium>(
    slot: &mut M,
    first_page: u64,
    bytes: u64,
    pages: &[Page],
) -> Result<Section, MediumError> {
    let pages = &pages[..to_usize(layout::pages_of(bytes))];
    if !pages.is_empty() {
        slot.write(first_page * PAGE_BYTES, pages)?;
    }
    Ok(Section {
        first_page,
        bytes,
        checksum: checksum::of_words(Page::words(pages)),
    })
}
