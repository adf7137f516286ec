//! Random bytes: what this machine's sources give, through one pool.

use arrayvec::ArrayVec;
use poorwill_arch::{HartSources, hart_id};
use poorwill_devicetree::{MAX_HARTS, Machine};
use poorwill_entropy::{Pool, Purpose, Quality, Source};
use spin::{Mutex, MutexGuard, Once};

use super::console::say;
use super::platform;

static POOL: Mutex<Pool> = Mutex::new(Pool::new());

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
    let mut pool = gathered(Purpose::Key);
    if pool.quality() == Quality::Weak {
        say!("weak entropy: no seed CSR, and no seed from the previous stage; timing alone");
    }
    pool.draw(Purpose::Key)
}

/// Bytes that make what a key is used for differ each time.
pub(crate) fn salt() -> [u8; 8] {
    gathered(Purpose::Salt).draw(Purpose::Salt)
}

/// A seed for the OS, in place of the previous stage's: the OS must not know
/// what the firmware's keys are made of.
pub(crate) fn os_seed() -> [u8; 32] {
    gathered(Purpose::OsSeed).draw(Purpose::OsSeed)
}

/// A generation ID for the OS.
pub(crate) fn generation_id() -> [u8; 16] {
    gathered(Purpose::GenerationId).draw(Purpose::GenerationId)
}

/// The pool, with what is good for `purpose` in it. A source that fails is named on
/// the console.
fn gathered(purpose: Purpose) -> MutexGuard<'static, Pool> {
    let mut pool = POOL.lock();
    let harts = SEED_HARTS.get();
    let has_seed = harts.is_some_and(|harts| harts.contains(&hart_id()));
    let sources = HartSources::new(&platform().time, has_seed);
    if let Err(error) = pool.gather(purpose, &sources) {
        say!("{error}");
    }
    pool
}
