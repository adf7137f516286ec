//! Restores a domain's memory and state from a committed image, or returns why not.

use poorwill_image::{Here, ImageKind, LoadError, Loaded, Opened, Workspace, load, open};
use poorwill_medium::{MediumError, Window};
use poorwill_memory::checksum::name_hash;
use poorwill_memory::{OsMemory, PAGE_BYTES, Page};
use poorwill_store::{Admitted, CommittedImage, Failure, Part, SlotId, StoreError};

use crate::area::{AnyArea, Disk, Partitions};
use crate::chain::Stopped;
use crate::error::{AreaError, Refusal};
use crate::event::{ImageUse, WakeReport};
use crate::machine::{Domain, Job, Machine, Resume, State};
use crate::sealing::Sealing;
use crate::state;
use crate::warm_reset::LoadMark;

/// An image in the area: that of a machine with one domain, or a part of a set.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// The slot's image.
    Whole,
    /// The part of the set with this index.
    Part(usize, Part),
}

/// Why a domain does not wake.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NotRestored {
    /// Its image is refused. Its memory is unchanged.
    Refused(Refusal),
    /// Its memory is partially restored.
    Partial(Failure),
}

impl<E: Into<Refusal>> From<E> for NotRestored {
    fn from(error: E) -> Self {
        NotRestored::Refused(error.into())
    }
}

/// A wake from the area's image, or from its set.
pub(crate) struct Restoring<'r, M> {
    pub(crate) machine: &'r M,
    pub(crate) sealing: &'r Sealing,
    pub(crate) image: CommittedImage,
    pub(crate) image_use: ImageUse,
    pub(crate) fingerprints: Result<&'r Partitions, AreaError>,
    /// The proof that the image may be loaded, from the first domain on.
    pub(crate) admitted: Option<Admitted>,
}

impl<M: Machine> Restoring<'_, M> {
    /// Restores a domain from its image: checks that, and loads it. The first image is admitted
    /// between these steps, and gives the machine its own state.
    ///
    /// # Errors
    ///
    /// [`NotRestored`].
    pub(crate) fn restore(
        &mut self,
        area: &mut AnyArea<'_, '_>,
        source: Source,
        stopped: &mut Stopped<'_, M::Domain>,
        pages: &mut [Page],
    ) -> Result<(Resume<M>, WakeReport), NotRestored> {
        let (machine, domain) = (self.machine, stopped.domain);
        let (opened, (state, of_machine)) = self.check(area, source, stopped, pages)?;
        if self.admitted.is_none() {
            machine.wait_for_power();
            self.admitted = Some(self.admit(area)?);
        }
        let began = machine.ticks();
        let loaded = self.load_marked(area, source, stopped.memory, &opened);
        machine.end_show();
        let loaded = loaded.map_err(|error| NotRestored::Partial(failure_of(error)))?;
        let wake = WakeReport {
            image: self.image_use,
            generation: opened.header().generation,
            loaded_bytes: loaded.loaded_pages() * PAGE_BYTES,
            load_ms: machine.milliseconds_since(began),
        };
        if let Some(of_machine) = of_machine {
            machine.restore(of_machine);
        }
        Ok((domain.restore(state, &wake), wake))
    }

    /// Opens the image, and checks it with its state.
    fn check<'w>(
        &self,
        area: &mut AnyArea<'_, '_>,
        source: Source,
        stopped: &Stopped<'_, M::Domain>,
        pages: &'w mut [Page],
    ) -> Result<(Opened<'w>, State<'w, M>), Refusal> {
        let here = Here {
            identity: stopped.domain.identity(),
            os_pages: stopped.memory.pages(),
            trust: self.sealing.trust(),
            is_clear: self.machine.memory_is_clear(),
        };
        let workspace = Workspace::new(pages, here.os_pages)?;
        let expected = match source {
            Source::Whole => self.image.expected(),
            Source::Part(_, part) => part.expected(self.image.generation()),
        };
        let mut medium = source.medium(area, self.image.slot())?;
        let opened = open(&mut medium, expected, &here, workspace)?;
        let is_first = self.admitted.is_none();
        let state = state::read(
            self.machine,
            stopped.domain,
            &opened,
            is_first,
            self.fingerprints,
        )?;
        Ok((opened, state))
    }

    fn admit(&self, area: &mut AnyArea<'_, '_>) -> Result<Admitted, Refusal> {
        area.admit(&self.image)
            .map_err(|error| match (error, self.image.kind()) {
                (
                    StoreError::PutBack { .. } | StoreError::Spent(_) | StoreError::NotKeptHere(_),
                    _,
                ) => Refusal::Over(error),
                (_, ImageKind::Once) => Refusal::NotConsumed(error),
                (_, ImageKind::Snapshot) => Refusal::NotCounted(error),
            })
    }

    /// Loads memory. If the load mark was set at this start, the load clears it at the end, since
    /// memory is then complete or cleared.
    // Not inlined, so that this frame begins after the state is read.
    #[inline(never)]
    fn load_marked(
        &self,
        area: &mut AnyArea<'_, '_>,
        source: Source,
        memory: &mut OsMemory,
        image: &Opened<'_>,
    ) -> Result<Loaded, LoadError> {
        let machine = self.machine;
        let mark = |mark| {
            if image.header().seal.is_some() {
                machine.set_load_mark(mark);
            }
        };
        let mut show = |progress| machine.show(Job::Waking, progress);
        let mut medium = source.medium(area, self.image.slot())?;
        machine.while_loading(|| {
            mark(LoadMark::Set);
            let loaded = load(&mut medium, image, memory, machine.workers(), &mut show);
            mark(LoadMark::Clear);
            loaded
        })
    }
}

