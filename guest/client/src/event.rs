//! The event after which the client asks redis again.

use core::ffi::CStr;
use core::str;

use poorwill_guest_entry::STDIN;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{self, retry_on_intr};
use rustix::thread::nanosleep;
use rustix::time::Timespec;

use crate::error::Error;

/// A prepared event: after the preparation only the event itself is left.
#[derive(Debug)]
pub(crate) enum Event {
    Sleep { state: OwnedFd, word: &'static [u8] },
    Wake { slept: Count, failed: Count },
    Line,
}

impl Event {
    pub(crate) fn prepare(name: &CStr) -> Result<Self, Error> {
        match name.to_bytes() {
            b"mem" => Self::sleep(b"mem"),
            b"disk" => Self::sleep(b"disk"),
            b"wake" => Ok(Event::Wake {
                slept: Count::open("/sys/power/suspend_stats/success")?,
                failed: Count::open("/sys/power/suspend_stats/fail")?,
            }),
            b"line" => Ok(Event::Line),
            _ => Err(Error::Usage),
        }
    }

    fn sleep(word: &'static [u8]) -> Result<Self, Error> {
        const STATE: &str = "/sys/power/state";
        let state = open(STATE, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| Error::Open(STATE, errno))?;
        Ok(Event::Sleep { state, word })
    }

    /// Sends the machine to sleep, or waits for the event. Returns when the event is over.
    pub(crate) fn happen(&mut self) -> Result<(), Error> {
        match self {
            // An interrupted write is not repeated: it would sleep twice.
            Event::Sleep { state, word } => {
                io::write(state, word).map_err(Error::Refused).map(drop)
            }
            Event::Wake { slept, failed } => wait_for_wake(slept, failed),
            Event::Line => wait_for_line(),
        }
    }
}

/// Watches the kernel's counts of sleeps, since Linux does not notify programs of a wake. Its
/// clocks (`TFD_TIMER_CANCEL_ON_SET`, `CLOCK_BOOTTIME`) would miss a short sleep: they take the
/// slept time from a real-time clock with whole seconds.
fn wait_for_wake(slept: &mut Count, failed: &mut Count) -> Result<(), Error> {
    const PAUSE: Timespec = Timespec {
        tv_sec: 0,
        tv_nsec: 5_000_000,
    };
    const LIMIT_S: u32 = 180;
    for _ in 0..LIMIT_S * 200 {
        if slept.has_changed()? {
            return Ok(());
        }
        if failed.has_changed()? {
            return Err(Error::Failed);
        }
        // A signal may shorten the pause, which does no harm.
        let _slept = nanosleep(&PAUSE);
    }
    Err(Error::Awake(LIMIT_S))
}

fn wait_for_line() -> Result<(), Error> {
    let mut byte = [0];
    while byte != *b"\n" {
        if retry_on_intr(|| io::read(STDIN, &mut byte)).map_err(Error::Line)? == 0 {
            return Err(Error::NoLine);
        }
    }
    Ok(())
}

/// A number in one of the kernel's files, with its value at the start.
#[derive(Debug)]
pub(crate) struct Count {
    file: OwnedFd,
    first: u64,
}

impl Count {
    fn open(path: &'static str) -> Result<Self, Error> {
        let file = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| Error::Open(path, errno))?;
        let mut count = Count { file, first: 0 };
        count.first = count.read()?;
        Ok(count)
    }

    fn has_changed(&self) -> Result<bool, Error> {
        Ok(self.read()? != self.first)
    }

    fn read(&self) -> Result<u64, Error> {
        let mut text = [0; 24];
        let length = retry_on_intr(|| io::pread(&self.file, &mut text, 0)).map_err(Error::Count)?;
        str::from_utf8(&text[..length])
            .ok()
            .and_then(|text| text.trim_end().parse().ok())
            .ok_or(Error::NoCount)
    }
}
