use poorwill_memory::{FreeContents, OsMemory, Page, PageMap, PageMapError};

use super::error::{NoRoom, SaveError};
use super::sealed::{SealedMemory, SealedPieces};
use crate::format::layout::{digest_pages, pages_of};
use crate::format::{free, strided_fills};
use crate::workers::Workers;

/// The number of pages for the machine's state. 32 KiB suffice for the registers and
/// interrupt controllers of far more harts than a machine may have.
pub const STATE_PAGES: u64 = 8;

/// The firmware's working memory for a save or a load: all sections of an image except
/// page data. The medium accesses it by DMA.
#[derive(Debug)]
pub struct Workspace<'a> {
    pub(crate) header: &'a mut Page,
    /// The machine's state: a [`crate::StateWriter`] fills it before a save.
    pub state: &'a mut [Page],
    pub(crate) map: &'a mut [Page],
    pub(crate) free: &'a mut [Page],
    pub(crate) strided_fills: &'a mut [Page],
    pub(crate) digests: &'a mut [Page],
    /// Set after a survey: then `map` holds the pages that the next save must scan, and `free` a
    /// list of this number of bytes.
    surveyed: Option<u64>,
    /// The pages of memory and of the map that the latest save has sealed in place.
    pub(crate) sealed_pieces: SealedPieces,
    pub(crate) sealed_map_pages: u64,
    /// Those of the sealed pages that stay sealed after a power failure.
    pub(crate) left_sealed: Option<SealedMemory>,
}

impl<'a> Workspace<'a> {
    /// The number of workspace pages for `os_pages` pages of OS memory.
    #[must_use]
    pub const fn pages_needed(os_pages: u64) -> u64 {
        let lists = free::LIST_PAGES + strided_fills::LIST_PAGES;
        1 + STATE_PAGES + PageMap::pages_needed(os_pages) + lists + digest_pages(os_pages)
    }

    /// Divides `pages` for `os_pages` pages of OS memory. The contents of `pages` do not matter.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] if there are fewer than [`Workspace::pages_needed`].
    pub fn new(pages: &'a mut [Page], os_pages: u64) -> Result<Self, NoRoom> {
        let given = pages.len() as u64;
        let no_room = NoRoom {
            needed: Self::pages_needed(os_pages),
            given,
        };
        let (header, rest) = pages.split_first_mut().ok_or(no_room)?;
        let (state, rest) = split(rest, STATE_PAGES).ok_or(no_room)?;
        let (map, rest) = split(rest, PageMap::pages_needed(os_pages)).ok_or(no_room)?;
        let (free, rest) = split(rest, free::LIST_PAGES).ok_or(no_room)?;
        let (strided_fills, rest) = split(rest, strided_fills::LIST_PAGES).ok_or(no_room)?;
        let (digests, _) = split(rest, digest_pages(os_pages)).ok_or(no_room)?;
        Ok(Workspace {
            header,
            state,
            map,
            free,
            strided_fills,
            digests,
            surveyed: None,
            sealed_pieces: SealedPieces::NONE,
            sealed_map_pages: 0,
            left_sealed: None,
        })
    }
}

impl Workspace<'_> {
    pub(crate) fn reborrow(&mut self) -> Workspace<'_> {
        Workspace {
            header: self.header,
            state: self.state,
            map: self.map,
            free: self.free,
            strided_fills: self.strided_fills,
            digests: self.digests,
            surveyed: self.surveyed,
            sealed_pieces: self.sealed_pieces,
            sealed_map_pages: self.sealed_map_pages,
            left_sealed: self.left_sealed,
        }
    }

    /// Takes the description of memory that a save left sealed after a power failure.
    pub fn take_left_sealed(&mut self) -> Option<SealedMemory> {
        self.left_sealed.take()
    }

    /// Excludes pages from the next save: `find` adds the OS's free pages to a set. They
    /// are not read. After a wake they hold zeros, or any contents if `find` permits
    /// that.
    ///
    /// # Errors
    ///
    /// [`SaveError::Workspace`] if the workspace is for less memory, and
    /// [`SaveError::PowerFails`].
    pub fn leave_out<T>(
        &mut self,
        memory: &OsMemory,
        workers: &dyn Workers,
        find: impl FnOnce(&mut PageMap<'_>) -> (FreeContents, T),
    ) -> Result<T, SaveError> {
        let mut map = PageMap::new(self.map, memory.pages()).map_err(no_map)?;
        let (contents, found) = find(&mut map);
        let free_bytes = match contents {
            FreeContents::Anything => free::list(&map, self.free, || workers.go_on())?,
            FreeContents::Zeros => 0,
        };
        map.try_invert(|| workers.go_on())?;
        self.surveyed = Some(free_bytes);
        Ok(found)
    }

    /// Prepares the map of the pages that a save must scan. Returns the length of the
    /// list of free runs in bytes.
    pub(crate) fn take_survey(
        &mut self,
        os_pages: u64,
        workers: &dyn Workers,
    ) -> Result<u64, SaveError> {
        match self.surveyed.take() {
            Some(free_bytes) => Ok(free_bytes),
            None => {
                let mut map = PageMap::new(self.map, os_pages).map_err(no_map)?;
                map.try_invert(|| workers.go_on())?;
                Ok(0)
            }
        }
    }
}

pub(crate) fn no_map(error: PageMapError) -> NoRoom {
    match error {
        PageMapError::NoRoom { needed, given } => NoRoom { needed, given },
        PageMapError::BeyondEnd(_) => NoRoom {
            needed: 0,
            given: 0,
        },
    }
}

impl Workspace<'_> {
    /// Checks that the workspace suffices for `os_pages` pages and `state_bytes` bytes of
    /// state.
    pub(crate) fn check_room(&self, os_pages: u64, state_bytes: u64) -> Result<(), NoRoom> {
        let parts = [
            (pages_of(state_bytes), self.state.len()),
            (PageMap::pages_needed(os_pages), self.map.len()),
            (free::LIST_PAGES, self.free.len()),
            (strided_fills::LIST_PAGES, self.strided_fills.len()),
            (digest_pages(os_pages), self.digests.len()),
        ];
        let short = parts.iter().find(|(needed, given)| *needed > *given as u64);
        short.map_or(Ok(()), |(needed, given)| {
            Err(NoRoom {
                needed: *needed,
                given: *given as u64,
            })
        })
    }
}

fn split(pages: &mut [Page], first: u64) -> Option<(&mut [Page], &mut [Page])> {
    pages.split_at_mut_checked(usize::try_from(first).ok()?)
}
