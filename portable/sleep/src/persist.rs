//! Saves the machine to its sleep area (the thesis's chapter 3.2).

use poorwill_image::{ImageKind, PowerFails, Salt, SaveError, Seal, SealedMemory, Workspace};
use poorwill_medium::nvme::Stop;
use poorwill_memory::checksum::name_hash;
use poorwill_memory::linux::FreeListError;
use poorwill_memory::{FreeContents, Page, PageMap};
use poorwill_store::{
    CommitError, Committed, Configuration, OpenSlot, PartitionFingerprint, Purpose, RecordFormat,
    StoreError,
};

use crate::area::{AnyArea, Disk, OpenArea, Partitions, with_area};
use crate::chain::{Quiesced, Written};
use crate::choice::{Choice, choose};
use crate::core_state::Moment;
use crate::error::{NoSleep, NotArmed, Obstacle};
use crate::event::{Event, Saves, SleepReport};
use crate::in_use::LeftInUse;
use crate::machine::{Checkpoint, Domain, Job, Machine};
use crate::plan::Plan;
use crate::retain::Source;
use crate::sealing::Sealing;
use crate::work::Work;

/// The kind of sleep that is saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// A sleep that is saved at once, if the sleep area's configuration says so.
    AsConfigured,
    /// A sleep after a time of retaining. Until the commit, a wake event ends it.
    Staged,
}

/// Why the machine is not saved. Unless the commit is in doubt, memory and disk have the OS's
/// state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotSaved {
    /// The configuration asks for retaining, without an end or for this number of ms.
    Rests(Option<u64>),
    /// The machine cannot be saved.
    NotArmed(NotArmed),
    /// The save failed before its commit.
    Failed(NoSleep),
    /// A wake event came before the commit.
    Abandoned(Source),
    /// The power failed before the commit, and the machine will be cut. Some memory may still be
    /// sealed.
    PowerFails(Option<SealedMemory>),
    /// It is unknown whether the image is committed.
    InDoubt(StoreError),
}

impl NotSaved {
    /// Replaces the error by [`NotSaved::PowerFails`] if the power is failing. `left_sealed`
    /// returns the memory that is still sealed.
    fn power_fails<M: Machine>(
        self,
        machine: &M,
        left_sealed: impl FnOnce() -> Option<SealedMemory>,
    ) -> Self {
        match (self, machine.workers().go_on()) {
            (NotSaved::InDoubt(_) | NotSaved::PowerFails(_), _) | (_, Ok(())) => self,
            (_, Err(PowerFails)) => NotSaved::PowerFails(left_sealed()),
        }
    }
}

impl<E: Into<NoSleep>> From<E> for NotSaved {
    fn from(error: E) -> Self {
        NotSaved::Failed(error.into())
    }
}

impl From<NotArmed> for NotSaved {
    fn from(lacks: NotArmed) -> Self {
        NotSaved::NotArmed(lacks)
    }
}