impl Source {
    /// The image as a medium.
    fn medium<'b, 'a, 'd>(
        self,
        area: &'b mut AnyArea<'a, 'd>,
        slot: SlotId,
    ) -> Result<Window<'b, Window<'a, Disk<'d>>>, MediumError> {
        match self {
            Source::Whole => area.slot(slot),
            Source::Part(index, _) => area.part(slot, index).map_err(|error| match error {
                StoreError::Medium(error) => error,
                // The part is the area's own.
                _ => MediumError::OutOfRange { offset: 0, end: 0 },
            }),
        }
    }
}

fn failure_of(error: LoadError) -> Failure {
    match error {
        LoadError::DamagedPiece { piece } => Failure::DamagedPiece(piece),
        LoadError::Medium(MediumError::Device { status, .. } | MediumError::Flush(status)) => {
            Failure::Device(status)
        }
        LoadError::Medium(MediumError::TimedOut(ms)) => Failure::TimedOut(ms),
        LoadError::Medium(_) | LoadError::OtherMemory { .. } => Failure::Other(0, 0),
    }
}

impl Source {
    /// The first domain that has an image, by its index; `None`: no domain has.
    pub(crate) fn first<D: Domain>(
        area: &AnyArea<'_, '_>,
        slot: SlotId,
        domains: &[Stopped<'_, D>],
    ) -> Option<(usize, Source)> {
        let mut all = domains.iter().enumerate();
        all.find_map(|(index, stopped)| Some((index, Source::of(area, slot, stopped.domain)?)))
    }

    /// The domain's image; `None`: it has none.
    pub(crate) fn of(area: &AnyArea<'_, '_>, slot: SlotId, domain: &impl Domain) -> Option<Source> {
        let parts = area.parts(slot);
        if parts.is_empty() {
            return Some(Source::Whole);
        }
        let own = name_hash(domain.name());
        let mut parts = parts.iter().enumerate();
        let (index, part) = parts.find(|(_, part)| part.name_hash == own)?;
        Some(Source::Part(index, *part))
    }
}
