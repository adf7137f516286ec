//! The plugin's arguments (`-plugin FILE,key=value,...`), as typed values.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use crate::cache::Geometry;

mod argument;
mod code;
mod trace;

use argument::Argument;
pub use argument::{Loads, OptionError};
pub use code::{Code, contains};
pub use trace::{TraceOptions, TraceSpan};

/// When the plugin itself raises the power-fail line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SignalWhen {
    /// Never: only the control socket raises it.
    #[default]
    Never,
    /// At this time, in nanoseconds of the fair time base.
    At(u64),
    /// At an execution of one of these instructions.
    Pc(Code),
    /// At the `count`th store to a device's register, by any hart.
    Store {
        /// The register's physical address.
        address: u64,
        /// The store to act at, from 1.
        count: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// `ram`: the file of the machine's RAM (`memory-backend-file,share=on`). Without it there are
    /// no caches.
    pub ram: Option<PathBuf>,
    /// `l1`, `ways`: size of each hart's cache; of a trace, each of its two caches.
    pub geometry: Geometry,
    /// `flush-register`: address of a block with the registers `Flush64` (+0x200) and `Flush32`
    /// (+0x240), which the plugin creates.
    pub flush_register: Option<u64>,
    /// `irq`: the power-fail line's source at the interrupt controller, 1 to 1023.
    pub irq: u32,
    /// `signal-at`, or `signal-pc` or `signal-store` and `signal-count`.
    pub signal: SignalWhen,
    /// `signal-from`: the time from which `signal-count` counts, in nanoseconds of the fair time
    /// base.
    pub signal_from: u64,
    /// `again-pc`, `again-count`: instructions at which the power-fail line is lowered and at once
    /// raised again. The hold-up continues.
    pub again: Option<Code>,
    /// `deaf`, `deaf-for`: a hart, and the time after the signal in which it gets no interrupt, in
    /// nanoseconds of the fair time base. The hart keeps running.
    pub deaf: Option<(usize, u64)>,
    /// `hold-up`: instructions, which are nanoseconds of the fair time base, from the signal to the
    /// end of the power. If an instruction or the socket raises the power-fail line, the power ends
    /// at the end of a window, up to 1000 later.
    pub hold_up: Option<u64>,
    /// `loads`: when the plugin models loads.
    pub loads: Loads,
    /// `disks=lose`: QEMU exits at once when the machine switches its power off. Writes that a disk
    /// has not flushed are lost, as on a board.
    pub loses_unflushed: bool,
    /// `time`: use the fair time base.
    pub time: bool,
    /// `grace`: time that idle harts wait for input and output before the clock jumps to the next
    /// timer. With 0, a run without devices repeats exactly.
    pub grace: Duration,
    /// `control`: a Unix socket for `fail` and `good`.
    pub control: Option<PathBuf>,
    /// `report`: a file for the [report](crate::report::Report).
    pub report: Option<PathBuf>,
    /// `log`, `log-pc`, `log-stores`, `log-loads`: what the [log](crate::log) records.
    pub log: Option<LogOptions>,
    /// `trace` and its kind: the [trace](crate::trace) of memory requests.
    pub trace: Option<TraceOptions>,
}

/// What the log records besides the harts' wakes, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    pub file: PathBuf,
    /// Instructions, by virtual addresses.
    pub code: Vec<Range<u64>>,
    /// Devices' registers, by physical addresses, whose stores are recorded.
    pub registers: Vec<Range<u64>>,
    /// Those whose loads are recorded.
    pub loads: Vec<Range<u64>>,
}

/// Values that several options make up, while the arguments are read.
#[derive(Default)]
struct Parts {
    l1: Option<usize>,
    ways: Option<usize>,
    signal_at: Option<u64>,
    signal_pc: Option<Vec<Range<u64>>>,
    signal_store: Option<u64>,
    signal_count: Option<u64>,
    again_pc: Option<Vec<Range<u64>>>,
    again_count: Option<u64>,
    deaf: Option<usize>,
    deaf_for: Option<u64>,
    log: LogOptions,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            ram: None,
            geometry: Geometry::default(),
            flush_register: None,
            irq: 60,
            signal: SignalWhen::Never,
            signal_from: 0,
            again: None,
            deaf: None,
            hold_up: None,
            loads: Loads::default(),
            loses_unflushed: false,
            time: true,
            grace: Duration::from_micros(200),
            control: None,
            report: None,
            log: None,
            trace: None,
        }
    }
}

