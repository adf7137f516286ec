//! Writes to the console by calls, again and again. The power may fail in a call, which then ends
//! early and returns the number of bytes sent.
//!
//! On the command line: `ms=N` milliseconds of writing, or `lines=N` numbered lines to write, in as few
//! calls as possible.

use core::fmt::Write;

use crate::{arch, check, console::Console, machine::Machine, say};
use arrayvec::ArrayString;

/// What a call is to send: as much as one takes at once.
const TEXT: &[u8; 256] = b"\
the quick brown poorwill sleeps all winter and wakes in spring.\n\
the quick brown poorwill sleeps all winter and wakes in spring.\n\
the quick brown poorwill sleeps all winter and wakes in spring.\n\
the quick brown poorwill sleeps all winter and wakes in spring.\n";

/// Calls in a second: between them the machine does nothing.
const RATE: u64 = 2000;

/// Time for a slow receiver to take the numbered lines, in ms. The model of SiFive's UART in QEMU says
/// that its FIFO is empty when it is not, and a power-off then loses what the FIFO holds.
const RECEIVED_MS: u64 = 500;

/// The rest of a numbered line. With its number and its end it has 64 bytes.
const OF_LINE: &str = "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ";

pub(super) fn run(machine: &Machine) {
    match machine.number("lines", 0) {
        0 => write_for_a_time(machine),
        lines => {
            write_lines(lines);
            wait_until(machine.in_ms(RECEIVED_MS));
        }
    }
}

/// Writes numbered lines, 64 at once. The runner checks that each comes once, whole and in order.
fn write_lines(lines: usize) {
    const AT_ONCE: usize = 64;
    for first in (1..=lines).step_by(AT_ONCE) {
        let mut text = ArrayString::<{ AT_ONCE * 64 }>::new();
        let last = lines.min(first + AT_ONCE - 1);
        let written = (first..=last).try_for_each(|line| writeln!(text, "{line:09} {OF_LINE}"));
        check!(written.is_ok(), "the lines have room");
        let sent = Console.write_str(&text);
        check!(sent.is_ok(), "lines {first} to {last} are sent");
    }
}

fn wait_until(time: u64) {
    while arch::time() < time {
        core::hint::spin_loop();
    }
}

fn write_for_a_time(machine: &Machine) {
    let end = machine.in_ms(machine.number("ms", 100) as u64);
    say!("dbcn: begins");
    let (mut calls, mut bytes, mut partial) = (0, 0, 0);
    let mut left = &TEXT[..];
    while arch::time() < end {
        let next = arch::time() + machine.timebase / RATE;
        let sent = write(left);
        check!(
            sent.is_some_and(|sent| sent <= left.len()),
            "a call sends {sent:?} of {} bytes",
            left.len()
        );
        let sent = sent.unwrap_or(0);
        calls += 1;
        bytes += sent;
        partial += usize::from(sent < left.len());
        left = &left[sent..];
        if left.is_empty() {
            left = &TEXT[..];
        }
        wait_until(next);
    }
    // Nothing is left out, whatever was sent in which call.
    while !left.is_empty() {
        left = &left[write(left).unwrap_or(0)..];
    }
    say!("dbcn: {bytes} bytes in {calls} calls, {partial} partial");
}

/// How much of that a call sends.
fn write(bytes: &[u8]) -> Option<usize> {
    let address = bytes.as_ptr().addr();
    let memory = sbi_rt::Physical::new(bytes.len(), address, 0);
    sbi_rt::console_write(memory).into_result().ok()
}
