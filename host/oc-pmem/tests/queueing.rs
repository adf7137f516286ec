//! Mean waits beside queueing theory.
#![forbid(unsafe_code)]

use poorwill_oc_pmem::{InOrder, LightPc, Memory, Parameters, Time, Unit};

const REQUESTS: u32 = 2_000_000;

/// A fixed sequence of numbers: the tests repeat exactly.
struct Numbers(u64);

impl Numbers {
    /// xorshift64*, of which the upper bits are used.
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Time until the next request of a Poisson process, with that mean in picoseconds.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a positive time far below the type's end"
    )]
    fn pause(&mut self, mean: f64) -> Time {
        let uniform = ((self.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        Time((-mean * uniform.ln()) as u64)
    }
}

fn one_server() -> Parameters {
    let mut parameters = Parameters::default();
    for text in ["dimms=1", "groups=1", "banks=1", "link=0", "memory=64"] {
        parameters.set(text).expect("a value");
    }
    parameters
}

/// Mean wait of reads for each load from 10 to 70 %, beside that of an M/D/1 queue.
#[expect(clippy::cast_precision_loss, reason = "picoseconds of milliseconds")]
fn compare(name: &str, service: f64, memory: impl Fn() -> Box<dyn Memory>) {
    for percent in [10, 30, 50, 70] {
        let load = f64::from(percent) / 100.0;
        let (mut memory, mut numbers, mut now) = (memory(), Numbers(7), Time::ZERO);
        for _ in 0..REQUESTS {
            now += numbers.pause(service / load);
            let line = u32::try_from(numbers.next() >> 48).expect("16 bits");
            memory.read(now, line);
        }
        let wait = memory.counts().read_time.0 as f64 / f64::from(REQUESTS) - service;
        let theory = load * service / (2.0 * (1.0 - load));
        let error = (wait / theory - 1.0).abs();
        assert!(
            error < 0.02,
            "{name} at {percent} %: {wait:.0} ps, theory {theory:.0} ps"
        );
    }
}

#[test]
fn one_server_waits_like_a_queue_with_constant_service() {
    let parameters = one_server();
    compare("dram", 60_000.0, || Box::new(InOrder::dram(&parameters)));
    compare("lightpc", 66_000.0, || Box::new(LightPc::new(&parameters)));
    compare("lightpc-b-queue", 66_000.0, || {
        Box::new(InOrder::pram(&parameters, Unit::Controller))
    });
}

/// Reads and writes of one server: a queue with two constant times of service (M/G/1,
/// Pollaczek and Khinchine).
#[test]
#[expect(clippy::cast_precision_loss, reason = "picoseconds of milliseconds")]
fn reads_and_writes_in_order_wait_like_a_queue_with_two_times() {
    let mut parameters = one_server();
    parameters.set("gap=0").expect("a value");
    parameters.set("queue=16").expect("a value");
    let (read, write, share) = (66_000.0, 246_000.0, 0.25);
    let mean = read * (1.0 - share) + write * share;
    let square = read * read * (1.0 - share) + write * write * share;
    let load = 0.3;
    let mut memory = InOrder::pram(&parameters, Unit::Controller);
    let (mut numbers, mut now) = (Numbers(7), Time::ZERO);
    for _ in 0..REQUESTS {
        now += numbers.pause(mean / load);
        match numbers.next() >> 62 {
            0 => drop(memory.write(now, 0)),
            _ => drop(memory.read(now, 0)),
        }
    }
    let counts = memory.counts();
    let wait = counts.read_time.0 as f64 / counts.reads as f64 - read;
    let theory = load / mean * square / (2.0 * (1.0 - load));
    let error = (wait / theory - 1.0).abs();
    assert!(error < 0.02, "{wait:.0} ps, theory {theory:.0} ps");
}
