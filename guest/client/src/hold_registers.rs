//! Checks that Linux keeps a program's registers while the kernel runs. The floating-point
//! registers are checked over system calls. The vector registers, if the hart has them, are checked
//! over page faults: a system call discards vector registers, an exception does not.
//!
//! Linux turns both units Off at each kernel entry, and leaves the registers in the hart until
//! another task needs them. So a cut at such an instant must keep the registers of a unit that is
//! Off.
//!
//! The program runs until it is killed. If a register has changed, the program prints the
//! register's name and ends with exit status 1.
//!
//! `hold-registers mem` writes this word to `/sys/power/state`, and checks the floating-point
//! registers over that call alone, in which the machine sleeps.
#![no_std]
#![no_main]

use core::arch::asm;
use core::ffi::CStr;
use core::fmt::Write;

use poorwill_guest_entry::{Arguments, STDERR, STDOUT, Stream, exit};
use rustix::fd::AsRawFd;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

poorwill_guest_entry::start!(main);

const PAGE: usize = 4096;
/// Pages that the program makes Linux map while the vector registers are filled.
const PAGES: usize = 32;
/// Bytes of the longest vector register that is checked.
const MAX_VLENB: usize = 128;

/// Returns the exit status.
fn main(arguments: Arguments) -> u8 {
    let held = match arguments.get(1) {
        None => hold().map(Some),
        Some(state) => hold_over(state),
    };
    match held {
        Ok(None) => 0,
        Ok(Some(lost)) => {
            say(
                STDOUT,
                format_args!("\nhold-registers: FAIL {lost} was lost\n"),
            );
            1
        }
        Err(error) => {
            say(STDERR, format_args!("\nhold-registers: FAIL {error}\n"));
            2
        }
    }
}

/// Name of the first register that changed.
type Lost = arrayvec::ArrayString<16>;

/// Makes the machine sleep, and returns the first register that changed.
fn hold_over(state: &CStr) -> Result<Option<Lost>, Errno> {
    const WRITE: usize = 64;
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let power = open(c"/sys/power/state", flags, Mode::empty())?;
    let (file, word) = (power.as_raw_fd().unsigned_abs() as usize, state.to_bytes());
    // SAFETY: the call reads the word, which lives as long as the program.
    let (result, lost) =
        unsafe { lost_float([WRITE, file, word.as_ptr() as usize, word.len()], 0) };
    let refused = i32::try_from(result).ok().filter(|result| *result < 0);
    match refused {
        Some(error) => Err(Errno::from_raw_os_error(-error)),
        None => Ok(lost.map(|number| named(format_args!("f{number}")))),
    }
}

/// Returns when a register has changed.
fn hold() -> Result<Lost, Errno> {
    const GETRANDOM: usize = 278;
    let flags = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: the kernel chooses addresses that nothing uses.
    let pages = unsafe { mmap_anonymous(core::ptr::null_mut(), PAGES * PAGE, flags.0, flags.1) }?;
    let has_vector = has_vector();
    for turn in 0_u64.. {
        // Makes Linux write random bytes.
        let call = [GETRANDOM, pages as usize, PAGES * PAGE, 0];
        // SAFETY: the call writes within the pages.
        if let (_, Some(number)) = unsafe { lost_float(call, turn) } {
            return Ok(named(format_args!("f{number}")));
        }
        if has_vector {
            // SAFETY: no reference points into these pages.
            unsafe { madvise(pages, PAGES * PAGE, Advice::LinuxDontNeed) }?;
            if let Some(number) = lost_vector(pages.cast(), turn) {
                return Ok(named(format_args!("v{number}")));
            }
        }
    }
    Ok(named(format_args!("the count")))
}

fn named(text: core::fmt::Arguments<'_>) -> Lost {
    let mut name = Lost::new();
    let _truncated = name.write_fmt(text);
    name
}

