//! Machines asleep on disks.

use std::fs;

use poorwill_image::SealingKey;
use poorwill_medium::Window;
use poorwill_medium::fake::FakeMedium;
use poorwill_memory::{MachineIdentity, Page};
use poorwill_store::{Area, Purpose, RecordFormat, fake, find_areas};
use poorwill_vault::RollbackCounter;

use super::common::{World, open_vault};

/// The domains of a machine that sleeps as a set.
pub(crate) const DOMAINS: [&str; 2] = ["critical", "linux"];

/// A machine, and how it sleeps.
pub(crate) struct Asleep<'a> {
    /// The file with its vault, in which its key is.
    pub(crate) flash: Option<&'a str>,
    /// Pages that its OS has; every other one is in use.
    pub(crate) os_pages: u64,
    /// The image is marked as woken.
    pub(crate) consume: bool,
    /// Whether it is a snapshot.
    pub(crate) purpose: Purpose,
    /// Which machine it is.
    pub(crate) identity: MachineIdentity,
    /// Owners and versions of its state's sections.
    pub(crate) state: &'a [(u32, u16)],
}

impl Asleep<'_> {
    /// Puts it to sleep on the disk `file`.
    pub(crate) fn on(&self, world: &World, file: &str) {
        let mut vault = self.flash.map(|flash| open_vault(&world.path(flash)));
        let key = vault
            .as_ref()
            .map(|vault| SealingKey::new(*vault.key().unwrap().bytes()));
        let bytes = fs::read(world.path(file)).unwrap();
        let mut disk = FakeMedium::new(bytes.len() as u64);
        disk.edit(|room| room.copy_from_slice(&bytes));
        self.sleep(&mut disk, vault.as_mut(), key.as_ref());
        fs::write(world.path(file), disk.bytes()).unwrap();
    }

    fn sleep(
        &self,
        disk: &mut FakeMedium,
        vault: Option<&mut impl RollbackCounter>,
        key: Option<&SealingKey>,
    ) {
        let counter = vault.map(|vault| vault as &mut dyn RollbackCounter);
        let mut scratch = [Page::ZERO];
        let location = find_areas(disk, 512, &mut scratch).unwrap()[0];
        let window = Window::new(disk, location.start, location.length).unwrap();
        let format = self.purpose.format();
        let mut area = Area::open(window, &mut scratch[0], counter, format).unwrap();
        let asleep = fake::Asleep {
            os_pages: self.os_pages,
            one_used_in: 2,
            purpose: self.purpose,
            identity: self.identity,
            state: self.state,
            key,
        };
        match format {
            RecordFormat::Image => asleep.commit(&mut area),
            RecordFormat::Set => asleep.commit_set(&mut area, &DOMAINS),
        }
        if self.consume {
            let image = area.newest().unwrap();
            area.admit(&image).unwrap();
        }
    }
}
