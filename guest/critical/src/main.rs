//! The program. It runs in S-mode, without translation, where it is loaded.
//!
//! It prints a line at its start and after each wake: `critical: wake by=… wakes=… sequence=…
//! confirmed=… missed=… foreign=… late_us=…`. `sequence` counts frames, `confirmed` their
//! interrupts, `missed` heartbeats without a frame, and `foreign` interrupts that no own device
//! sends. `late_us` is the longest lateness since the last line.
#![no_std]
#![no_main]

mod console;
mod hardware;

use core::arch::global_asm;

use poorwill_bare::hart::{self, time};
use poorwill_bare::{aplic, imsic, suspend};
use poorwill_critical::SleepRequest;
use poorwill_critical::{Board, CAN_ID, CONTROL_EVERY, Can, Heartbeat, Pipeline, Schedule, Serial};
use poorwill_memory::to_usize;

use crate::console::{Console, fail};
use crate::hardware::Device;

// a1 = device tree. After a trap the program prints a message.
global_asm!(
    include_str!("../../bare/start.S"),
    main = sym main,
    trapped = sym trapped,
);

/// Identities of external interrupts.
const CAN: usize = 1;
const SERIAL: usize = 2;

/// Identities that are enabled while the guest runs: 1 to 63, to count those that no own device
/// sends.
const ALL: usize = !1;
/// Identities that end a sleep.
const WAKE: usize = 1 << SERIAL;

/// Interrupts taken at a time. A source that stays high cannot stop the heartbeat.
const MOST_INTERRUPTS: usize = 4;

/// The guest. A sleep keeps all of it; `start` resets the pipeline and the schedule.
struct Guest {
    board: Board,
    aplic: usize,
    can: Can<Device, Device>,
    serial: Serial<Device>,
    schedule: Schedule,
    pipeline: Pipeline,
    request: SleepRequest,
    console: Console,
    /// The event of the next line. A frame comes first.
    event: Option<&'static str>,
    /// The number of the next frame.
    sequence: u32,
    counts: Counts,
}

/// The counts of a line.
#[derive(Default)]
struct Counts {
    wakes: u32,
    confirmed: u32,
    missed: u64,
    foreign: u32,
    /// Ticks of the longest lateness since the last line.
    latest: u64,
}

/// The entry code calls this.
extern "C" fn main(hart: u64, tree: *const u8) -> ! {
    // SAFETY: the firmware passed the address of a device tree.
    let tree = unsafe { hardware::tree(tree) };
    match Board::read(tree, hart) {
        Ok(board) => Guest::new(board).run(),
        Err(error) => fail(format_args!("FAIL: {error}")),
    }
}

impl Guest {
    fn new(board: Board) -> Self {
        // SAFETY: the device tree has each device once.
        let device = |address| unsafe { Device::new(address) };
        let schedule = Schedule::new(board.timebase, 0);
        let [bridge, chip] = board.can.bars;
        let [serial, _] = board.serial.bars;
        Guest {
            aplic: to_usize(board.aplic),
            can: Can::new(device(bridge), device(chip)),
            serial: Serial(device(serial)),
            pipeline: Pipeline::new(schedule.period() * CONTROL_EVERY),
            schedule,
            board,
            request: SleepRequest::default(),
            console: Console::default(),
            event: Some("start"),
            sequence: 0,
            counts: Counts::default(),
        }
    }

    fn run(mut self) -> ! {
        self.start();
        loop {
            self.set_timer(self.schedule.next());
            hart::wait();
            self.take_interrupts();
            self.beat();
        }
    }

    /// Starts all that a sleep does not keep: controllers, pipeline and schedule. Returns whether
    /// the serial line had bytes, which are dropped.
    fn start(&mut self) -> bool {
        hardware::start_interrupts();
        self.can.start();
        let had_bytes = self.serial.start();
        let Board {
            hart_index,
            can,
            serial,
            ..
        } = self.board;
        for (source, identity) in [(can.source, CAN), (serial.source, SERIAL)] {
            aplic::route(self.aplic, source, hart_index, identity);
            aplic::retrigger(self.aplic, source);
        }
        imsic::write(imsic::EIE0, ALL);
        self.request = SleepRequest::default();
        self.pipeline.reset();
        self.schedule.restart(time());
        had_bytes
    }

