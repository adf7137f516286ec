//! Attacks by a disk: an NVMe controller whose addresses name what is not the domain's.

use crate::aplic::IDENTITY;
use crate::nvme::{Nvme, Outcome, PAGE, Page, READ, TRANSFER_ERROR, Transfer, WRITE, own_queues};
use crate::orders::Orders;
use crate::output::say;
use crate::probe::{clear_pending, is_pending, read, spin, write};
use crate::watch;

/// Registers of configuration space: commands with status, and the first capability.
const PCI_COMMAND: u64 = 4;
const PCI_CAPABILITIES: u64 = 0x34;
/// Memory and DMA are on.
const ACTIVE: u32 = 0b110;
/// The function raises INTx.
const INTX: u32 = 1 << 19;
/// The ID of MSI-X, and the bit of its control that turns it on.
const MSI_X: u32 = 0x11;
const MSI_X_ON: u32 = 1 << 31;

/// Time in which a watcher starts, in units of 100 ns.
const PAUSE: u64 = 2_000_000;

/// Blocks of the disk: what is written to memory, and what was read from it.
const SENT: u64 = 0;
const FOUND: u64 = 64;

/// A word that is nowhere else.
const MARK: u64 = 0x6d61_726b_6d61_726b;

/// Data: the first page of a transfer, its list, and the list's pages.
static DATA: Page = Page::new();
static LIST: Page = Page::new();
static LISTED: [Page; 2] = [const { Page::new() }; 2];

/// The bytes of a transfer without a list, and of one with a list.
const SHORT: u64 = 512;
const LONG: u64 = 3 * PAGE;

/// Lets the disk reach its own domain in each way, and then everything else. Returns the number of
/// failures.
pub(crate) fn run(orders: &Orders, addresses: &[u64]) -> usize {
    write(orders.configuration + PCI_COMMAND, ACTIVE);
    let disk = Disk {
        nvme: Nvme(orders.device),
        configuration: orders.configuration,
    };
    // The watcher looks by then.
    spin(PAUSE);
    let mut failed = disk.reaches_own(orders.file);
    let block = watch::block_in(orders.foreign_memory).next_multiple_of(PAGE);
    let program = orders.foreign_memory;
    for address in addresses.iter().chain([&block, &program]) {
        failed += disk.attack(address & !(PAGE - 1));
    }
    // It still works.
    failed + disk.reaches_own(orders.file)
}

struct Disk {
    nvme: Nvme,
    configuration: u64,
}

impl Disk {
    /// Number of the ways in which the disk does not reach its own domain.
    fn reaches_own(&self, file: u64) -> usize {
        self.set_messages(None);
        DATA.fill(MARK);
        let mut is_good = self.short(WRITE, DATA.address(), SENT) == Outcome::Done(0);
        let has_intx = read(self.configuration + PCI_COMMAND) & INTX != 0;
        DATA.fill(0);
        is_good &= self.short(READ, DATA.address(), SENT) == Outcome::Done(0);
        is_good &= DATA
            .words()
            .take(SHORT as usize / 8)
            .all(|word| word == MARK);

        // A write to the file, and a message.
        DATA.fill(IDENTITY as u64);
        is_good &= self.short(WRITE, DATA.address(), SENT) == Outcome::Done(0);
        let has_forged = raises(|| self.short(READ, file, SENT));
        self.set_messages(Some(file));
        let has_message = raises(|| self.short(READ, DATA.address(), SENT));
        self.set_messages(None);

        let all = [
            ("transfers", is_good),
            ("lists", self.lists()),
            ("raises INTx", has_intx),
            ("writes to its file", has_forged),
            ("sends messages", has_message),
        ];
        let mut missing = 0;
        for (what, _) in all.iter().filter(|(_, is_there)| !is_there) {
            say(format_args!("FAIL: the disk never {what}"));
            missing += 1;
        }
        missing
    }

    /// Whether transfers by a list reach the domain's own memory.
    fn lists(&self) -> bool {
        let pages = [&DATA, &LISTED[0], &LISTED[1]];
        (pages.iter().zip(1..)).for_each(|(page, number)| page.fill(MARK + number));
        (0..2).for_each(|place| LIST.set(place, LISTED[place].address()));
        let is_out = self.long(WRITE, LIST.address(), FOUND) == Outcome::Done(0);
        pages.iter().for_each(|page| page.fill(0));
        let is_back = self.long(READ, LIST.address(), FOUND) == Outcome::Done(0);
        let has = |(page, number): (&&Page, u64)| page.words().all(|word| word == MARK + number);
        is_out && is_back && pages.iter().zip(1..).all(has)
    }

