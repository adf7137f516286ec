//! Random requests at a given rate: a memory's latency by load.

use std::iter;

use poorwill_oc_pmem::{Arrival, Machine, Parameters, Time, serve};

/// Random requests of a Poisson process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Millions of requests a second.
    pub rate: f64,
    /// Writes, in percent of the requests.
    pub writes: u8,
    /// Requests.
    pub requests: u64,
}

/// Mean time of the machine's reads under the load, in nanoseconds; `None`: it has no reads.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "picoseconds of seconds")]
pub fn mean_read(machine: Machine, parameters: &Parameters, load: Load) -> Option<f64> {
    let counts = serve(arrivals(load), machine, parameters);
    (counts.reads > 0).then(|| counts.read_time.0 as f64 / counts.reads as f64 / 1000.0)
}

/// The requests of a load, to random lines of 2 GiB.
fn arrivals(load: Load) -> impl Iterator<Item = Arrival> {
    let (mut numbers, mut at) = (Numbers(7), Time::ZERO);
    let mean = 1e6 / load.rate;
    let arrivals = iter::repeat_with(move || {
        at += numbers.pause(mean);
        let is_write =
            load.writes > 0 && (numbers.draw() >> 57) * 100 < u64::from(load.writes) << 7;
        let line = u32::try_from(numbers.draw() >> 39).unwrap_or_default();
        Arrival { at, line, is_write }
    });
    arrivals.take(usize::try_from(load.requests).unwrap_or(usize::MAX))
}

/// A fixed sequence of numbers, by a seed that is not zero: runs repeat exactly.
#[derive(Clone, Debug)]
pub struct Numbers(pub u64);

impl Numbers {
    /// xorshift64*, of which the upper bits are used.
    pub fn draw(&mut self) -> u64 {
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
    pub fn pause(&mut self, mean: f64) -> Time {
        let uniform = ((self.draw() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        Time((-mean * uniform.ln()) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(texts: &[&str]) -> Parameters {
        let mut parameters = Parameters::default();
        for text in texts {
            parameters.set(text).unwrap();
        }
        parameters
    }

    fn is_near(found: f64, expected: f64) -> bool {
        (found / expected - 1.0).abs() < 0.02
    }

    const ONE_BANK: [&str; 5] = ["dimms=1", "banks=1", "groups=1", "dram=50", "link=3"];

    /// The mean time of DRAM's reads at a rate.
    fn mean_of(parameters: &Parameters, rate: f64) -> f64 {
        let load = Load {
            rate,
            writes: 0,
            requests: 500_000,
        };
        mean_read(Machine::Dram, parameters, load).unwrap()
    }

    /// A queue with constant service (M/D/1) waits for a part of the bank's busy time: for half of the load
    /// over the rest of the time.
    #[test]
    fn recovery_delays_the_next_access_alone() {
        let parameters = parameters(&[&ONE_BANK[..], &["recovery=50"]].concat());
        let mean = |rate| mean_of(&parameters, rate);
        assert!(is_near(mean(0.01), 53.0 + 0.05), "{}", mean(0.01));
        assert!(is_near(mean(5.0), 53.0 + 50.0), "{}", mean(5.0));
    }

    /// Many banks that share a channel wait for it like for one server.
    #[test]
    fn a_channel_is_waited_for_like_a_server() {
        let many = ["dimms=1", "banks=64", "dram=1", "link=0", "channel=10"];
        let mean = mean_of(&parameters(&many), 50.0);
        assert!(is_near(mean, 1.0 + 5.0), "{mean}");
    }

    /// A request in a hundred finds a refresh of 100 ns, and the rest of it is 50 ns.
    #[test]
    fn a_refresh_is_waited_for_by_its_share() {
        let many = [
            "dimms=1",
            "banks=64",
            "dram=20",
            "link=0",
            "refresh=100",
            "refresh-every=10000",
        ];
        let mean = mean_of(&parameters(&many), 0.1);
        assert!(is_near(mean, 20.0 + 0.5), "{mean}");
    }

    #[test]
    fn a_share_of_the_requests_are_writes() {
        let load = Load {
            rate: 1.0,
            writes: 25,
            requests: 100_000,
        };
        let writes = arrivals(load).filter(|one| one.is_write).count();
        assert!((24_000..26_000).contains(&writes), "{writes}");
        let writes = Load {
            writes: 100,
            ..load
        };
        assert_eq!(
            mean_read(Machine::Dram, &Parameters::default(), writes),
            None
        );
    }
}
