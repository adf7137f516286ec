//! Times and bytes of sleeps that a bench measured, in place of a profile's.

use uom::si::f64::Time;
use uom::si::time::{millisecond, second};

use super::profile::Device;
use super::times::{MeasuredPart, Times};
use crate::compare::Case;
use crate::spread::median;

/// One case of a bench, with medians over its rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredSleep {
    /// The case's name, such as `0.5 of 4 GiB`.
    pub name: String,
    pub saved_bytes: f64,
    /// Bytes of the image that a wake loads.
    pub loaded_bytes: f64,
    kernel_sleep_ms: Option<f64>,
    firmware_sleep_ms: f64,
    save_ms: f64,
    firmware_wake_ms: f64,
    load_ms: f64,
    kernel_wake_ms: Option<f64>,
}

impl MeasuredSleep {
    /// The medians of a case; `None`: it has no sleep or no wake.
    #[must_use]
    pub fn of(case: &Case) -> Option<Self> {
        let kernel_sleep = case.sleeps.iter().filter_map(|sleep| sleep.kernel_ms);
        Some(MeasuredSleep {
            name: case.name(),
            saved_bytes: case.sleep(|sleep| bytes(sleep.saved_bytes))?.median,
            loaded_bytes: case.wake(|wake| bytes(wake.loaded_bytes))?.median,
            kernel_sleep_ms: middle(kernel_sleep.collect()),
            firmware_sleep_ms: case
                .sleep(|sleep| (sleep.firmware_ms - sleep.save_ms).max(0.0))?
                .median,
            save_ms: case.sleep(|sleep| sleep.save_ms)?.median,
            firmware_wake_ms: case
                .wake(|wake| (wake.firmware_ms - wake.load_ms).max(0.0))?
                .median,
            load_ms: case.wake(|wake| wake.load_ms)?.median,
            kernel_wake_ms: case.kernel_resume().map(|spread| spread.median),
        })
    }

    /// The emulated machine's time for this part.
    #[must_use]
    pub fn time(&self, part: MeasuredPart) -> Option<Time> {
        let ms = match part {
            MeasuredPart::KernelSleep => self.kernel_sleep_ms,
            MeasuredPart::FirmwareSleep => Some(self.firmware_sleep_ms),
            MeasuredPart::Save => Some(self.save_ms),
            MeasuredPart::FirmwareWake => Some(self.firmware_wake_ms),
            MeasuredPart::Load => Some(self.load_ms),
            MeasuredPart::KernelWake => self.kernel_wake_ms,
        };
        ms.map(Time::new::<millisecond>)
    }
}

fn middle(values: Vec<f64>) -> Option<f64> {
    (!values.is_empty()).then(|| median(values))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "bytes of machines are far below 2^53"
)]
fn bytes(count: u64) -> f64 {
    count as f64
}

/// A measured sleep on a profile's machine. The times of saving and loading are the measured bytes
/// at the bandwidths of the profile's device. Without a device they are the emulated machine's.
#[derive(Clone, Copy, Debug)]
pub struct OnMachine<'a> {
    pub sleep: &'a MeasuredSleep,
    pub device: Option<&'a Device>,
    /// Whether the profile's avoidable parts are left out.
    pub without_avoidable: bool,
}

impl Times for OnMachine<'_> {
    fn of(&self, part: MeasuredPart) -> Option<Time> {
        let Some(device) = self.device else {
            return self.sleep.time(part);
        };
        let moved = |bytes: f64, rate: f64| Some(Time::new::<second>(bytes / rate));
        match part {
            MeasuredPart::Save => {
                moved(self.sleep.saved_bytes, device.write_bytes_per_second.value)
            }
            MeasuredPart::Load => {
                moved(self.sleep.loaded_bytes, device.read_bytes_per_second.value)
            }
            // The processor takes this time, not the device. The profile's time is better than the
            // emulator's.
            MeasuredPart::KernelSleep
            | MeasuredPart::FirmwareSleep
            | MeasuredPart::FirmwareWake
            | MeasuredPart::KernelWake => self.sleep.time(part),
        }
    }

    fn without_avoidable(&self) -> bool {
        self.without_avoidable
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::builtin;
    use crate::energy::profile::Kind;
    use crate::sample;

    #[test]
    fn bytes_at_a_device_s_bandwidth_take_the_place_of_a_part() {
        let case = &sample().compare.unwrap().cases[0];
        let sleep = MeasuredSleep::of(case).unwrap();
        let profile = builtin::profile("thesis-8gib").unwrap();
        let mode = profile.mode_of(Kind::Persist).unwrap();
        let on = |without_avoidable| OnMachine {
            sleep: &sleep,
            device: profile.device.as_ref(),
            without_avoidable,
        };
        let [all, without] = [false, true].map(|without| mode.with(&on(without)).unwrap());
        let load = 563_714_457.0 / 6.6e9;
        assert!((all.leave_time().get::<second>() - (2.45 + 9.06 + load)).abs() < 1e-9);
        assert!((without.leave_time().get::<second>() - (2.45 + load)).abs() < 1e-9);
        let save = 563_714_457.0 / 2.3e9;
        assert!((all.enter_time().get::<second>() - (0.62 + save)).abs() < 1e-9);
    }

    #[test]
    fn without_a_device_the_measured_times_do() {
        let case = &sample().compare.unwrap().cases[0];
        let sleep = MeasuredSleep::of(case).unwrap();
        let on = OnMachine {
            sleep: &sleep,
            device: None,
            without_avoidable: false,
        };
        assert_eq!(
            on.of(MeasuredPart::Save),
            Some(Time::new::<millisecond>(600.0))
        );
        assert_eq!(
            on.of(MeasuredPart::FirmwareWake),
            Some(Time::new::<millisecond>(15.0))
        );
    }

    #[test]
    fn a_case_that_never_slept_has_no_times() {
        assert_eq!(MeasuredSleep::of(&Case::default()), None);
    }
}
