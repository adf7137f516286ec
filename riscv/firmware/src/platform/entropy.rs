//! Random bytes: what this machine's sources give, through one pool.

use arrayvec::ArrayVec;
use poorwill_devicetree::{MAX_HARTS, Machine};
use poorwill_entropy::{Pool, Purpose, Quality, Source, seed};
use spin::{Mutex, Once};
use zerocopy::IntoBytes;

use super::console::say;
use super::platform;
use crate::arch::{self, csr};

static POOL: Mutex<Pool> = Mutex::new(Pool::new());

/// Bytes that are read of the seed CSR at a time: twice a key's, as its bits
/// have half a bit of entropy each.
const HARDWARE_BYTES: usize = 64;

/// How often the time between two moments is taken. A bit of each is as much as
/// may be hoped for.
const JITTER_ROUNDS: usize = 16;
const JITTER_SAMPLES: usize = 64;

/// IDs of the harts that have an entropy source (the seed CSR, Zkr).
static SEED_HARTS: Once<ArrayVec<u64, MAX_HARTS>> = Once::new();

/// Takes in what the previous stage gave.
pub(super) fn start(machine: &Machine) {
    let harts = machine.harts.iter().filter(|hart| hart.extensions.zkr);
    SEED_HARTS.call_once(|| harts.map(|hart| hart.id).collect());
    POOL.lock().add(Source::PreviousStage, &machine.seed);
}

/// A new key. A weak one is named on the console.
pub(crate) fn key() -> [u8; 32] {
    let mut pool = POOL.lock();
    gather_all(&mut pool);
    if pool.quality() == Quality::Weak {
        say!("weak entropy: no seed CSR, and no seed from the previous stage; timing alone");
    }
    pool.draw(Purpose::Key)
}

/// Bytes that make what a key is used for differ each time.
pub(crate) fn salt() -> [u8; 8] {
    let mut pool = POOL.lock();
    gather_all(&mut pool);
    pool.draw(Purpose::Salt)
}

/// A seed for the OS, in place of the previous stage's: the OS must not know
/// what the firmware's keys are made of.
pub(crate) fn os_seed() -> [u8; 32] {
    let mut pool = POOL.lock();
    gather_hardware(&mut pool);
    pool.draw(Purpose::OsSeed)
}

/// A generation ID for the OS. Timing, which takes the longest to gather, goes in
/// where nothing better has.
pub(crate) fn generation_id() -> [u8; 16] {
    let mut pool = POOL.lock();
    gather_hardware(&mut pool);
    if pool.quality() == Quality::Weak {
        gather_jitter(&mut pool);
    }
    gather_circumstances(&mut pool);
    pool.draw(Purpose::GenerationId)
}

fn gather_all(pool: &mut Pool) {
    gather_hardware(pool);
    gather_jitter(pool);
    gather_circumstances(pool);
}

fn gather_hardware(pool: &mut Pool) {
    let sources = SEED_HARTS.get();
    if !sources.is_some_and(|harts| harts.contains(&arch::hart_id())) {
        return;
    }
    let mut bytes = [0; HARDWARE_BYTES];
    match seed::fill(&mut bytes, csr::swap_seed) {
        Ok(()) => pool.add(Source::Hardware, &bytes),
        Err(error) => say!("{error}"),
    }
}

/// Times reads of a device and of memory, whose caches and queues are never
/// quite in the same state.
fn gather_jitter(pool: &mut Pool) {
    let time = &platform().time;
    for _ in 0..JITTER_ROUNDS {
        let mut samples = [0u64; JITTER_SAMPLES];
        let mut last = csr::read::<{ csr::MCYCLE }>();
        for index in 0..JITTER_SAMPLES {
            let ticks = time.ticks();
            // A place that depends on the times before.
            let place = (last % JITTER_SAMPLES as u64) as usize;
            let touched = core::hint::black_box(samples[place]);
            let now = csr::read::<{ csr::MCYCLE }>();
            samples[index] = now.wrapping_sub(last) ^ ticks.rotate_left(32) ^ touched;
            last = now;
        }
        pool.add(Source::Jitter, samples.as_bytes());
    }
}

fn gather_circumstances(pool: &mut Pool) {
    let time = &platform().time;
    let circumstances = [
        time.now_ns().unwrap_or(0),
        time.ticks(),
        csr::read::<{ csr::MCYCLE }>(),
        arch::hart_id(),
        csr::read::<{ csr::MVENDORID }>(),
        csr::read::<{ csr::MARCHID }>(),
        csr::read::<{ csr::MIMPID }>(),
    ];
    pool.add(Source::Circumstance, circumstances.as_bytes());
}
