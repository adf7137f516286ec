//! Address translation (Sv39): an identity map, and second addresses for a few pages.

use crate::{arch::guard, read_csr, write_csr};
use core::arch::{asm, global_asm};
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering};

const PAGE: usize = 4096;
const ENTRIES: usize = 512;

/// Flags of an entry.
pub(crate) const READ: usize = 1 << 1;
/// Likewise.
pub(crate) const WRITE: usize = 1 << 2;
/// Likewise.
pub(crate) const EXECUTE: usize = 1 << 3;
/// Likewise.
pub(crate) const USER: usize = 1 << 4;
pub(super) const VALID: usize = 1;
pub(super) const ACCESSED_DIRTY: usize = 3 << 6;
/// Likewise.
pub(crate) const GLOBAL: usize = 1 << 5;

#[repr(C, align(4096))]
pub(super) struct Table(pub(super) [AtomicUsize; ENTRIES]);

impl Table {
    pub(super) const fn empty() -> Table {
        Table([const { AtomicUsize::new(0) }; ENTRIES])
    }
}

static TABLES: [Table; 3] = [const { Table::empty() }; 3];

static IMAGE_TABLES: [Table; 2] = [const { Table::empty() }; 2];

/// Entries of the identity map.
const GIBIBYTES: usize = 4;

/// The entry of the root for the pages of [`map_image`], and the first one's address.
const IMAGE: usize = 510;
const IMAGE_START: usize = 0xffff_ffff_8000_0000;

/// The entry of the root for the pages of [`map`].
const SECOND_TIME: usize = 8;

unsafe extern "C" {
    /// Loads a double word from the address in a0, and returns; on a page of its own.
    safe fn load_on_a_page();
}

global_asm!(
    ".section .text.load_on_a_page, \"ax\"",
    ".balign 4096",
    ".global load_on_a_page",
    "load_on_a_page:",
    "ld      a0, 0(a0)",
    "ret",
    ".balign 4096",
    ".section .text",
);

/// The page of code that [`load_by`] runs.
pub(crate) fn page_of_code() -> usize {
    load_on_a_page as *const () as usize
}

/// Runs `job` with translation on.
pub(crate) fn with(job: impl FnOnce()) {
    set_satp(prepare());
    job();
    set_satp(0);
}

/// Runs `job` with translation on, and with a physical page as a kernel's text, to which `stvec` leads:
/// the job must not trap. The identity map is in all address spaces. `job` gets the text's address.
pub(crate) fn with_text(physical: usize, job: impl FnOnce(usize)) {
    let satp = prepare();
    for entry in TABLES[0].0.iter().take(GIBIBYTES) {
        entry.fetch_or(GLOBAL, Ordering::Relaxed);
    }
    map_image(0, physical, READ | EXECUTE | GLOBAL);
    let before = read_csr!("stvec");
    write_csr!("stvec", IMAGE_START);
    set_satp(satp);
    job(IMAGE_START);
    set_satp(0);
    write_csr!("stvec", before);
}

/// Turns translation on, on the calling hart. A wake turns it off.
pub(crate) fn turn_on() {
    set_satp(prepare());
}

/// Fills the tables, and returns their value of `satp`.
fn prepare() -> usize {
    let [root, middle, low] = &TABLES;
    let table = |table: &Table| core::ptr::from_ref(table).addr();
    for (gibibyte, entry) in root.0.iter().take(GIBIBYTES).enumerate() {
        let flags = VALID | READ | WRITE | EXECUTE | ACCESSED_DIRTY;
        entry.store(gibibyte << 28 | flags, Ordering::Relaxed);
    }
    root.0[SECOND_TIME].store(table(middle) >> 2 | VALID, Ordering::Relaxed);
    middle.0[0].store(table(low) >> 2 | VALID, Ordering::Relaxed);
    satp_of(root)
}

/// The value of `satp` for Sv39 by a root.
pub(super) fn satp_of(root: &Table) -> usize {
    8 << 60 | core::ptr::from_ref(root).addr() >> 12
}

/// Maps a physical page as the `number`th of the last 2 GiB, where kernels have their images.
pub(crate) fn map_image(number: usize, physical: usize, flags: usize) {
    let [middle, low] = &IMAGE_TABLES;
    let table = |table: &Table| core::ptr::from_ref(table).addr() >> 2 | VALID;
    let entry = physical >> 2 | flags | VALID | ACCESSED_DIRTY;
    low.0[number].store(entry, Ordering::Relaxed);
    middle.0[0].store(table(low), Ordering::Relaxed);
    TABLES[0].0[IMAGE].store(table(middle), Ordering::Relaxed);
}

pub(super) fn set_satp(value: usize) {
    write_csr!("satp", value);
    fence();
}

/// Maps a physical page for the `number`th time, and returns at which address. What
/// was mapped there before may be used until [`fence`] is called.
pub(crate) fn map(number: usize, physical: usize, flags: usize) -> usize {
    let entry = physical >> 2 | flags | VALID | ACCESSED_DIRTY;
    TABLES[2].0[number].store(entry, Ordering::Relaxed);
    place(number).start
}

/// Where the page that is mapped for the `number`th time is.
pub(crate) fn place(number: usize) -> Range<usize> {
    let start = (SECOND_TIME << 30) + number * PAGE;
    start..start + PAGE
}

/// Takes the page away; until [`fence`] is called the hart may go on using it.
pub(crate) fn unmap(number: usize) {
    TABLES[2].0[number].store(0, Ordering::Relaxed);
}

/// Forgets what translations were.
pub(crate) fn fence() {
    // SAFETY: what is used is mapped as it was.
    unsafe { asm!("sfence.vma") };
}

/// Has the code at `code`, one of the addresses of [`page_of_code`], load from `address`.
pub(crate) fn load_by(code: usize, address: usize) -> Result<usize, usize> {
    guard::call(code, address)
}
