//! Prints the model's rate for each machine, on one core and 1 and 8 harts.
//!
//! ```sh
//! tools/cargo run --release -p poorwill-oc-pmem --example rate
//! ```
#![forbid(unsafe_code)]

use std::time::Instant;

use poorwill_oc_pmem::{Kind, Machine, Parameters, Request, Source, run};

const REQUESTS: u64 = 8_000_000;

/// Random requests: a write for each three reads, 40 instructions apart.
#[derive(Clone)]
struct Random {
    states: Vec<u64>,
    left: Vec<u64>,
    each: u64,
}

impl Source for Random {
    fn harts(&self) -> usize {
        self.states.len()
    }

    fn next(&mut self, hart: usize) -> Option<Request> {
        self.left[hart] = self.left[hart].checked_sub(1)?;
        let state = &mut self.states[hart];
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let drawn = *state >> 33;
        let kind = match drawn & 3 {
            0 => Kind::WriteBack,
            1 => Kind::Store,
            _ => Kind::Load,
        };
        Some(Request {
            kind,
            line: u32::try_from(drawn >> 6).unwrap_or_default(),
            instructions: drawn >> 2 & 63,
        })
    }

    fn instructions(&self, _hart: usize) -> u64 {
        self.each * 40
    }
}

fn main() {
    let parameters = Parameters::default();
    for harts in [1, 8] {
        for (name, machine) in Machine::ALL {
            let each = REQUESTS / harts;
            let mut source = Random {
                states: (0..harts).map(|hart| hart * 77 + 1).collect(),
                left: (0..harts).map(|_| each).collect(),
                each,
            };
            let begun = Instant::now();
            let outcome = run(&mut source, machine, &parameters);
            let rate = outcome.requests as f64 / begun.elapsed().as_secs_f64() / 1e6;
            println!("{harts} harts, {name}: {rate:.1} M requests a second");
        }
    }
}
