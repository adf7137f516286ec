//! Mean waits beside queueing theory.
#![forbid(unsafe_code)]

use poorwill_bench::traces::open_loop::Numbers;
use poorwill_oc_pmem::{InOrder, LightPc, Memory, Parameters, Time, Unit};

const REQUESTS: u32 = 2_000_000;

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
            let line = u32::try_from(numbers.draw() >> 48).expect("16 bits");
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
        match numbers.draw() >> 62 {
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
