//! The plugin's changing state, behind one lock.

use std::sync::MutexGuard;

use crate::cache::Cache;
use crate::deaf::Deaf;
use crate::log::{Entry, Log, What};
use crate::memory::{RAM_BASE, Ram};
use crate::options::{Code, Loads, Options, SignalWhen};
use crate::qemu::counters::Counter;
use crate::report::{Cause, End, Hart, Lines, Mark, Report, Signal};
use crate::schedule::Schedule;
use crate::time::TimeBase;

/// A guard of the model's lock. Its holder must not take the big lock.
pub(crate) type Guard<'a> = MutexGuard<'a, Model>;

/// The most marks in a report; later ones are only counted.
const MOST_MARKS: usize = 1 << 16;

/// The most addresses of lost lines in a report.
const MOST_ADDRESSES: usize = 1024;

/// The time of the signal, and each hart's instruction count at that time.
#[derive(Debug)]
struct Raised {
    signal: Signal,
    instructions: Vec<u64>,
}

/// A hart's accesses to devices since the signal.
#[derive(Clone, Copy, Debug, Default)]
struct DeviceAccesses {
    loads: u64,
    stores: u64,
}

/// The plugin's changing state.
#[derive(Debug)]
pub(crate) struct Model {
    /// The fair time base, if it is on.
    pub(crate) time: Option<TimeBase>,
    pub(crate) schedule: Schedule,
    /// The caches; `None` after the power has ended.
    pub(crate) cache: Option<Cache<Ram>>,
    /// Whether translated code reports loads.
    pub(crate) sees_loads: bool,
    /// Executions of the chosen instruction, or stores to the chosen register, until the signal.
    pub(crate) signal_countdown: u64,
    /// Executions of the chosen instruction until the power-fail line is lowered and raised again.
    pub(crate) again_countdown: u64,
    /// Whether the power-fail line was lowered and raised again.
    pub(crate) rose_again: bool,
    pub(crate) unknown_accesses: u64,
    /// The hart whose interrupts are delayed.
    deaf: Option<Deaf>,
    harts: usize,
    raised: Option<Raised>,
    /// For each hart, its cycle and instruction counters minus its executed instructions. The
    /// hart's writes to the counters cause the difference.
    ahead: Vec<[u64; 2]>,
    devices: Vec<DeviceAccesses>,
    marks: Vec<Mark>,
    marks_left_out: u64,
    report: Option<Report>,
    /// The log, until the power ends.
    pub(crate) log: Option<Log>,
}

impl Model {
    pub(crate) fn new(options: &Options, harts: usize, ram: Option<Ram>) -> Self {
        let (signal_at, countdown) = match &options.signal {
            SignalWhen::Never => (None, 0),
            SignalWhen::At(time) => (Some(*time), 0),
            SignalWhen::Pc(Code { count, .. }) | SignalWhen::Store { count, .. } => (None, *count),
        };
        let schedule = Schedule::new(signal_at, options.hold_up);
        let cache = ram.map(|ram| Cache::new(ram, options.geometry, harts));
        Model {
            time: options.time.then(|| TimeBase::new(harts, schedule.next())),
            schedule,
            cache,
            sees_loads: options.loads == Loads::Always,
            signal_countdown: countdown,
            again_countdown: options.again.as_ref().map_or(0, |code| code.count),
            rose_again: false,
            unknown_accesses: 0,
            deaf: options.deaf.map(|(hart, lasts)| Deaf::new(hart, lasts)),
            harts,
            raised: None,
            ahead: vec![[0; 2]; harts],
            devices: vec![DeviceAccesses::default(); harts],
            marks: Vec::new(),
            marks_left_out: 0,
            report: None,
            log: None,
        }
    }

    /// Whether the power has ended. Nothing is counted after that.
    pub(crate) fn has_ended(&self) -> bool {
        self.report.is_some()
    }

    /// Whether the power-fail line was raised.
    pub(crate) fn is_raised(&self) -> bool {
        self.raised.is_some()
    }

