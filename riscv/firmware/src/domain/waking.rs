//! What the hart that wakes a domain restores by itself.

use poorwill_drivers::ShutDomains;
use poorwill_hart::HartContext;
use poorwill_state::banks::WakingBanks;
use spin::Mutex;

use crate::platform::bus::WakingDevices;

/// The state that the waking hart restores, in this order: its own, DOMAINCFG of the OS's APLICs,
/// which are shut, and the devices.
pub(crate) type WakingState = (HartContext, Option<ShutDomains>, WakingDevices);

/// The state of the hart that wakes a domain, and its banks, which are read before it.
#[derive(Debug)]
pub(crate) struct WakingHart {
    pub(crate) state: Mutex<Option<WakingState>>,
    pub(crate) banks: Mutex<WakingBanks>,
}

impl WakingHart {
    pub(super) const fn new() -> Self {
        WakingHart {
            state: Mutex::new(None),
            banks: Mutex::new(WakingBanks::new()),
        }
    }
}