impl Options {
    /// Parses QEMU's list of arguments.
    ///
    /// # Errors
    ///
    /// [`OptionError`].
    pub fn parse<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Result<Self, OptionError> {
        let mut options = Options::default();
        let mut parts = Parts::default();
        let mut seen = Vec::new();
        let mut of_trace = Vec::new();
        for text in arguments {
            let (key, value) =
                (text.split_once('=')).ok_or_else(|| OptionError::NoValue(text.into()))?;
            if seen.contains(&key) {
                return Err(OptionError::Twice(key.into()));
            }
            seen.push(key);
            let argument = Argument { key, value };
            match key.starts_with("trace-") {
                true => of_trace.push(argument),
                false => options.set(&mut parts, &argument)?,
            }
        }
        options.join(parts)?;
        for argument in of_trace {
            let trace = options.trace.as_mut().ok_or(OptionError::Needs {
                key: "trace-...",
                needed: "trace",
            })?;
            trace.set(&argument)?;
        }
        options.check(&seen)?;
        Ok(options)
    }

    fn set(&mut self, parts: &mut Parts, argument: &Argument<'_>) -> Result<(), OptionError> {
        match argument.key {
            "ram" => self.ram = Some(argument.path()?),
            "l1" => parts.l1 = Some(argument.within(0..=1 << 30, "bytes, up to 1 GiB")?),
            "ways" => parts.ways = Some(argument.within(0..=1 << 16, "a number up to 65536")?),
            "flush-register" => self.flush_register = Some(argument.number()?),
            "irq" => self.irq = argument.within(1..=1023, "a source from 1 to 1023")?,
            "signal-at" => parts.signal_at = Some(argument.positive()?),
            "signal-pc" => parts.signal_pc = Some(argument.ranges()?),
            "signal-store" => parts.signal_store = Some(argument.number()?),
            "signal-count" => parts.signal_count = Some(argument.positive()?),
            "signal-from" => self.signal_from = argument.number()?,
            "again-pc" => parts.again_pc = Some(argument.ranges()?),
            "again-count" => parts.again_count = Some(argument.positive()?),
            "deaf" => parts.deaf = Some(argument.within(0..=511, "a hart, 0 to 511")?),
            "deaf-for" => parts.deaf_for = Some(argument.positive()?),
            "hold-up" => self.hold_up = Some(argument.positive()?),
            "loads" => self.loads = argument.loads()?,
            "disks" => self.loses_unflushed = argument.loses()?,
            "time" => self.time = argument.switch()?,
            "grace" => {
                let micros = argument.within(0..=10_000_000, "microseconds, up to 10 s")?;
                self.grace = Duration::from_micros(micros);
            }
            "control" => self.control = Some(argument.path()?),
            "report" => self.report = Some(argument.path()?),
            "trace" => self.trace = Some(TraceOptions::to(argument.path()?)),
            "log" => parts.log.file = argument.path()?,
            "log-pc" => parts.log.code = argument.ranges()?,
            "log-stores" => parts.log.registers = argument.ranges()?,
            "log-loads" => parts.log.loads = argument.ranges()?,
            _ => return Err(OptionError::Unknown(argument.key.into())),
        }
        Ok(())
    }

    fn join(&mut self, parts: Parts) -> Result<(), OptionError> {
        let usual = Geometry::default();
        let bytes = parts.l1.unwrap_or(usual.bytes());
        self.geometry = Geometry::new(bytes, parts.ways.unwrap_or(usual.ways()))?;
        let has_log = !parts.log.file.as_os_str().is_empty();
        self.log = has_log.then_some(parts.log);
        let count = parts.signal_count.unwrap_or(1);
        let moments = [
            parts.signal_at.map(SignalWhen::At),
            (parts.signal_pc).map(|ranges| SignalWhen::Pc(Code { ranges, count })),
            (parts.signal_store).map(|address| SignalWhen::Store { address, count }),
        ];
        let mut moments = moments.into_iter().flatten();
        self.signal = moments.next().unwrap_or_default();
        if moments.next().is_some() {
            return Err(OptionError::Needs {
                key: "signal-at, signal-pc or signal-store",
                needed: "to be the only one of these three",
            });
        }
        if parts.signal_count.is_some() && !self.counts() {
            return Err(OptionError::Needs {
                key: "signal-count",
                needed: "signal-pc or signal-store",
            });
        }
        if parts.again_count.is_some() && parts.again_pc.is_none() {
            return Err(OptionError::Needs {
                key: "again-count",
                needed: "again-pc",
            });
        }
        let count = parts.again_count.unwrap_or(1);
        self.again = parts.again_pc.map(|ranges| Code { ranges, count });
        let [key, needed] = match (parts.deaf, parts.deaf_for) {
            (Some(_), None) => ["deaf", "deaf-for"],
            (None, Some(_)) => ["deaf-for", "deaf"],
            (hart, time) => {
                self.deaf = hart.zip(time);
                return Ok(());
            }
        };
        Err(OptionError::Needs { key, needed })
    }