    /// Names a foreign page in each way in which a controller accesses memory. Returns the number
    /// of accesses that may have passed. The watcher looks for the identity, too.
    fn attack(&self, foreign: u64) -> usize {
        let mut failed = self.reads(foreign);
        DATA.fill(IDENTITY as u64);
        self.short(WRITE, DATA.address(), SENT);
        self.short(READ, foreign, SENT);
        // The list lies there; or it names the page.
        let listed = self.long(READ, foreign, SENT);
        LIST.fill(foreign);
        self.long(READ, LIST.address(), SENT);
        self.set_messages(Some(foreign));
        self.short(READ, DATA.address(), SENT);
        self.set_messages(None);
        let outcomes = (0..4).map(|queue| {
            let mut queues = own_queues();
            queues[queue] = foreign;
            self.nvme.run(queues, short(READ, DATA.address(), SENT))
        });
        let list = [(listed, Outcome::Done(TRANSFER_ERROR))].into_iter();
        let all = list.chain(outcomes.map(|outcome| (outcome, Outcome::Failed)));
        for (place, (outcome, _)) in all.enumerate().filter(|(_, (is, must))| is != must) {
            say(format_args!(
                "FAIL: disk, {foreign:#x}, {place}: {outcome:?}"
            ));
            failed += 1;
        }
        failed
    }

    /// Number of words that the disk reads from a foreign page. QEMU writes zeros in place of what
    /// it cannot read.
    fn reads(&self, foreign: u64) -> usize {
        DATA.fill(MARK);
        self.short(WRITE, DATA.address(), FOUND);
        self.short(WRITE, foreign, FOUND);
        DATA.fill(1);
        self.short(READ, DATA.address(), FOUND);
        let words = DATA.words().take(SHORT as usize / 8);
        let read = words.filter(|word| ![0, MARK].contains(word)).count();
        if read > 0 {
            say(format_args!(
                "FAIL: the disk reads {read} words at {foreign:#x}"
            ));
        }
        read
    }

    fn short(&self, opcode: u64, page: u64, block: u64) -> Outcome {
        self.nvme.transfer(short(opcode, page, block))
    }

    /// Moves [`LONG`] bytes: a page of data, and two by a list.
    fn long(&self, opcode: u64, list: u64, block: u64) -> Outcome {
        self.nvme.transfer(Transfer {
            opcode,
            pages: [DATA.address(), list],
            block,
            bytes: LONG,
        })
    }

    /// Lets the controller send the identity to an address by MSI-X, or use INTx. The table is in
    /// the first BAR.
    fn set_messages(&self, to: Option<u64>) {
        let mut capability = u64::from(read(self.configuration + PCI_CAPABILITIES) & 0xfc);
        while read(self.configuration + capability) & 0xff != MSI_X {
            capability = u64::from(read(self.configuration + capability) >> 8 & 0xfc);
            assert!(capability != 0, "the controller has MSI-X");
        }
        let table = u64::from(read(self.configuration + capability + 4));
        let entry = self.nvme.0 + table;
        let address = to.unwrap_or(0);
        let words = [address as u32, (address >> 32) as u32, IDENTITY as u32, 0];
        for (offset, value) in (0..).step_by(4).zip(words) {
            write(entry + offset, value);
        }
        let on = if to.is_some() { MSI_X_ON } else { 0 };
        write(self.configuration + capability, on);
    }
}

/// A transfer of [`SHORT`] bytes.
fn short(opcode: u64, page: u64, block: u64) -> Transfer {
    Transfer {
        opcode,
        pages: [page, 0],
        block,
        bytes: SHORT,
    }
}

/// Whether a transfer makes the identity pending in the hart's own file.
fn raises(transfer: impl FnOnce() -> Outcome) -> bool {
    clear_pending(IDENTITY);
    let outcome = transfer();
    let is_raised = is_pending(IDENTITY);
    clear_pending(IDENTITY);
    is_raised && outcome == Outcome::Done(0)
}
