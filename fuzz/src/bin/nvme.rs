//! The NVMe driver: whatever a controller does, the driver ends within its
//! limits, lends no memory but what it was given, and gets it back.
#![cfg_attr(fuzzing, no_main)]
#![allow(
    clippy::cast_possible_truncation,
    reason = "numbers are drawn below small limits"
)]

use poorwill_fuzz::nvme::{Device, device, stamp};
use poorwill_fuzz::{Cases, Input};
use poorwill_medium::nvme::{
    ADMIN_TIMEOUT_MS, Controller, FLUSH_TIMEOUT_MS, MAX_NAMESPACES, NvmeError, NvmeMedium,
    QueueMemory, Stop, TRANSFER_TIMEOUT_MS, physical_address,
};
use poorwill_medium::{Direction, Medium, MediumError};
use poorwill_memory::fake::FakeMemory;
use poorwill_memory::{OsPage, PAGE_BYTES, Page, PhysRange, to_usize};

poorwill_fuzz::target!(max_len = 4096, run);

/// The longest that a controller may grant itself, with a look to spare.
const PATIENCE_MS: u64 = 255 * 500 + 2000;
/// Finding it stuck takes two waits.
const HALT_MS: u64 = 2 * PATIENCE_MS;

fn run(bytes: &[u8]) {
    let device = device(Input::new(bytes));
    let found = registers(&device);
    let mut memory = Box::new(QueueMemory::EMPTY);
    let queues = physical_address(&raw const *memory);
    let length = size_of::<QueueMemory>() as u64;
    // SAFETY: the driver shares it with the device by volatile accesses alone.
    unsafe { device.memory.lend(PhysRange::new(queues, length)) };
    let mut controller = match Controller::start(&device, &device, &mut memory) {
        Ok(controller) => controller,
        Err(error) => return failed_start(&device, error, found),
    };
    assert!(controller.namespaces().len() <= MAX_NAMESPACES);
    let ids: Vec<u32> = controller
        .namespaces()
        .iter()
        .map(|space| space.id)
        .collect();
    let mut os = FakeMemory::new(&[20]);
    for id in ids.into_iter().take(3) {
        if let Ok(mut medium) = controller.medium(id) {
            Session::new(&device, &mut os).use_medium(&mut medium);
        }
    }
    let how = [Stop::Handover, Stop::PowerOff][decide(&device, 2) as usize];
    let stopped = controller.stop(how);
    assert!(!is_running(&device), "it runs after it was stopped");
    if is_honest(&device) {
        assert_eq!(stopped, Ok(()));
        assert_eq!(registers(&device), found, "registers are not as they were");
    }
    assert!(os.gaps_are_intact());
}

fn failed_start(device: &Device<'_>, error: NvmeError, found: Found) {
    let commands = 5 + MAX_NAMESPACES as u64;
    let admin = commands * (u64::from(ADMIN_TIMEOUT_MS) + 2000);
    assert!(now(device) <= 2 * HALT_MS + PATIENCE_MS + admin);
    match error {
        // Then it is out of reach.
        NvmeError::Absent => {}
        NvmeError::Registers { .. } | NvmeError::Unsupported(_) => {
            assert_eq!(registers(device), found, "it was touched");
        }
        _ => assert!(!is_running(device), "it runs after a failed start"),
    }
}

/// The registers that a driver is to put back: CC without EN and SHN, the admin queue, the mask.
type Found = (u32, [u32; 5], u32);

fn registers(device: &Device<'_>) -> Found {
    let (configuration, admin, masked) = device.registers();
    (configuration & !0xc001, admin, masked)
}

/// Whether it could access memory on its own.
fn is_running(device: &Device<'_>) -> bool {
    device.with(|one| one.core.is_running())
}

/// Whether a command that moves data may still do so.
fn is_busy(device: &Device<'_>) -> bool {
    is_running(device) && device.with(|one| one.core.pending.iter().any(|one| one.queue == 1))
}

/// Whether it has been honest so far.
fn is_honest(device: &Device<'_>) -> bool {
    device.with(|one| one.hooks.is_honest)
}

/// Milliseconds gone by, without looking at the clock.
fn now(device: &Device<'_>) -> u64 {
    device.with(|one| one.core.now)
}

/// Something for the driver's user to decide by.
fn decide(device: &Device<'_>, limit: u64) -> u64 {
    device.with(|one| one.hooks.input.below(limit))
}

type Nvme<'c, 'a, 'd, 'i> = NvmeMedium<'c, 'a, &'d Device<'i>, &'d Device<'i>>;

/// What is done with one namespace.
struct Session<'s, 'd, 'i> {
    device: &'d Device<'i>,
    os: &'s mut FakeMemory,
    /// Tag, direction, offset and pages of transfers under way.
    started: Vec<(u32, Direction, u64, Vec<OsPage>)>,
    tag: u32,
}

impl<'s, 'd, 'i> Session<'s, 'd, 'i> {
    fn new(device: &'d Device<'i>, os: &'s mut FakeMemory) -> Self {
        Session {
            device,
            os,
            started: Vec::new(),
            tag: 0,
        }
    }