/// Saves the machine: all domains that sleep, in the order of their wakes. The result is the proof
/// that the power-off requires.
pub(crate) fn persist<M: Machine>(
    machine: &M,
    domains: &mut [Quiesced<'_, M::Domain>],
    order: Order,
    work: &mut Work<'_>,
) -> Result<Committed, NotSaved> {
    let saved = save_machine(machine, domains, order, work);
    let saved = saved.map_err(|error| error.power_fails(machine, || None));
    if let Err(NotSaved::InDoubt(error)) = saved {
        machine.say(&Event::InDoubt(error));
    }
    saved
}

fn save_machine<M: Machine>(
    machine: &M,
    domains: &mut [Quiesced<'_, M::Domain>],
    order: Order,
    work: &mut Work<'_>,
) -> Result<Committed, NotSaved> {
    if !machine.can_power_off() {
        return Err(NotArmed::NoPowerOff.into());
    }
    let began = machine.ticks();
    let sealing = Sealing::at_sleep(machine)?;
    let left_in_use = machine.left_in_use();
    let persist = Persist {
        machine,
        left_in_use: &left_in_use,
        order,
        sealing: &sealing,
        began,
    };
    let stop = |result: &Result<Image, NotSaved>| match result {
        Ok(_) => Stop::PowerOff,
        Err(_) => Stop::Handover,
    };
    let saves = |area: &mut AnyArea<'_, '_>| persist.is_to_save(area);
    let on = |open: OpenArea<'_, '_, '_>| persist.on(open, domains);
    let image = match with_area(machine, work, saves, on, stop) {
        Ok(saved) => saved?,
        Err(error) if error.is_absence() => return Err(NotArmed::Area(error).into()),
        Err(error) => return Err(NoSleep::Area(error).into()),
    };
    machine.say(&Event::Slept(SleepReport {
        saved: &image.saved,
        kind: image.kind,
        ms: machine.milliseconds_since(began),
        save_ms: image.save_ms,
        sealed: sealing.key().is_some(),
    }));
    Ok(image.committed)
}

/// The facts of a committed image, or of a set.
#[derive(Debug)]
struct Image {
    committed: Committed,
    kind: ImageKind,
    saved: Saves,
    /// Duration of save and commit, in ms.
    save_ms: u64,
}

/// The slot of a sleep, with what its images have in common.
struct ImageOfSleep<'s, 'b, 'a, 'd> {
    slot: OpenSlot<'b, 'a, Disk<'d>>,
    kind: ImageKind,
    at: Moment,
    fingerprints: &'s [PartitionFingerprint],
    saves: &'s mut Saves,
}

/// A sleep before its commit.
struct Persist<'p, M> {
    machine: &'p M,
    left_in_use: &'p LeftInUse,
    order: Order,
    sealing: &'p Sealing,
    /// The start of the sleep, in ticks.
    began: u64,
}

impl<M: Machine> Persist<'_, M> {
    fn on(
        &self,
        open: OpenArea<'_, '_, '_>,
        domains: &mut [Quiesced<'_, M::Domain>],
    ) -> Result<Image, NotSaved> {
        let (purpose, accepts_unguarded) = self.purpose(open.area)?;
        if let Some(obstacle) = self.machine.obstacle() {
            return Err(NoSleep::Obstacle(obstacle).into());
        }
        name_left_in_use(self.machine, self.left_in_use);
        let fingerprints = match (open.fingerprints, purpose) {
            (Ok(Partitions { fingerprints, .. }), _) => {
                let accepts = matches!(purpose, Purpose::Snapshot(_)).then_some(accepts_unguarded);
                self.name_unguarded(fingerprints, accepts)?;
                &fingerprints[..]
            }
            (Err(error), Purpose::Snapshot(_)) => return Err(NoSleep::Area(error).into()),
            // For an image that wakes once, fingerprints are only an additional check.
            (Err(error), Purpose::Once | Purpose::Set) => {
                self.machine.say(&Event::Unguarded(error));
                &[]
            }
        };
        self.look(Checkpoint::BeforeSaving)?;
        let saving_began = self.machine.ticks();
        let result = self.save(open.area, domains, open.workspace, purpose, fingerprints);
        self.machine.end_show();
        let (committed, saved) = result?;
        if let Err(error) = committed.older() {
            self.machine.say(&Event::NotDiscarded(error));
        }
        Ok(Image {
            committed,
            kind: purpose.kind(),
            saved,
            save_ms: self.machine.milliseconds_since(saving_began),
        })
    }

    /// Reports the partitions that cannot be guarded. `accepts`: the user accepts them for a
    /// snapshot; its fingerprints record that.
    fn name_unguarded(
        &self,
        fingerprints: &mut [PartitionFingerprint],
        accepts: Option<bool>,
    ) -> Result<(), NotSaved> {
        for fingerprint in fingerprints {
            let Some(unguarded) = fingerprint.unguarded() else {
                continue;
            };
            match accepts {
                Some(false) => return Err(NoSleep::Unguarded(unguarded).into()),
                Some(true) => fingerprint.accept(),
                None => {}
            }
            self.machine.say(&Event::UnguardedPartition(unguarded));
        }
        Ok(())
    }

    /// Returns whether the machine must be saved now, without retaining first, with fingerprints of
    /// the partitions beside the area.
    fn is_to_save(&self, area: &mut AnyArea<'_, '_>) -> bool {
        // Machine mode's disk has no partitions of an OS, and domains guard theirs.
        if self.machine.format() == RecordFormat::Set {
            return false;
        }
        let is_wanted = |configuration| wanted(&configuration, RecordFormat::Image).is_ok();
        self.order == Order::Staged || is_wanted(area.configuration().unwrap_or_default())
    }

    /// The purpose of the save, and whether partitions that cannot be guarded are accepted. An
    /// error if the machine must retain first. An unreadable configuration counts as the default:
    /// the machine is saved, and no data is lost.
    fn purpose(&self, area: &mut AnyArea<'_, '_>) -> Result<(Purpose, bool), NotSaved> {
        if self.order == Order::Staged {
            return Ok((once(self.machine.format()), false));
        }
        let configuration = area.configuration().unwrap_or_else(|error| {
            self.machine.say(&Event::Configuration(error));
            Configuration::default()
        });
        let purpose = wanted(&configuration, self.machine.format())?;
        if let Purpose::Snapshot(_) = purpose {
            // Later sleeps are not snapshots.
            area.configure(&Configuration {
                next_snapshot: None,
                accepts_unguarded: false,
                ..configuration
            })?;
        }
        Ok((purpose, configuration.accepts_unguarded))
    }

    /// Saves the domains one after the other, and commits their images at once.
    fn save(
        &self,
        area: &mut AnyArea<'_, '_>,
        domains: &mut [Quiesced<'_, M::Domain>],
        pages: &mut [Page],
        purpose: Purpose,
        fingerprints: &[PartitionFingerprint],
    ) -> Result<(Committed, Saves), NotSaved> {
        let mut saves = Saves::default();
        let mut image = ImageOfSleep {
            slot: area.begin(purpose)?,
            kind: purpose.kind(),
            at: Moment {
                ticks: self.machine.ticks(),
                now_ns: self.machine.now_ns(),
            },
            fingerprints,
            saves: &mut saves,
        };
        let (last, earlier) = domains.split_last_mut().expect("a machine has a domain");
        for domain in earlier {
            let mut workspace = self.workspace(domain, pages, &mut image)?;
            self.write(domain, &mut workspace, &mut image)?;
            // Each image has a progress bar of its own, as at a wake.
            self.machine.end_show();
        }
        let mut workspace = self.workspace(last, pages, &mut image)?;
        let committed = self.save_last(last, &mut workspace, image);
        let left_sealed = || workspace.take_left_sealed();
        let committed = committed.map_err(|error| error.power_fails(self.machine, left_sealed))?;
        Ok((committed, saves))
    }

    /// The workspace for a domain's image, with the pages that its OS has free.
    fn workspace<'w>(
        &self,
        domain: &Quiesced<'_, M::Domain>,
        pages: &'w mut [Page],
        image: &mut ImageOfSleep<'_, '_, '_, '_>,
    ) -> Result<Workspace<'w>, NotSaved> {
        let no_room = NotArmed::Workspace;
        let mut workspace = Workspace::new(pages, domain.memory().pages()).map_err(no_room)?;
        image.saves.free_pages += leave_out_free(self.machine, domain, &mut workspace)?;
        Ok(workspace)
    }

    /// Writes a domain's image, and adds it to a set.
    fn write<'q>(
        &self,
        domain: &'q mut Quiesced<'_, M::Domain>,
        workspace: &mut Workspace<'_>,
        image: &mut ImageOfSleep<'_, '_, '_, '_>,
    ) -> Result<Written<'q, '_>, NotSaved> {
        let machine = self.machine;
        let name = domain.domain().name();
        let plan = Plan {
            generation: image.slot.generation(),
            kind: image.kind,
            at: image.at,
            is_first: image.saves.is_empty(),
            seal: self.sealing.key().map(|key| Seal {
                key,
                salt: Salt(machine.new_salt()),
            }),
            fingerprints: image.fingerprints,
        };
        let captured = domain.capture(machine, workspace, plan)?;
        let mut show = |progress| machine.show(Job::Sleeping, progress);
        let mut medium = image.slot.medium()?;
        let written = captured.write(&mut medium, workspace, machine.workers(), &mut show)?;
        image.saves.add(written.saved());
        if machine.format() == RecordFormat::Set {
            image.slot.add(name_hash(name), written.saved())?;
        }
        Ok(written)
    }

    /// Writes the last image, and commits them all.
    fn save_last(
        &self,
        domain: &mut Quiesced<'_, M::Domain>,
        workspace: &mut Workspace<'_>,
        mut image: ImageOfSleep<'_, '_, '_, '_>,
    ) -> Result<Committed, NotSaved> {
        let machine = self.machine;
        let written = self.write(domain, workspace, &mut image)?;
        if let Err(abandoned) = self.look(Checkpoint::BeforeCommit) {
            written.abandon(workspace, machine.workers());
            return Err(abandoned);
        }
        let took_ms = u32::try_from(machine.milliseconds_since(self.began)).unwrap_or(u32::MAX);
        written
            .commit(machine, image.slot, workspace, took_ms)
            .map_err(|error| match error {
                CommitError::NotCommitted(error) => NotSaved::Failed(NoSleep::Commit(error)),
                CommitError::InDoubt(error) => NotSaved::InDoubt(error),
            })
    }

    /// Checks for a wake event that ends the sleep.
    fn look(&self, at: Checkpoint) -> Result<(), NotSaved> {
        self.machine.workers().go_on()?;
        match self.order {
            Order::AsConfigured => Ok(()),
            Order::Staged => {
                (self.machine.abandon(at)).map_or(Ok(()), |source| Err(NotSaved::Abandoned(source)))
            }
        }
    }
}

