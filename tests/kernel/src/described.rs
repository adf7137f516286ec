//! A description of this kernel like Linux's own (VMCOREINFO and kallsyms), by which the firmware finds
//! the function that begins a suspend. The function is at a high address, as Linux is.

#![allow(
    clippy::cast_possible_truncation,
    reason = "lengths and offsets are small"
)]

use crate::{
    arch::translated::{self, EXECUTE, READ, WRITE},
    read_csr, write_csr,
};
use arrayvec::ArrayString;
use core::arch::{asm, global_asm, naked_asm};
use core::cell::UnsafeCell;
use core::fmt::Write;

const PAGE: usize = 4096;

/// Start of the last 2 GiB, where Linux has its image.
const IMAGE: usize = 0xffff_ffff_8000_0000;

/// The image's pages, by their numbers.
const TABLES: usize = 0;
const CODE: usize = 1;
const DATA: usize = 2;
const NOTE: usize = 3;

/// Places in the page of tables.
const INDEX: usize = 0;
const TEXTS: usize = 512;
const OFFSETS: usize = 1024;
const COUNT: usize = 1536;
const BASE: usize = 1544;
const NAMES: usize = 2048;

#[repr(C, align(4096))]
struct Page(UnsafeCell<[u8; PAGE]>);

// SAFETY: the boot hart writes it before other harts run.
unsafe impl Sync for Page {}

static PAGES: [Page; 3] = [const { Page(UnsafeCell::new([0; PAGE])) }; 3];

/// The symbols and their addresses.
const SYMBOLS: [(&str, usize); 4] = [
    ("_stext", IMAGE),
    ("swapper_pg_dir", IMAGE + 8),
    ("vmcoreinfo_note", IMAGE + DATA * PAGE),
    ("dpm_suspend_start", IMAGE + CODE * PAGE),
];

/// Writes the description, and maps it.
pub(crate) fn set_up() {
    let [tables, data, note] = &PAGES;
    let write = |page: &Page, at: usize, bytes: &[u8]| {
        // SAFETY: no other hart runs, and no reference into the page is left.
        unsafe { (&mut *page.0.get())[at..at + bytes.len()].copy_from_slice(bytes) };
    };
    for token in 0..256_usize {
        write(tables, INDEX + 2 * token, &(2 * token as u16).to_le_bytes());
        write(tables, TEXTS + 2 * token, &[token as u8, 0]);
    }
    let mut names = NAMES;
    for (number, (name, address)) in SYMBOLS.iter().enumerate() {
        let offset = (address - IMAGE) as u32;
        write(tables, OFFSETS + 4 * number, &offset.to_le_bytes());
        write(tables, names, &[1 + name.len() as u8, b'T']);
        write(tables, names + 2, name.as_bytes());
        names += 2 + name.len();
    }
    write(tables, COUNT, &(SYMBOLS.len() as u32).to_le_bytes());
    write(tables, BASE, &IMAGE.to_le_bytes());
    write(data, 0, &(IMAGE + NOTE * PAGE).to_le_bytes());
    let text = text();
    let sizes = 11 | (text.len() as u64) << 32;
    write(note, 0, &sizes.to_le_bytes());
    write(note, 12, b"VMCOREINFO\0\0");
    write(note, 24, text.as_bytes());
    let code = suspend_start as *const () as usize;
    let of = |page: &Page| core::ptr::from_ref(page).addr();
    for (number, physical, flags) in [
        (TABLES, of(tables), READ),
        (CODE, code, READ | EXECUTE),
        (DATA, of(data), READ | WRITE),
        (NOTE, of(note), READ | WRITE),
    ] {
        translated::map_image(number, physical, flags);
    }
}

/// The note's text.
fn text() -> ArrayString<1024> {
    let mut text = ArrayString::new();
    for (key, address) in [
        ("_stext", IMAGE),
        ("swapper_pg_dir", IMAGE + 8),
        ("kallsyms_names", IMAGE + NAMES),
        ("kallsyms_num_syms", IMAGE + COUNT),
        ("kallsyms_token_table", IMAGE + TEXTS),
        ("kallsyms_token_index", IMAGE + INDEX),
        ("kallsyms_offsets", IMAGE + OFFSETS),
        ("kallsyms_relative_base", IMAGE + BASE),
    ] {
        writeln!(text, "SYMBOL({key})={address:x}").expect("the note has room");
    }
    text
}

/// Calls the function that begins a suspend, by its high address. Translation is on. A trigger may
/// stop the hart there.
pub(crate) fn begin_suspend() -> usize {
    let at = IMAGE + CODE * PAGE;
    let answer;
    // SAFETY: the function is mapped there, and uses a0 alone.
    unsafe { asm!("jalr ra, 0({at})", at = in(reg) at, out("a0") answer, out("ra") _) };
    answer
}

unsafe extern "C" {
    /// The function: it returns 42. It has a page of its own.
    safe fn suspend_start() -> usize;
}

global_asm!(
    ".section .text.suspend_start, \"ax\"",
    ".balign 4096",
    ".global suspend_start",
    "suspend_start:",
    "li      a0, 42",
    "ret",
    ".balign 4096",
    ".section .text",
);

/// SPP, SPIE and SIE.
const OF_TRAPS: usize = 0x122;

/// What a handler finds after a breakpoint of S-mode: `scause`, `sepc`, `stval`, and `sstatus`'s bits of
/// traps.
pub(crate) type Breakpoint = [usize; 4];

/// Executes `ebreak`, or `c.ebreak`, with a vectored handler, and returns what that finds.
pub(crate) fn breakpoint(is_short: bool) -> Breakpoint {
    let mut found = Breakpoint::default();
    let handler = if is_short { short } else { long };
    let before = read_csr!("sstatus");
    // SAFETY: it returns as a C function does, and fills what its argument points to.
    unsafe { handler(&raw mut found) };
    write_csr!("sstatus", before);
    found[3] &= OF_TRAPS;
    found
}

macro_rules! breaks {
    ($name:ident, $instruction:literal) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name(found: *mut Breakpoint) {
            naked_asm!(
                "la    t0, 2f",
                "ori   t0, t0, 1",
                "csrrw t0, stvec, t0",
                $instruction,
                // Each other cause of a vectored handler.
                "unimp",
                ".balign 256",
                "2:",
                "csrr  t1, scause",
                "sd    t1, 0(a0)",
                "csrr  t1, sepc",
                "sd    t1, 8(a0)",
                "csrr  t1, stval",
                "sd    t1, 16(a0)",
                "csrr  t1, sstatus",
                "sd    t1, 24(a0)",
                "csrw  stvec, t0",
                "ret",
            )
        }
    };
}

breaks!(long, ".4byte 0x00100073");
breaks!(short, ".2byte 0x9002");
