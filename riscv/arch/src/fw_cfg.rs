//! Memory for requests to a firmware configuration device.

use core::sync::atomic::{AtomicU32, Ordering};

use poorwill_drivers::fw_cfg::{RequestPlace, RequestWords};

use crate::fence;

/// Memory for one request, which the device reads and writes.
#[derive(Debug)]
pub struct Place(&'static [AtomicU32; 4]);

impl Place {
    /// Uses these words for requests.
    #[must_use]
    pub fn new(words: &'static [AtomicU32; 4]) -> Self {
        Place(words)
    }
}

impl RequestPlace for Place {
    fn address(&self) -> u64 {
        self.0.as_ptr().expose_provenance() as u64
    }

    fn put(&mut self, words: RequestWords) {
        for (place, word) in self.0.iter().zip(words) {
            place.store(word.to_be(), Ordering::Relaxed);
        }
        fence::before_device_write();
    }

    fn control(&self) -> u32 {
        fence::after_device_write();
        u32::from_be(self.0[0].load(Ordering::Relaxed))
    }
}