    fn take_interrupts(&mut self) {
        let claims = core::iter::from_fn(imsic::claim).take(MOST_INTERRUPTS);
        for identity in claims {
            match identity {
                CAN => {
                    let sent = u32::from(self.can.acknowledge());
                    self.counts.confirmed = self.counts.confirmed.wrapping_add(sent);
                    aplic::retrigger(self.aplic, self.board.can.source);
                }
                SERIAL => {
                    (self.serial.bytes()).for_each(|byte| self.request.hear(byte));
                    aplic::retrigger(self.aplic, self.board.serial.source);
                }
                _ => self.counts.foreign += 1,
            }
        }
    }

    /// Runs what is released: the heartbeat first, as its frame is the one with a deadline.
    fn beat(&mut self) {
        let now = time();
        let Some(due) = self.schedule.take(now) else {
            return;
        };
        self.counts.latest = self.counts.latest.max(due.lateness);
        let beat = Heartbeat {
            sequence: self.sequence,
            age_us: (self.pipeline.age(now)).map(|age| self.in_units(age, 1_000_000)),
            lateness_100ns: self.in_units(due.lateness, 10_000_000),
        };
        let is_sent = self.can.send(CAN_ID, beat.data());
        self.sequence = self.sequence.wrapping_add(is_sent.into());
        self.counts.missed += due.skipped + u64::from(!is_sent);
        if let Some(event) = self.event.take() {
            self.report(event);
        }
        self.console.flush();
        let load = u64::from(self.board.load_us) * self.board.timebase / 1_000_000;
        while time() - now < load {}
        if due.is_control {
            self.pipeline.step(time());
            self.take_interrupts();
            if self.request.is_made() && self.can.is_idle() {
                self.sleep();
            }
        }
    }

    /// Calls SUSP once. Its timer and the serial line may wake it; after a power-off the next
    /// power-on does, and its devices have lost their state.
    fn sleep(&mut self) {
        let ticks = |ms| u64::from(ms) * self.board.timebase / 1000;
        let wake = (self.board.wake_after_ms).map(|ms| time() + ticks(ms));
        self.set_timer(wake.unwrap_or(u64::MAX));
        imsic::write(imsic::EIE0, WAKE);
        match suspend() {
            Ok(()) => {
                self.counts.wakes += 1;
                let has_kept_power = self.can.has_kept_power();
                let had_bytes = self.start();
                self.event = Some(match (has_kept_power, had_bytes) {
                    (false, _) => "wake by=power",
                    (true, true) => "wake by=serial",
                    (true, false) => "wake by=timer",
                });
            }
            Err(error) => {
                imsic::write(imsic::EIE0, ALL);
                if self.request.refused(error) {
                    self.console
                        .say(format_args!("sleep refused: SBI error {error}"));
                }
            }
        }
    }

    fn report(&mut self, event: &str) {
        let sequence = self.sequence;
        let Counts {
            wakes,
            confirmed,
            missed,
            foreign,
            latest,
        } = self.counts;
        let late = self.in_units(latest, 1_000_000);
        self.console.say(format_args!(
            "{event} wakes={wakes} sequence={sequence} confirmed={confirmed} missed={missed} \
             foreign={foreign} late_us={late}"
        ));
        self.counts.latest = 0;
    }

    fn set_timer(&self, ticks: u64) {
        if self.board.has_sstc {
            hart::set_stimecmp(ticks);
        } else {
            sbi_rt::set_timer(ticks);
        }
    }

    /// Ticks in units of which a second has `per_second`.
    fn in_units(&self, ticks: u64, per_second: u64) -> u64 {
        ticks.saturating_mul(per_second) / self.board.timebase
    }
}

/// The entry code calls this at a trap.
extern "C" fn trapped(cause: usize, pc: usize, value: usize) -> ! {
    fail(format_args!(
        "FAIL: trap: scause {cause:#x}, sepc {pc:#x}, stval {value:#x}"
    ))
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    fail(format_args!("FAIL: {info}"))
}
