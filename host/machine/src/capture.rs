//! Reads a machine's console.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;
use std::process::ChildStdout;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::pipe::fcntl_setpipe_size;

use crate::console::{Event, Line, Splitter};

/// A callback for console output; the thread that reads the console calls it.
pub type Watcher = Box<dyn FnMut(&Event) + Send>;

/// The console's output up to now.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) lines: Vec<Line>,
    pub(super) pending: String,
    /// When the console ended.
    pub(super) closed: Option<Duration>,
}

/// [`Seen`], shared between the reading thread and those that wait.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) seen: Mutex<Seen>,
    pub(super) changed: Condvar,
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, Seen> {
        // A watcher's panic cannot leave half a line in `seen`.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn open_log(file: &Path) -> io::Result<BufWriter<File>> {
    File::options()
        .create(true)
        .append(true)
        .open(file)
        .map(BufWriter::new)
}

/// QEMU's end of the console.
#[derive(Debug)]
pub(super) struct Receiver {
    from: ChildStdout,
    /// The time after each piece, if it is to be slow.
    pause: Option<Duration>,
}

impl Receiver {
    /// A slow receiver's pipe is as small as possible, so that QEMU has to wait for it.
    pub(super) fn of(from: ChildStdout, pause: Option<Duration>) -> io::Result<Self> {
        if pause.is_some() {
            fcntl_setpipe_size(&from, PAGE)?;
        }
        Ok(Receiver { from, pause })
    }
}

/// The smallest size of a pipe.
const PAGE: usize = 4096;

/// Bytes that a slow receiver takes at once.
const PIECE: usize = 64;

impl Read for Receiver {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.pause {
            None => self.from.read(buffer),
            Some(pause) => {
                thread::sleep(pause);
                let piece = buffer.len().min(PIECE);
                self.from.read(&mut buffer[..piece])
            }
        }
    }
}

pub(super) fn read_console(
    mut from: impl Read,
    power_on: Instant,
    shared: &Shared,
    mut log: Option<BufWriter<File>>,
    mut watch: Option<Watcher>,
) {
    let mut splitter = Splitter::default();
    let mut buffer = [0; 16 * 1024];
    loop {
        let count = match from.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => 0,
        };
        let at = power_on.elapsed();
        let mut events = Vec::new();
        if count == 0 {
            splitter.close(at, |event| events.push(event));
        } else {
            splitter.push(&buffer[..count], at, |event| events.push(event));
        }
        for event in &events {
            if let Some(watch) = &mut watch {
                watch(event);
            }
        }
        write_log(&mut log, &events);
        let mut seen = shared.lock();
        seen.lines
            .extend(events.into_iter().filter_map(|event| match event {
                Event::Line(line) => Some(line),
                Event::Redraw(_) => None,
            }));
        seen.pending = splitter.pending();
        if count == 0 {
            seen.closed = Some(at);
        }
        drop(seen);
        shared.changed.notify_all();
        if count == 0 {
            return;
        }
    }
}

/// Writes lines to the log. A full disk ends the log, not the machine.
fn write_log(log: &mut Option<BufWriter<File>>, events: &[Event]) {
    let Some(file) = log else { return };
    let lines = events.iter().filter_map(|event| match event {
        Event::Line(line) => Some(line),
        Event::Redraw(_) => None,
    });
    let write = || -> io::Result<()> {
        for line in lines {
            writeln!(file, "[{:10.4}] {}", line.at.as_secs_f64(), line.text)?;
        }
        file.flush()
    };
    if write().is_err() {
        *log = None;
    }
}

pub(super) fn read_errors(mut from: impl Read) -> String {
    let mut bytes = Vec::new();
    let _ = from.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}