/// Fills f0 to f31, and makes a system call of this number with three arguments. Returns its result,
/// and the first changed register.
///
/// # Safety
///
/// The call may have its effects.
unsafe fn lost_float(call: [usize; 4], turn: u64) -> (isize, Option<usize>) {
    let [number, first, second, third] = call;
    let result: isize;
    let held: [u64; 32] =
        core::array::from_fn(|n| 0x3ff1_2345_6789_abcd_u64.wrapping_mul(2 * n as u64 + 1) ^ turn);
    let mut found = [0_u64; 32];
    // SAFETY: the caller allows the call; the registers are clobbered.
    unsafe {
        asm!(
            ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
            "fld f\\n, 8*\\n({held})",
            ".endr",
            "ecall",
            ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
            "fsd f\\n, 8*\\n({found})",
            ".endr",
            held = in(reg) held.as_ptr(),
            found = in(reg) found.as_mut_ptr(),
            in("a7") number,
            inout("a0") first => result,
            in("a1") second,
            in("a2") third,
            out("f0") _, out("f1") _, out("f2") _, out("f3") _, out("f4") _, out("f5") _,
            out("f6") _, out("f7") _, out("f8") _, out("f9") _, out("f10") _, out("f11") _,
            out("f12") _, out("f13") _, out("f14") _, out("f15") _, out("f16") _, out("f17") _,
            out("f18") _, out("f19") _, out("f20") _, out("f21") _, out("f22") _, out("f23") _,
            out("f24") _, out("f25") _, out("f26") _, out("f27") _, out("f28") _, out("f29") _,
            out("f30") _, out("f31") _,
            options(nostack),
        );
    }
    (result, (0..32).find(|n| found[*n] != held[*n]))
}

/// Fills v0 to v31, touches absent pages, and returns the first changed register.
fn lost_vector(pages: *mut u8, turn: u64) -> Option<usize> {
    let vlenb: usize;
    // SAFETY: this function runs only on harts with vector registers.
    unsafe { asm!("csrr {0}, 0xc22", out(reg) vlenb, options(nomem, nostack)) };
    if vlenb > MAX_VLENB {
        return None;
    }
    let held: [u8; 32 * MAX_VLENB] =
        core::array::from_fn(|n| (n as u64 * 7 + turn).to_le_bytes()[0]);
    let mut found = [0_u8; 32 * MAX_VLENB];
    // SAFETY: loads and stores 32 registers of `vlenb` bytes each, for which both arrays have room,
    // and writes within the pages. No other code here uses the registers.
    unsafe {
        asm!(
            ".option push", ".option arch, +v",
            "vl8re8.v v0, ({held})",  "add {held}, {held}, {eight}",
            "vl8re8.v v8, ({held})",  "add {held}, {held}, {eight}",
            "vl8re8.v v16, ({held})", "add {held}, {held}, {eight}",
            "vl8re8.v v24, ({held})",
            "2:", "sb zero, 0({page})", "add {page}, {page}, {step}", "bltu {page}, {end}, 2b",
            "vs8r.v v0, ({found})",  "add {found}, {found}, {eight}",
            "vs8r.v v8, ({found})",  "add {found}, {found}, {eight}",
            "vs8r.v v16, ({found})", "add {found}, {found}, {eight}",
            "vs8r.v v24, ({found})",
            ".option pop",
            held = inout(reg) held.as_ptr() => _,
            found = inout(reg) found.as_mut_ptr() => _,
            page = inout(reg) pages => _,
            step = in(reg) PAGE,
            end = in(reg) pages.add(PAGES * PAGE),
            eight = in(reg) 8 * vlenb,
            options(nostack),
        );
    }
    let used = 32 * vlenb;
    let changed = (held[..used].iter().zip(&found[..used])).position(|(held, found)| held != found);
    changed.map(|byte| byte / vlenb)
}

/// Whether Linux reports the V extension on all harts.
fn has_vector() -> bool {
    const HWPROBE: usize = 258;
    const IMA_EXT_0: u64 = 4;
    const V: u64 = 1 << 2;
    let mut pair = [IMA_EXT_0, 0];
    let answer: isize;
    // SAFETY: the call writes to the pair; no set of harts and no flags are given.
    unsafe {
        asm!(
            "ecall",
            in("a7") HWPROBE,
            inout("a0") pair.as_mut_ptr() => answer,
            in("a1") 1, in("a2") 0, in("a3") 0, in("a4") 0,
            options(nostack),
        );
    }
    answer == 0 && pair[1] & V != 0
}

fn say(to: rustix::fd::BorrowedFd<'static>, text: core::fmt::Arguments<'_>) {
    let _nobody_listens = Stream(to).write_fmt(text);
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    say(STDERR, format_args!("\nhold-registers: {info}\n"));
    exit(101)
}
