//! Random bytes from this machine's sources, through one pool.

use arrayvec::ArrayVec;
use poorwill_arch::{HartSources, hart_id};
use poorwill_devicetree::{MAX_HARTS, Machine};
use poorwill_entropy::{Pool, Purpose, Quality, Source};
use spin::{Mutex, MutexGuard, Once};

use super::console::say;
use super::generation_id::GenerationId;
use super::platform;

/// The pool, and its sources.
struct Entropy {
    pool: Mutex<Pool>,
    /// IDs of the harts with an entropy source (the seed CSR, Zkr).
    seed_harts: Once<ArrayVec<u64, MAX_HARTS>>,
}

static ENTROPY: Entropy = Entropy {
    pool: Mutex::new(Pool::new()),
    seed_harts: Once::new(),
};

/// Adds the previous stage's seed.
pub(crate) fn start(machine: &Machine) {
    let harts = machine.harts.iter().filter(|hart| hart.extensions.zkr);
    let seed_harts = || harts.map(|hart| hart.id).collect();
    ENTROPY.seed_harts.call_once(seed_harts);
    ENTROPY
        .pool
        .lock()
        .add(Source::PreviousStage, &machine.seed);
}

/// Makes a new key; reports a weak one on the console.
pub(crate) fn key() -> [u8; 32] {
    let mut pool = gathered(Purpose::Key);
    if pool.quality() == Quality::Weak {
        say!("weak entropy: no seed CSR, and no seed from the previous stage, only timing");
    }
    pool.draw(Purpose::Key)
}

/// Makes bytes that distinguish uses of a key.
pub(crate) fn salt() -> [u8; 8] {
    gathered(Purpose::Salt).draw(Purpose::Salt)
}

/// Makes a seed for the OS, which replaces the previous stage's: the OS must not know the inputs of
/// the firmware's keys.
pub(crate) fn os_seed() -> [u8; 32] {
    gathered(Purpose::OsSeed).draw(Purpose::OsSeed)
}

impl GenerationId {
    /// Writes new random bytes. Call this while no OS runs.
    pub(crate) fn renew(&self) {
        self.restore(&gathered(Purpose::GenerationId).draw(Purpose::GenerationId));
    }
}

/// The pool, after it has gathered enough for `purpose`. Reports a failed source on the console.
fn gathered(purpose: Purpose) -> MutexGuard<'static, Pool> {
    let mut pool = ENTROPY.pool.lock();
    let harts = ENTROPY.seed_harts.get();
    let has_seed = harts.is_some_and(|harts| harts.contains(&hart_id()));
    let sources = HartSources::new(&platform().time, has_seed);
    if let Err(error) = pool.gather(purpose, &sources) {
        say!("{error}");
    }
    pool
}
