//! What the console says about halves, and about the kernel's times.

use std::collections::BTreeMap;

use anyhow::Context;
use poorwill_machine::console::Fields;

use super::figures::{Device, Half, Phase, Times};
use crate::spread::median;

const HALF: &str = "poorwill: executor half=";

/// Start of the guest's lines with the kernel's times (`guest/tiny/init`).
const TIMES: &str = "times: ";

/// The halves of a console, each with its kind: `suspend` or `resume`.
pub(super) fn halves<'l>(
    lines: impl IntoIterator<Item = &'l str>,
) -> anyhow::Result<Vec<(String, Half)>> {
    let told = lines.into_iter().filter(|line| line.contains(HALF));
    told.map(|line| half(line).with_context(|| format!("no figures of a half in {line:?}")))
        .collect()
}

fn half(line: &str) -> Option<(String, Half)> {
    let fields = Fields::parse(line, "poorwill: executor ")?;
    let number = |key| fields.number(key);
    let without = |key, spins| Some(number(key)?.saturating_sub(number(spins)?));
    let half = Half {
        instructions: without("instructions", "spins")?,
        translated: number("translated")?,
        own: without("own", "own_spins")?,
        mmio: number("mmio")?,
        interrupts: number("interrupts")?,
        exceptions: number("exceptions")?,
        ms: number("ms")?,
        end: fields.get("end")?.to_owned(),
    };
    Some((fields.get("half")?.to_owned(), half))
}

/// The times of one sleep: phases in ms, and devices' callbacks in us, of the suspend and the resume.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sleep {
    phases: Vec<(String, f64)>,
    devices: BTreeMap<String, [f64; 2]>,
}

/// The last phase of a suspend. What comes after it belongs to the resume.
const LAST_OF_SUSPEND: &str = "noirq suspend";

/// The kernel's times in a console, for each sleep.
pub(super) fn sleeps<'l>(lines: impl IntoIterator<Item = &'l str>) -> Vec<Sleep> {
    let mut sleeps: Vec<Sleep> = Vec::new();
    let mut half = 0;
    for line in lines {
        let Some((_, line)) = line.split_once(TIMES) else {
            continue;
        };
        if line.contains("PM: suspend entry") {
            sleeps.push(Sleep::default());
            half = 0;
        }
        let Some(sleep) = sleeps.last_mut() else {
            continue;
        };
        if let Some((name, ms)) = phase(line) {
            if name == LAST_OF_SUSPEND {
                half = 1;
            }
            sleep.phases.push((name.to_owned(), ms));
        } else if let Some((name, us)) = callback(line) {
            sleep.devices.entry(name.to_owned()).or_default()[half] += us;
        }
    }
    sleeps
}

/// A line about a phase: `PM: noirq suspend of devices complete after 12.345 msecs`.
fn phase(line: &str) -> Option<(&str, f64)> {
    let (_, text) = line.split_once("PM: ")?;
    let (name, after) = text.split_once(" of devices complete after ")?;
    Some((name, after.split_whitespace().next()?.parse().ok()?))
}

/// A line about a callback, `[ 1.5] nvme 0000:00:01.0: PM: pci_pm_suspend+0x0/0x1b8 returned 0 after 12
/// usecs`: the device with its driver or bus, and the time.
fn callback(line: &str) -> Option<(&str, f64)> {
    let (_, text) = line.split_once("] ")?;
    let (head, after) = text.split_once(" returned ")?;
    let (_, after) = after.split_once(" after ")?;
    let us = after.split_whitespace().next()?.parse().ok()?;
    let (name, _) = head.rsplit_once(": ")?;
    Some((name.strip_suffix(": PM").unwrap_or(name), us))
}

/// The medians of some sleeps. The slowest device comes first.
pub(super) fn times(is_on: bool, is_async: bool, sleeps: &[Sleep]) -> Times {
    let mut phases: Vec<(&str, Vec<f64>)> = Vec::new();
    let mut devices: BTreeMap<&str, [Vec<f64>; 2]> = BTreeMap::new();
    for sleep in sleeps {
        for (name, ms) in &sleep.phases {
            match phases.iter_mut().find(|(known, _)| known == name) {
                Some((_, values)) => values.push(*ms),
                None => phases.push((name, vec![*ms])),
            }
        }
        for (name, halves) in &sleep.devices {
            let values = devices.entry(name).or_default();
            values
                .iter_mut()
                .zip(halves)
                .for_each(|(values, us)| values.push(*us));
        }
    }
    let phase = |(name, values): (&str, Vec<f64>)| Phase {
        name: name.to_owned(),
        ms: median(values),
    };
    let device = |(name, [suspend, resume]): (&str, [Vec<f64>; 2])| Device {
        name: name.to_owned(),
        suspend_us: median(suspend),
        resume_us: median(resume),
    };
    let mut devices: Vec<Device> = devices.into_iter().map(device).collect();
    devices.sort_by(|one, other| {
        let whole = |device: &Device| device.suspend_us + device.resume_us;
        whole(other).total_cmp(&whole(one))
    });
    Times {
        is_on,
        is_async,
        phases: phases.into_iter().map(phase).collect(),
        devices,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_read_from_the_console() {
        let line = "[    1.5] poorwill: executor half=resume harts=1 instructions=640 translated=600 own=1700 \
                    mmio=3 interrupts=4 exceptions=5 ms=6 end=user spins=40 own_spins=700";
        let read = halves(["poorwill: wake mode=retain", line]).unwrap();
        let half = Half {
            instructions: 600,
            translated: 600,
            own: 1000,
            mmio: 3,
            interrupts: 4,
            exceptions: 5,
            ms: 6,
            end: "user".into(),
        };
        assert_eq!(read, [("resume".into(), half)]);
        assert!(halves([&line[..60]]).is_err());
    }

    #[test]
    fn times_are_read_by_sleep_half_and_device() {
        let sleep = |us: u32| {
            [
                "times: [    9.0] PM: suspend entry (deep)".to_owned(),
                format!("times: [    9.1] nvme 0000:00:01.0: PM: pci_pm_suspend+0x0/0x1b8 returned 0 after {us} usecs"),
                "times: [    9.1] nvme 0000:00:01.0: PM: pci_pm_suspend_late+0x0/0x1b8 returned 0 after 5 usecs".into(),
                "times: [    9.2] PM: suspend of devices complete after 1.500 msecs".into(),
                "times: [    9.2] PM: noirq suspend of devices complete after 0.250 msecs".into(),
                "times: [    9.3] nvme 0000:00:01.0: pci_pm_resume+0x0/0x10 returned -5 after 7 usecs".into(),
                "times: [    9.3] rtc rtc0: PM: rtc_resume+0x0/0x10 returned 0 after 90000 usecs".into(),
                "times: [    9.4] PM: resume of devices complete after 2.000 msecs".into(),
            ]
        };
        let lines = [sleep(10), sleep(20), sleep(60)].concat();
        let read = sleeps(lines.iter().map(String::as_str));
        assert_eq!(read.len(), 3);
        let times = times(true, false, &read);
        assert_eq!((times.is_on, times.is_async), (true, false));
        let is = |value: f64, wanted: f64| assert!((value - wanted).abs() < 1e-9, "{value}");
        let names: Vec<_> = times
            .devices
            .iter()
            .map(|device| device.name.as_str())
            .collect();
        assert_eq!(names, ["rtc rtc0", "nvme 0000:00:01.0"]);
        is(times.devices[1].suspend_us, 25.0);
        is(times.devices[1].resume_us, 7.0);
        is(times.sum_ms("suspend"), 1.75);
        is(times.sum_ms("resume"), 2.0);
    }
}