    /// Each hart's executed instructions at the signal; `None`: it was not raised.
    pub(crate) fn instructions_at_signal(&self) -> Option<Vec<u64>> {
        self.raised
            .as_ref()
            .map(|raised| raised.instructions.clone())
    }

    /// Whether an interrupt of `hart` must be delayed now.
    pub(crate) fn misses(&mut self, hart: usize) -> bool {
        let now = self.time.as_ref().map_or(0, TimeBase::now);
        (self.deaf.as_mut()).is_some_and(|deaf| deaf.misses(hart, now))
    }

    /// Whether a delayed interrupt must be delivered to `hart` now.
    pub(crate) fn hears(&mut self, hart: usize) -> bool {
        let now = self.time.as_ref().map_or(0, TimeBase::now);
        (self.deaf.as_mut()).is_some_and(|deaf| deaf.hears(hart, now))
    }

    /// The report, once the power has ended.
    pub(crate) fn report(&self) -> Option<&Report> {
        self.report.as_ref()
    }

    /// Number of instructions that a hart has executed.
    pub(crate) fn instructions(&self, hart: usize, counter: u64) -> u64 {
        match &self.time {
            Some(time) => time.instructions(hart, counter),
            None => counter,
        }
    }

    /// The value that a hart reads from a counter; one instruction is one cycle. The reading
    /// instruction is already counted, but must not be visible yet.
    pub(crate) fn read_csr(&self, hart: usize, which: Counter, counter: u64) -> u64 {
        let executed = self.instructions(hart, counter).saturating_sub(1);
        executed.wrapping_add(self.ahead[hart][which as usize])
    }

    /// A hart writes `value` to a counter, which continues from it with the next instruction.
    pub(crate) fn write_csr(&mut self, hart: usize, which: Counter, counter: u64, value: u64) {
        let executed = self.instructions(hart, counter);
        self.ahead[hart][which as usize] = value.wrapping_sub(executed);
    }

    fn own_time(&self, hart: usize, counter: u64) -> Option<u64> {
        self.time.as_ref().map(|time| time.own_time(hart, counter))
    }

    /// The present time of `hart`; `None` for the hart: the machine's time.
    fn time_at(&self, hart: Option<usize>, counters: &[u64]) -> Option<u64> {
        match hart {
            Some(hart) => self.own_time(hart, counters[hart]),
            None => self.time.as_ref().map(TimeBase::now),
        }
    }

    /// Records the signal. An instruction of `hart` caused it, if it is given.
    pub(crate) fn raised(&mut self, cause: Cause, hart: Option<usize>, counters: &[u64]) {
        let time = self.time_at(hart, counters);
        if let Some(time) = time {
            self.schedule.raised(time);
            self.deaf.iter_mut().for_each(|deaf| deaf.raised(time));
        }
        let counters = counters.iter().enumerate();
        let instructions = counters.map(|(hart, counter)| self.instructions(hart, *counter));
        self.raised = Some(Raised {
            signal: Signal { cause, time },
            instructions: instructions.collect(),
        });
        self.devices.fill(DeviceAccesses::default());
    }

    /// Counts an access of a hart to a device's register.
    pub(crate) fn device_access(&mut self, hart: usize, is_store: bool) {
        if self.raised.is_none() || self.has_ended() {
            return;
        }
        let accesses = &mut self.devices[hart];
        if is_store {
            accesses.stores += 1;
        } else {
            accesses.loads += 1;
        }
    }

    /// Records a phase mark of a hart.
    pub(crate) fn mark(&mut self, hart: usize, number: u16, counter: u64) {
        if self.has_ended() {
            return;
        }
        if self.marks.len() == MOST_MARKS {
            self.marks_left_out += 1;
            return;
        }
        self.marks.push(Mark {
            hart,
            number,
            instructions: self.instructions(hart, counter),
            time: self.own_time(hart, counter),
        });
    }

    /// Adds an entry to the log, if there is one.
    pub(crate) fn note(&mut self, hart: usize, counter: u64, what: What) {
        if let (Some(time), false) = (self.own_time(hart, counter), self.has_ended()) {
            let instructions = self.instructions(hart, counter);
            let entry = Entry {
                hart,
                time,
                instructions,
                what,
            };
            self.log.iter_mut().for_each(|log| log.add(&entry));
        }
    }