    fn use_medium(&mut self, medium: &mut Nvme<'_, '_, 'd, 'i>) {
        for _ in 0..decide(self.device, 12) {
            let begin = now(self.device);
            match decide(self.device, 6) {
                0 | 1 => self.start(medium),
                2 => self.poll(medium),
                3 => self.wait(medium, Direction::Read),
                4 => self.wait(medium, Direction::Write),
                _ => {
                    let flushed = medium.flush();
                    assert!(!matches!(flushed, Err(MediumError::Misaligned(_))));
                    self.settle(medium, flushed);
                }
            }
            // Each of the commands may be answered just in time.
            let commands = 2 + medium.depth() as u64 + 20;
            let limit = u64::from(FLUSH_TIMEOUT_MS.max(TRANSFER_TIMEOUT_MS)) + 2000;
            assert!(now(self.device) - begin <= commands * limit + HALT_MS);
        }
        self.quiesce(medium);
    }

    fn start(&mut self, medium: &mut Nvme<'_, '_, 'd, 'i>) {
        let busy: Vec<OsPage> = self.started.iter().flat_map(|one| one.3.clone()).collect();
        let os = self.os.os();
        let free = os
            .iter()
            .map(|(_, page)| page)
            .filter(|page| !busy.contains(page));
        let pages: Vec<OsPage> = free.take(to_usize(decide(self.device, 18))).collect();
        let direction = [Direction::Read, Direction::Write][decide(self.device, 2) as usize];
        let offset = self.offset(medium);
        for page in &pages {
            let range = PhysRange::new(page.address(), PAGE_BYTES);
            // SAFETY: the pages are looked at only when the transfer is over.
            unsafe { self.device.memory.lend(range) };
        }
        self.tag += 1;
        match medium.start(direction, offset, &pages, self.tag) {
            Ok(()) => {
                assert!((1..=medium.max_pages()).contains(&pages.len()));
                self.started.push((self.tag, direction, offset, pages));
                assert!(self.started.len() <= medium.depth());
            }
            Err(_) => self.take_back(&pages),
        }
    }

    fn take_back(&self, pages: &[OsPage]) {
        pages
            .iter()
            .for_each(|page| self.device.memory.take_back(page.address()));
    }

    fn poll(&mut self, medium: &mut Nvme<'_, '_, 'd, 'i>) {
        match medium.poll() {
            Ok(None) => {}
            Ok(Some(tag)) => {
                let place = self.started.iter().position(|one| one.0 == tag);
                let place = place.expect("a tag that was started, once");
                let (_, direction, offset, pages) = self.started.swap_remove(place);
                self.take_back(&pages);
                for (number, page) in (0..).zip(&pages) {
                    if direction == Direction::Read && is_honest(self.device) {
                        let word = self.os.os().page(*page).0[0];
                        assert_eq!(word, stamp(offset + number * PAGE_BYTES));
                    }
                }
            }
            Err(error) => {
                assert!(!is_honest(self.device), "{error}");
                self.quiesce(medium);
            }
        }
    }

    /// Reads or writes and waits for it; then the device is done with it.
    fn wait(&mut self, medium: &mut Nvme<'_, '_, 'd, 'i>, direction: Direction) {
        let mut pages = vec![Page::ZERO; to_usize(decide(self.device, 70))];
        let offset = self.offset(medium);
        let range = PhysRange::new(
            physical_address(pages.as_mut_ptr()),
            pages.len() as u64 * PAGE_BYTES,
        );
        // SAFETY: the pages are not looked at until the call returns.
        unsafe { self.device.memory.lend(range) };
        let outcome = match direction {
            Direction::Read => medium.read(offset, &mut pages),
            Direction::Write => medium.write(offset, &pages),
        };
        self.device.memory.take_back(range.start);
        if outcome.is_ok() && direction == Direction::Read && is_honest(self.device) {
            for (number, page) in (0..).zip(&pages) {
                assert_eq!(page.0[511], stamp(offset + number * PAGE_BYTES));
            }
        }
        if matches!(
            outcome,
            Err(MediumError::TimedOut(_) | MediumError::Protocol)
        ) {
            assert!(!is_running(self.device), "it was not stopped");
        }
        self.settle(medium, outcome);
        // Touches the memory that was taken back, were it still used.
        if self.started.is_empty() {
            assert!(!is_busy(self.device), "something is under way still");
        }
    }

    /// A failure that is told while others are under way may be theirs: they
    /// are given up.
    fn settle(&mut self, medium: &mut Nvme<'_, '_, 'd, 'i>, outcome: Result<(), MediumError>) {
        if matches!(
            outcome,
            Err(MediumError::Device { .. } | MediumError::Flush(_))
        ) {
            self.quiesce(medium);
        }
    }

    fn offset(&self, medium: &Nvme<'_, '_, 'd, 'i>) -> u64 {
        match decide(self.device, 8) {
            0 => decide(self.device, 1 << 16),
            1 => medium
                .capacity()
                .saturating_sub(decide(self.device, 4) * PAGE_BYTES),
            _ => decide(self.device, 256) * PAGE_BYTES,
        }
    }

    fn quiesce(&mut self, medium: &mut Nvme<'_, '_, 'd, 'i>) {
        medium.quiesce();
        assert!(!is_busy(self.device), "something is under way still");
        for (_, _, _, pages) in std::mem::take(&mut self.started) {
            self.take_back(&pages);
        }
    }
}
