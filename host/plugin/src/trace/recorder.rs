//! Writes the requests of harts within the window.

use std::io;

use poorwill_trace::{Counted, HartCounts, Kind, Record, Setting, TraceFile};

use super::caches::Caches;
use super::programs::Programs;
use super::window::{Phase, Window};
use crate::cache::Geometry;
use crate::options::{TraceOptions, TraceSpan};

/// An access of a hart to a line of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Load,
    Store,
    /// The first instruction of a line after another line.
    Fetch,
    /// An instruction that writes the line back.
    Flush,
}

/// A recording. Without [`Recorder::finish`] no file stays.
#[derive(Debug)]
pub struct Recorder {
    caches: Caches,
    window: Window,
    file: TraceFile,
    counts: Vec<HartCounts>,
    programs: Programs,
    /// Each hart's instructions in the window up to its last record.
    told: Vec<u64>,
}

impl Recorder {
    /// Begins at the mark, or at the power-on for the other spans, when each hart has executed
    /// `executed` instructions. The machine has `memory` bytes of RAM.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn begin(
        options: &TraceOptions,
        geometry: Geometry,
        memory: u64,
        executed: Vec<u64>,
    ) -> io::Result<Self> {
        let narrow = |number: usize| u32::try_from(number).map_err(io::Error::other);
        let harts = executed.len();
        let (window, skipped, instructions) = match options.span {
            TraceSpan::Program => {
                let (skip, length) = (options.skip, options.instructions);
                (Window::new(skip, length, executed), skip, length)
            }
            TraceSpan::Go => (Window::new(0, u64::MAX, executed), 0, 0),
            TraceSpan::Stop => (Window::closed(harts), 0, 0),
        };
        let setting = Setting {
            harts: narrow(harts)?,
            cache: narrow(geometry.bytes())?,
            ways: narrow(geometry.ways())?,
            skipped,
            window: instructions,
            memory,
            guest: options.guest,
            program: options.program,
        };
        Ok(Recorder {
            caches: Caches::new(geometry, harts),
            window,
            file: TraceFile::create(&options.file, setting)?,
            counts: vec![HartCounts::default(); harts],
            programs: Programs::new(memory, harts),
            told: vec![0; harts],
        })
    }

    /// A hart accesses a line. `executed` tells its instructions since the machine's start, and is
    /// asked only for a request to memory.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn access(
        &mut self,
        hart: usize,
        access: Access,
        line: u32,
        executed: impl Fn() -> u64,
    ) -> io::Result<()> {
        let Recorder {
            caches,
            window,
            file,
            counts,
            told,
            programs: _,
        } = self;
        let mut written = Ok(());
        let mut request = |kind, line| {
            if window.phase() == Phase::Recording && written.is_ok() {
                let within = window.within(hart, executed());
                written = push(file, &mut told[hart], hart, kind, line, within);
            }
        };
        match access {
            Access::Load => {
                counts[hart].loads += 1;
                caches.load(hart, line, &mut request);
            }
            Access::Store => {
                counts[hart].stores += 1;
                caches.store(hart, line, &mut request);
            }
            Access::Fetch => {
                counts[hart].fetches += 1;
                caches.fetch(hart, line, &mut request);
            }
            Access::Flush => caches.flush(line, &mut request),
        }
        written
    }

    /// A program accesses a line, or has code there. [`access`](Self::access) is called, too.
    pub fn by_program(&mut self, hart: usize, access: Access, line: u32) {
        match access {
            Access::Store => self.programs.store(hart, line),
            Access::Load | Access::Fetch | Access::Flush => self.programs.access(line),
        }
    }

    /// A program's function returns.
    pub fn returns(&mut self, hart: usize) {
        if self.is_open() {
            let returns = &mut self.counts[hart].returns;
            self.programs.returned(hart, returns);
        }
    }

    /// A hart executes a fence.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn fence(&mut self, hart: usize, executed: u64) -> io::Result<()> {
        if self.window.phase() != Phase::Recording {
            return Ok(());
        }
        let within = self.window.within(hart, executed);
        let told = &mut self.told[hart];
        push(&mut self.file, told, hart, Kind::Fence, 0, within)
    }

    /// Takes note of a hart's instructions; see [`Window::reached`]. Returns whether the window is
    /// full.
    pub fn reached(&mut self, hart: usize, executed: u64, all: impl FnOnce() -> Vec<u64>) -> bool {
        if self.window.reached(hart, executed, all) == Some(Phase::Recording) {
            self.count_anew();
        }
        self.window.phase() == Phase::Full
    }

    /// Begins the recording of Stop: at the power-fail signal each hart had executed `starts`
    /// instructions.
    pub fn open(&mut self, starts: Vec<u64>) {
        if !self.is_open() {
            self.window.open(starts);
            self.count_anew();
        }
    }

    /// Forgets what was counted before the window. Accessed pages stay.
    fn count_anew(&mut self) {
        self.counts.fill(HartCounts::default());
        self.programs.open();
    }

    /// Whether requests are recorded.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.window.phase() == Phase::Recording
    }

    /// Completes the file. `executed`: each hart's instructions since the machine's start.
    ///
    /// # Errors
    ///
    /// The file cannot be written. It is not there then.
    pub fn finish(self, executed: &[u64]) -> io::Result<()> {
        let mut harts = self.counts;
        for (hart, count) in harts.iter_mut().enumerate() {
            count.instructions = self.window.within(hart, executed[hart]);
        }
        let pages = self.programs.pages();
        self.file.finish(Counted { pages, harts }, true)
    }
}

