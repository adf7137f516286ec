//! Entropy sources of the calling hart.

use poorwill_entropy::seed::{self, SeedError};
use poorwill_entropy::{HARDWARE_BYTES, Sources};

use crate::{Time, csr, hart_id};

/// Entropy sources of the calling hart.
#[derive(Clone, Copy, Debug)]
pub struct HartSources<'t> {
    time: &'t Time,
    has_seed: bool,
}

impl<'t> HartSources<'t> {
    /// `has_seed`: the hart may have the seed CSR (Zkr). It is asked.
    #[must_use]
    pub fn new(time: &'t Time, has_seed: bool) -> Self {
        HartSources { time, has_seed }
    }
}

impl Sources for HartSources<'_> {
    fn hardware(&self, into: &mut [u8; HARDWARE_BYTES]) -> Result<bool, SeedError> {
        let has_seed = self.has_seed && csr::try_swap_seed().is_some();
        if has_seed {
            seed::fill(into, csr::swap_seed)?;
        }
        Ok(has_seed)
    }

    fn cycles(&self) -> u64 {
        csr::read::<{ csr::MCYCLE }>()
    }

    fn ticks(&self) -> u64 {
        self.time.ticks()
    }

    fn circumstances(&self) -> impl AsRef<[u64]> {
        [
            self.time.now_ns().unwrap_or(0),
            self.time.ticks(),
            self.cycles(),
            hart_id(),
            csr::read::<{ csr::MVENDORID }>(),
            csr::read::<{ csr::MARCHID }>(),
            csr::read::<{ csr::MIMPID }>(),
        ]
    }
}