    /// Ends the power, once: dirty lines are lost, and the report is made. `hart` switched the power
    /// off, if it is given.
    pub(crate) fn end(&mut self, end: End, hart: Option<usize>, counters: &[u64]) {
        if self.has_ended() {
            return;
        }
        let time = self.time_at(hart, counters);
        let mut harts: Vec<_> = (0..self.harts)
            .map(|hart| self.hart_report(hart, counters[hart]))
            .collect();
        let lines = self.cache.take().map(|cache| {
            let counts = cache.counts();
            let lost = cache.power_off();
            for (hart, lost) in harts.iter_mut().zip(&lost.by_hart) {
                hart.lost = *lost;
            }
            let shown = lost.lines.iter().take(MOST_ADDRESSES);
            Lines {
                lost: lost.lines.len() as u64,
                unchanged: lost.unchanged,
                device_written: lost.device_written,
                device_writes: counts.device_writes,
                flushed_by_line: counts.by_line,
                flushed_by_register: counts.by_register,
                flushed_all: counts.all,
                displaced: counts.displaced,
                lost_addresses: shown.map(|line| RAM_BASE + u64::from(*line) * 64).collect(),
            }
        });
        self.report = Some(Report {
            end,
            time,
            signal: self.raised.as_ref().map(|raised| raised.signal),
            rose_again: self.rose_again,
            harts,
            lines,
            marks: std::mem::take(&mut self.marks),
            marks_left_out: self.marks_left_out,
            unknown_accesses: self.unknown_accesses,
        });
    }

    fn hart_report(&self, hart: usize, counter: u64) -> Hart {
        let instructions = self.instructions(hart, counter);
        let raised = self.raised.as_ref();
        Hart {
            instructions,
            since_signal: raised.map(|raised| instructions - raised.instructions[hart]),
            device_loads: self.sees_loads.then_some(self.devices[hart].loads),
            device_stores: self.devices[hart].stores,
            lost: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::FULL;

    fn model(arguments: &[&str]) -> Model {
        let options = Options::parse(arguments.iter().copied()).expect("they are right");
        Model::new(&options, 2, None)
    }

    #[test]
    fn what_is_told_counts_from_the_signal() {
        let mut model = model(&["signal-at=500", "hold-up=100"]);
        model.device_access(0, true);
        // Both have executed their share of the first window, which ends at the signal.
        model.raised(Cause::Instruction, Some(1), &[FULL, FULL + 3]);
        assert_eq!(model.schedule.next(), Some(500), "the signal itself");
        model.device_access(0, true);
        model.device_access(1, false);
        model.mark(1, 7, FULL + 13);
        model.end(End::HoldUp, None, &[FULL + 20, FULL + 50]);
        model.end(End::PowerOff, None, &[FULL, FULL]);
        model.mark(1, 8, FULL + 60);
        let report = model.report().expect("it has ended");
        assert_eq!(report.end, End::HoldUp);
        assert_eq!(report.signal.expect("a signal").time, Some(503));
        let since = report.harts.iter().map(|hart| hart.since_signal);
        assert_eq!(since.collect::<Vec<_>>(), [Some(20), Some(47)]);
        let stores = report.harts.iter().map(|hart| hart.device_stores);
        assert_eq!(stores.collect::<Vec<_>>(), [1, 0]);
        let [mark] = report.marks[..] else {
            panic!("{:?}", report.marks);
        };
        assert_eq!((mark.instructions, mark.time), (513, Some(513)));
    }

    #[test]
    fn without_the_time_base_counters_are_instructions() {
        let mut model = model(&["time=off"]);
        model.mark(0, 1, 12);
        model.end(End::PowerOff, Some(0), &[20, 30]);
        let report = model.report().expect("it has ended");
        assert_eq!((report.time, report.marks[0].time), (None, None));
        assert_eq!(report.marks[0].instructions, 12);
        assert_eq!(report.harts[1].instructions, 30);
    }
}