fn push(
    file: &mut TraceFile,
    told: &mut u64,
    hart: usize,
    kind: Kind,
    line: u32,
    within: u64,
) -> io::Result<()> {
    let instructions = within - *told;
    *told = within;
    file.push(&Record {
        hart: u16::try_from(hart).map_err(io::Error::other)?,
        kind,
        line,
        instructions,
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs::{self, File};
    use std::path::Path;

    use poorwill_trace::Reader;

    use super::*;
    use crate::options::Options;

    fn begin(file: &Path, arguments: &[&str], executed: &[u64]) -> Recorder {
        let file = format!("trace={}", file.display());
        let arguments = [&[&*file], arguments].concat();
        let options = Options::parse(arguments).expect("they are right");
        let trace = options.trace.expect("a trace");
        Recorder::begin(&trace, options.geometry, 1 << 30, executed.to_vec()).expect("a file")
    }

    #[test]
    fn the_window_alone_is_recorded_with_warm_caches() {
        let folder = tempfile::tempdir().expect("a folder");
        let name = folder.path().join("one.trace");
        let arguments = [
            "trace-skip=100",
            "trace-instructions=50",
            "l1=256",
            "ways=2",
        ];
        let mut recorder = begin(&name, &arguments, &[1000, 10]);
        let at = |executed| move || executed;
        recorder
            .access(0, Access::Store, 3, at(1001))
            .expect("written");
        recorder
            .access(0, Access::Load, 5, at(1050))
            .expect("written");
        recorder.fence(1, 60).expect("written");
        assert!(!recorder.reached(0, 1100, || vec![1100, 70]));
        recorder
            .access(0, Access::Load, 5, at(1101))
            .expect("written");
        recorder
            .access(1, Access::Load, 3, at(75))
            .expect("written");
        recorder
            .access(1, Access::Fetch, 9, at(80))
            .expect("written");
        recorder.fence(1, 95).expect("written");
        assert!(recorder.reached(0, 1151, Vec::new));
        recorder
            .access(1, Access::Load, 7, at(99))
            .expect("written");
        assert!(!name.exists());
        recorder.finish(&[1151, 100]).expect("written");
        let mut reader = Reader::new(File::open(&name).expect("a file")).expect("a header");
        let mut records = Vec::new();
        while let Some(record) = reader.next_record().expect("a record") {
            records.push((record.hart, record.kind, record.line, record.instructions));
        }
        let expected = [
            (1, Kind::WriteBack, 3, 5),
            (1, Kind::Load, 3, 0),
            (1, Kind::Fetch, 9, 5),
            (1, Kind::Fence, 0, 15),
        ];
        assert_eq!(records, expected);
        let header = reader.header();
        assert!(header.is_whole);
        assert_eq!((header.setting.skipped, header.setting.window), (100, 50));
        let counts = |hart: usize| header.harts[hart];
        assert_eq!(
            (counts(0).instructions, counts(0).loads, counts(0).stores),
            (51, 1, 0)
        );
        assert_eq!(
            (counts(1).instructions, counts(1).loads, counts(1).fetches),
            (30, 2, 1)
        );
    }

    /// The records of a trace: hart, kind, line, instructions.
    fn records(file: &Path) -> Vec<(u16, Kind, u32, u64)> {
        let mut reader = Reader::new(File::open(file).expect("a file")).expect("a header");
        let mut records = Vec::new();
        while let Some(record) = reader.next_record().expect("a record") {
            records.push((record.hart, record.kind, record.line, record.instructions));
        }
        records
    }

    #[test]
    fn stop_is_recorded_from_the_signal_with_caches_filled_before() {
        let folder = tempfile::tempdir().expect("a folder");
        let name = folder.path().join("stop.trace");
        let arguments = ["trace-of=stop", "signal-at=5", "l1=256", "ways=2"];
        let mut recorder = begin(&name, &arguments, &[0, 0]);
        let at = |executed| move || executed;
        let access = |recorder: &mut Recorder, hart, access, line, executed| {
            (recorder.access(hart, access, line, at(executed))).expect("written");
        };
        access(&mut recorder, 0, Access::Store, 3, 900);
        access(&mut recorder, 1, Access::Load, 4, 70);
        recorder.fence(0, 950).expect("written");
        assert!(!recorder.is_open());
        assert!(!recorder.reached(0, 1 << 40, Vec::new), "it has no length");
        recorder.open(vec![1000, 80]);
        access(&mut recorder, 1, Access::Load, 3, 95);
        recorder.open(vec![5000, 5000]);
        access(&mut recorder, 0, Access::Load, 9, 1030);
        recorder.finish(&[1040, 99]).expect("written");
        let expected = [
            (1, Kind::WriteBack, 3, 15),
            (1, Kind::Load, 3, 0),
            (0, Kind::Load, 9, 30),
        ];
        assert_eq!(records(&name), expected);
        let reader = Reader::new(File::open(&name).expect("a file")).expect("a header");
        let counts = &reader.header().harts;
        assert_eq!([counts[0].instructions, counts[1].instructions], [40, 19]);
        assert_eq!([counts[0].loads, counts[0].stores], [1, 0]);
    }

    #[test]
    fn returns_count_in_the_window_and_pages_from_the_mark() {
        let folder = tempfile::tempdir().expect("a folder");
        let name = folder.path().join("one.trace");
        let arguments = ["trace-skip=100", "trace-instructions=50"];
        let mut recorder = begin(&name, &arguments, &[0]);
        recorder.by_program(0, Access::Store, 1);
        recorder.returns(0);
        recorder.by_program(0, Access::Load, 64);
        assert!(!recorder.reached(0, 100, || vec![100]));
        recorder.by_program(0, Access::Store, 128);
        recorder.by_program(0, Access::Store, 129);
        recorder.by_program(0, Access::Fetch, 130);
        recorder.returns(0);
        recorder.finish(&[150]).expect("written");
        let reader = Reader::new(File::open(&name).expect("a file")).expect("a header");
        let header = reader.header();
        assert_eq!(header.pages, 3);
        let returns = header.harts[0].returns;
        assert_eq!((returns[2].count, returns[2].lines), (1, 2));
        assert_eq!(returns.iter().map(|one| one.count).sum::<u64>(), 1);
    }

    #[test]
    fn go_is_recorded_from_the_power_on() {
        let folder = tempfile::tempdir().expect("a folder");
        let name = folder.path().join("go.trace");
        let mut recorder = begin(&name, &["trace-of=go", "signal-pc=5"], &[0]);
        assert!(recorder.is_open());
        recorder.access(0, Access::Fetch, 7, || 1).expect("written");
        recorder.finish(&[12]).expect("written");
        assert_eq!(records(&name), [(0, Kind::Fetch, 7, 1)]);
    }

    #[test]
    fn a_hit_does_not_ask_for_the_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut recorder = begin(&folder.path().join("t"), &[], &[0]);
        let asked = Cell::new(0);
        for _ in 0..9 {
            let executed = || {
                asked.set(asked.get() + 1);
                7
            };
            recorder
                .access(0, Access::Load, 3, executed)
                .expect("written");
        }
        assert_eq!(asked.get(), 1);
        drop(recorder);
        let left = fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(left, 0, "no file stays without an end");
    }
}
