//! The NVMe driver: whatever a controller does, the driver ends within its
//! limits, lends no memory but what it was given, and gets it back.
#![cfg_attr(fuzzing, no_main)]
#![allow(
    clippy::cast_possible_truncation,
    reason = "numbers are drawn below small limits"
)]

use poorwill_fuzz::Input;
use poorwill_fuzz::nvme::{Device, RegisterValues, stamp};
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
    let device = Device::new(Input::new(bytes));
    let found = device.registers();
    let mut memory = Box::new(QueueMemory::EMPTY);
    let queues = physical_address(&raw const *memory);
    let length = size_of::<QueueMemory>() as u64;
    // SAFETY: the driver shares it with the device by volatile accesses alone.
    unsafe { device.dma.lend(PhysRange::new(queues, length)) };
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
    let how = [Stop::Handover, Stop::PowerOff][device.decide(2) as usize];
    let stopped = controller.stop(how);
    assert!(!device.is_running(), "it runs after it was stopped");
    if device.is_honest() {
        assert_eq!(stopped, Ok(()));
        assert_eq!(device.registers(), found, "registers are not as they were");
    }
    assert!(os.gaps_are_intact());
}

fn failed_start(device: &Device<'_>, error: NvmeError, found: RegisterValues) {
    let commands = 5 + MAX_NAMESPACES as u64;
    let admin = commands * (u64::from(ADMIN_TIMEOUT_MS) + 2000);
    assert!(device.now() <= 2 * HALT_MS + PATIENCE_MS + admin);
    match error {
        // Then it is out of reach.
        NvmeError::Absent => {}
        NvmeError::Registers { .. } | NvmeError::Unsupported(_) => {
            assert_eq!(device.registers(), found, "it was touched");
        }
        _ => assert!(!device.is_running(), "it runs after a failed start"),
    }
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
        for _ in 0..self.device.decide(12) {
            let begin = self.device.now();
            match self.device.decide(6) {
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
            assert!(self.device.now() - begin <= commands * limit + HALT_MS);
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
        let pages: Vec<OsPage> = free.take(to_usize(self.device.decide(18))).collect();
        let direction = [Direction::Read, Direction::Write][self.device.decide(2) as usize];
        let offset = self.offset(medium);
        for page in &pages {
            let range = PhysRange::new(page.address(), PAGE_BYTES);
            // SAFETY: the pages are looked at only when the transfer is over.
            unsafe { self.device.dma.lend(range) };
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
            .for_each(|page| self.device.dma.take_back(page.address()));
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
                    if direction == Direction::Read && self.device.is_honest() {
                        let word = self.os.os().page(*page).0[0];
                        assert_eq!(word, stamp(offset + number * PAGE_BYTES));
                    }
                }
            }
            Err(error) => {
                assert!(!self.device.is_honest(), "{error}");
                self.quiesce(medium);
            }
        }
    }

    /// Reads or writes and waits for it; then the device is done with it.
    fn wait(&mut self, medium: &mut Nvme<'_, '_, 'd, 'i>, direction: Direction) {
        let mut pages = vec![Page::ZERO; to_usize(self.device.decide(70))];
        let offset = self.offset(medium);
        let range = PhysRange::new(
            physical_address(pages.as_mut_ptr()),
            pages.len() as u64 * PAGE_BYTES,
        );
        // SAFETY: the pages are not looked at until the call returns.
        unsafe { self.device.dma.lend(range) };
        let outcome = match direction {
            Direction::Read => medium.read(offset, &mut pages),
            Direction::Write => medium.write(offset, &pages),
        };
        self.device.dma.take_back(range.start);
        if outcome.is_ok() && direction == Direction::Read && self.device.is_honest() {
            for (number, page) in (0..).zip(&pages) {
                assert_eq!(page.0[511], stamp(offset + number * PAGE_BYTES));
            }
        }
        if matches!(
            outcome,
            Err(MediumError::TimedOut(_) | MediumError::Protocol)
        ) {
            assert!(!self.device.is_running(), "it was not stopped");
        }
        self.settle(medium, outcome);
        // Touches the memory that was taken back, were it still used.
        if self.started.is_empty() {
            assert!(!self.device.is_busy(), "something is under way still");
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
        match self.device.decide(8) {
            0 => self.device.decide(1 << 16),
            1 => medium
                .capacity()
                .saturating_sub(self.device.decide(4) * PAGE_BYTES),
            _ => self.device.decide(256) * PAGE_BYTES,
        }
    }

    fn quiesce(&mut self, medium: &mut Nvme<'_, '_, 'd, 'i>) {
        medium.quiesce();
        assert!(!self.device.is_busy(), "something is under way still");
        for (_, _, _, pages) in std::mem::take(&mut self.started) {
            self.take_back(&pages);
        }
    }
}