/// Names the functions whose state the power-off destroys.
pub(crate) fn name_left_in_use<M: Machine>(machine: &M, left: &LeftInUse) {
    for function in left.named() {
        machine.say(&Event::LeftInUse(*function));
    }
    if left.more() > 0 {
        machine.say(&Event::MoreLeftInUse(left.more()));
    }
}

/// The purpose of the save by a configuration. An error if the machine must retain first.
fn wanted(configuration: &Configuration, format: RecordFormat) -> Result<Purpose, NotSaved> {
    match choose(configuration, false) {
        Choice::Save(Purpose::Snapshot(_)) if format == RecordFormat::Set => {
            Err(NotArmed::Snapshot.into())
        }
        Choice::Save(purpose @ Purpose::Snapshot(_)) => Ok(purpose),
        Choice::Save(Purpose::Once | Purpose::Set) | Choice::Cut => Ok(once(format)),
        Choice::Rest(stage_after_ms) => Err(NotSaved::Rests(stage_after_ms)),
    }
}

/// The purpose of an image, or of a set, that wakes once.
fn once(format: RecordFormat) -> Purpose {
    match format {
        RecordFormat::Image => Purpose::Once,
        RecordFormat::Set => Purpose::Set,
    }
}

/// Excludes the OS's free pages from the save, and returns their number. If they are unknown, all
/// pages that are not zero are saved, and the console reports the reason.
// Not inlined, so that this frame ends before the save needs the stack.
#[inline(never)]
fn leave_out_free<M: Machine>(
    machine: &M,
    domain: &Quiesced<'_, M::Domain>,
    workspace: &mut Workspace<'_>,
) -> Result<u64, NotSaved> {
    let memory = domain.memory();
    let mut obstacle = None;
    let find = |map: &mut PageMap<'_>| match domain.domain().free_pages(memory, map) {
        Ok(free) => (free.contents, free.pages),
        Err(doubt) => {
            match doubt {
                FreeListError::Added(address) => obstacle = Some(Obstacle::AddedMemory(address)),
                _ => machine.say(&Event::FreeInDoubt(doubt)),
            }
            (FreeContents::Zeros, 0)
        }
    };
    let left_out = workspace.leave_out(memory, machine.workers(), find);
    match (obstacle, left_out) {
        (Some(obstacle), _) => Err(NoSleep::Obstacle(obstacle).into()),
        (None, Err(SaveError::Workspace(no_room))) => Err(NotArmed::Workspace(no_room).into()),
        (None, left_out) => left_out.map_err(NotSaved::from),
    }
}