    /// Whether the signal is the `signal-count`th execution of an instruction, or such a store.
    fn counts(&self) -> bool {
        matches!(self.signal, SignalWhen::Pc(_) | SignalWhen::Store { .. })
    }

    /// Refuses options that have no effect. A slip would otherwise look like a result.
    fn check(&self, given: &[&str]) -> Result<(), OptionError> {
        let is_signalled = self.signal != SignalWhen::Never || self.control.is_some();
        let has_cache = self.ram.is_some() || self.trace.is_some();
        let span = self.trace.as_ref().map(|trace| trace.span);
        let of_program = span == Some(TraceSpan::Program);
        let is_alone = self.ram.is_none() && self.log.is_none() && !(of_program && is_signalled);
        let rules = [
            (
                "hold-up",
                is_signalled,
                "signal-at, signal-pc, signal-store or control",
            ),
            ("again-pc", is_signalled, "another signal first"),
            ("deaf", is_signalled, "a signal"),
            ("deaf", self.time, "time=on"),
            ("signal-at", self.time, "time=on"),
            ("signal-from", self.time, "time=on"),
            ("signal-from", self.counts(), "signal-pc or signal-store"),
            ("hold-up", self.time, "time=on"),
            ("log", self.time, "time=on"),
            ("log-pc", self.log.is_some(), "log"),
            ("log-stores", self.log.is_some(), "log"),
            ("log-loads", self.log.is_some(), "log"),
            ("l1", has_cache, "ram or trace"),
            ("ways", has_cache, "ram or trace"),
            ("trace", self.time, "time=on"),
            ("trace", is_alone, "to be without ram, signals and log"),
            ("trace-of", of_program || is_signalled, "a signal"),
            ("trace-skip", of_program, "trace-of=program"),
            ("trace-instructions", of_program, "trace-of=program"),
            ("flush-register", self.ram.is_some(), "ram"),
        ];
        for (key, holds, needed) in rules {
            if given.contains(&key) && !holds {
                return Err(OptionError::Needs { key, needed });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(arguments: &[&str]) -> String {
        let parsed = Options::parse(arguments.iter().copied());
        parsed.expect_err("refused").to_string()
    }

    #[test]
    fn nothing_said_is_the_usual() {
        assert_eq!(Options::parse([]), Ok(Options::default()));
    }

    #[test]
    fn every_option_is_read() {
        let options = Options::parse([
            "ram=/tmp/ram",
            "l1=32768",
            "ways=8",
            "flush-register=0x2010000",
            "irq=61",
            "signal-pc=0x80000010-0x80000020+0x80000030",
            "signal-count=3",
            "signal-from=7",
            "again-pc=0x80000040+0x80000044",
            "again-count=2",
            "deaf=1",
            "deaf-for=300",
            "hold-up=100000",
            "loads=always",
            "disks=lose",
            "time=on",
            "grace=0",
            "control=/tmp/c",
            "report=/tmp/r",
            "log=/tmp/l",
            "log-pc=0x80000000+0x80000008",
            "log-stores=0x3001080-0x3001100+0x3001108",
            "log-loads=0x3001080+0x3001088",
        ])
        .expect("all are right");
        let expected = Options {
            ram: Some("/tmp/ram".into()),
            geometry: Geometry::new(32768, 8).expect("a cache"),
            flush_register: Some(0x201_0000),
            irq: 61,
            signal: SignalWhen::Pc(Code {
                ranges: vec![0x8000_0010..0x8000_0020, 0x8000_0030..0x8000_0031],
                count: 3,
            }),
            signal_from: 7,
            again: Some(Code {
                ranges: vec![0x8000_0040..0x8000_0041, 0x8000_0044..0x8000_0045],
                count: 2,
            }),
            deaf: Some((1, 300)),
            hold_up: Some(100_000),
            loads: Loads::Always,
            loses_unflushed: true,
            time: true,
            grace: Duration::ZERO,
            control: Some("/tmp/c".into()),
            report: Some("/tmp/r".into()),
            log: Some(LogOptions {
                file: "/tmp/l".into(),
                code: vec![0x8000_0000..0x8000_0001, 0x8000_0008..0x8000_0009],
                registers: vec![0x300_1080..0x300_1100, 0x300_1108..0x300_1109],
                loads: vec![0x300_1080..0x300_1081, 0x300_1088..0x300_1089],
            }),
            trace: None,
        };
        assert_eq!(options, expected);
    }

    #[test]
    fn options_of_a_trace_come_in_any_order() {
        let [guest, program] = ["ab".repeat(32), "0f".repeat(32)];
        let [guest_is, program_is] = [("guest", &guest), ("program", &program)]
            .map(|(name, digest)| format!("trace-{name}={digest}"));
        let arguments = [
            "trace-skip=5",
            "l1=8192",
            "trace=/tmp/t",
            &guest_is,
            &program_is,
        ];
        let options = Options::parse(arguments).expect("all are right");
        let trace = options.trace.expect("a trace");
        assert_eq!(trace.file, std::path::Path::new("/tmp/t"));
        assert_eq!((trace.skip, trace.instructions), (5, 100_000_000));
        assert_eq!(
            [trace.guest.to_string(), trace.program.to_string()],
            [guest, program]
        );
        assert_eq!(options.geometry.bytes(), 8192);
        assert_eq!(error(&["trace-skip=5"]), "`trace-...` needs trace");
        assert_eq!(
            error(&["trace=a", "trace-off=5"]),
            "there is no option `trace-off`"
        );
        assert!(error(&["trace=a", "trace-of=5"]).contains("program, stop or go"));
        assert!(error(&["trace=a", "trace-guest=abc"]).contains("64 hexadecimal digits"));
        assert!(error(&["trace=a", "trace-instructions=0"]).contains("from 1"));
        assert_eq!(error(&["trace=a", "time=off"]), "`trace` needs time=on");
        let stop = Options::parse(["trace=a", "trace-of=stop", "signal-at=5"]).expect("a stop");
        assert_eq!(stop.trace.expect("a trace").span, TraceSpan::Stop);
        assert_eq!(
            error(&["trace=a", "trace-of=go"]),
            "`trace-of` needs a signal"
        );
        assert_eq!(
            error(&["trace=a", "trace-of=go", "signal-at=5", "trace-skip=5"]),
            "`trace-skip` needs trace-of=program"
        );
        for other in ["ram=b", "signal-at=5", "control=c", "log=d"] {
            assert_eq!(
                error(&["trace=a", other]),
                "`trace` needs to be without ram, signals and log"
            );
        }
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        assert_eq!(error(&["rma=x"]), "there is no option `rma`");
        assert_eq!(error(&["time"]), "`time` has no value: write key=value");
        assert_eq!(error(&["irq=1", "irq=2"]), "`irq` is given twice");
        assert_eq!(error(&["time=1"]), "`time=1`: give on or off");
        assert_eq!(error(&["irq=0"]), "`irq=0`: give a source from 1 to 1023");
        assert_eq!(
            error(&["irq=1024"]),
            "`irq=1024`: give a source from 1 to 1023"
        );
        assert_eq!(
            error(&["signal-from=-1"]),
            "`signal-from=-1`: give a number (decimal, or hexadecimal with 0x)"
        );
    }

    #[test]
    fn what_would_do_nothing_is_refused() {
        assert_eq!(
            error(&["hold-up=5"]),
            "`hold-up` needs signal-at, signal-pc, signal-store or control"
        );
        assert_eq!(
            error(&["signal-at=5", "time=off"]),
            "`signal-at` needs time=on"
        );
        let count = "`signal-count` needs signal-pc or signal-store";
        assert_eq!(error(&["signal-count=2"]), count);
        assert_eq!(error(&["signal-at=5", "signal-count=2"]), count);
        let from = "`signal-from` needs signal-pc or signal-store";
        assert_eq!(error(&["signal-at=5", "signal-from=2"]), from);
        assert_eq!(
            error(&["again-pc=5"]),
            "`again-pc` needs another signal first"
        );
        assert_eq!(
            error(&["signal-at=5", "again-count=2"]),
            "`again-count` needs again-pc"
        );
        assert_eq!(error(&["signal-at=5", "deaf=1"]), "`deaf` needs deaf-for");
        assert_eq!(
            error(&["signal-at=5", "deaf-for=1"]),
            "`deaf-for` needs deaf"
        );
        assert_eq!(error(&["deaf=1", "deaf-for=1"]), "`deaf` needs a signal");
        assert_eq!(error(&["l1=4096"]), "`l1` needs ram or trace");
        assert_eq!(error(&["log-stores=1"]), "`log-stores` needs log");
        assert_eq!(error(&["log-loads=1"]), "`log-loads` needs log");
        assert_eq!(error(&["log=a", "time=off"]), "`log` needs time=on");
        assert!(error(&["signal-at=1", "signal-pc=1"]).contains("the only one of these three"));
        assert!(error(&["signal-pc=1", "signal-store=1"]).contains("the only one of these three"));
        assert!(error(&["ram=a", "l1=100"]).contains("100"));
    }
}
