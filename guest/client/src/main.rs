//! A redis client that stays connected over the guest's sleep, as redis's own clients do. After the
//! wake it is the first to ask.
//!
//! `redis-client EVENT TEXT` asks redis once, so that caches and connection are warm. It prints
//! TEXT on a line of its own, and then waits for EVENT:
//!
//! - `mem`, `disk`: writes this word to `/sys/power/state`, and continues after the wake;
//! - `wake`: waits until another program has sent the machine to sleep, and the machine is awake;
//! - `line`: waits for a line on standard input.
//!
//! Then it asks redis again. It reports the answer through the kernel's log, where no other message
//! can break up the line. On failure it writes the reason to standard error, and ends with exit
//! status 1.
#![no_std]
#![no_main]

mod error;
mod event;
mod redis;

use core::ffi::CStr;
use core::fmt::{self, Write};
use core::hint::black_box;

use arrayvec::ArrayString;
use poorwill_guest_entry::{Arguments, STDERR, STDOUT, exit, write_all};
use rustix::fd::AsFd;
use rustix::fs::{Mode, OFlags};
use rustix::io;
use rustix::time::{ClockId, Timespec, clock_gettime};

use error::Error;
use event::Event;
use redis::Redis;

/// Room for the longest report.
type Line = ArrayString<256>;

poorwill_guest_entry::start!(main);

/// Returns the exit status.
fn main(arguments: Arguments) -> u8 {
    match run(arguments.get(1), arguments.get(2)) {
        Ok(()) => 0,
        Err(error) => {
            complain(&error);
            1
        }
    }
}

fn run(event: Option<&CStr>, text: Option<&CStr>) -> Result<(), Error> {
    let (event, text) = event.zip(text).ok_or(Error::Usage)?;
    let mut event = Event::prepare(event)?;
    let flags = OFlags::WRONLY | OFlags::NOCTTY | OFlags::CLOEXEC;
    let log = rustix::fs::open(c"/dev/kmsg", flags, Mode::empty()).map_err(Error::Log)?;
    let redis = Redis::connect()?;
    redis.ping()?;
    black_box(redis_ready());
    say(STDOUT, text).map_err(Error::Text)?;

    event.happen()?;
    redis.ping()?;
    write_all(&log, redis_ready().as_bytes()).map_err(Error::Log)
}

/// The same line as after a cold boot (`common`, in the guest's scripts). With the level `alert` it
/// also reaches consoles that show hardly any messages.
fn redis_ready() -> Line {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Boottime);
    line(format_args!(
        "<1>poorwill-guest: redis ready uptime_s={tv_sec}.{:02}\n",
        tv_nsec / 10_000_000
    ))
}

fn say(to: impl AsFd, text: &CStr) -> Result<(), io::Errno> {
    write_all(&to, b"\n")?;
    write_all(&to, text.to_bytes())?;
    write_all(&to, b"\n")
}

/// Formats a text, without the end that does not fit.
fn line(text: fmt::Arguments<'_>) -> Line {
    let mut line = Line::new();
    let _truncated = line.write_fmt(text);
    line
}

/// Writes to standard error. If that fails, there is no other place for the message.
fn complain(what: &dyn fmt::Display) {
    let line = line(format_args!("\nredis-client: {what}\n"));
    let _nobody_listens = write_all(STDERR, line.as_bytes());
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    complain(info);
    exit(101)
}
