//! Devices of QEMU whose Linux drivers have no suspend, so that a sleep loses their state.

use std::ffi::OsString;

/// A device that loses its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Losing {
    /// The start of QEMU's names for it.
    name: &'static str,
    /// The module of its driver.
    driver: &'static str,
}

const ALL: [Losing; 6] = [
    Losing::of("virtio-9p-", "9pnet_virtio"),
    Losing::of("virtio-gpu-", "virtio_gpu"),
    Losing::of("virtio-vga", "virtio_gpu"),
    Losing::of("lsi53c", "sym53c8xx"),
    Losing::of("kvaser_pci", "kvaser_pci"),
    Losing::of("cirrus-vga", "cirrus"),
];

impl Losing {
    const fn of(name: &'static str, driver: &'static str) -> Self {
        Losing { name, driver }
    }
}

/// Names the devices in QEMU's arguments that lose their state, each as a warning.
pub(crate) fn warnings(arguments: &[OsString]) -> Vec<String> {
    let arguments: Vec<_> = (arguments.iter())
        .map(|argument| argument.to_string_lossy())
        .collect();
    let pairs = arguments.windows(2);
    let devices = pairs.filter_map(|pair| match (&*pair[0], &*pair[1]) {
        ("-device" | "--device", device) => Some(driver_of(device)),
        // A short form of two options.
        ("-virtfs" | "--virtfs", _) => Some("virtio-9p-pci"),
        _ => None,
    });
    let warning = |device: &str| {
        let losing = ALL.iter().find(|one| device.starts_with(one.name))?;
        let driver = losing.driver;
        Some(format!(
            "{device} loses its state in a sleep: unload the guest's driver {driver} before"
        ))
    };
    devices.filter_map(warning).collect()
}

/// The driver's name in the value of `-device`: `NAME,…`, `driver=NAME,…`, or JSON.
fn driver_of(device: &str) -> &str {
    let name = match device.split_once("\"driver\"") {
        Some((_, rest)) => rest.trim_start_matches([' ', ':', '"']),
        None => device.strip_prefix("driver=").unwrap_or(device),
    };
    name.split([',', '"']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(arguments: &[&str]) -> Vec<String> {
        let arguments: Vec<_> = arguments.iter().map(OsString::from).collect();
        let warnings = warnings(&arguments).into_iter();
        warnings
            .map(|text| text.split(' ').next().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn devices_that_lose_their_state_are_named() {
        let cases: [(&[&str], &[&str]); 7] = [
            (
                &[
                    "-device",
                    "virtio-9p-pci,fsdev=f,mount_tag=t",
                    "-device",
                    "lsi53c895a",
                ],
                &["virtio-9p-pci", "lsi53c895a"],
            ),
            (&["-virtfs", "local,path=/tmp"], &["virtio-9p-pci"]),
            (
                &["--device", "driver=virtio-gpu-pci,id=g"],
                &["virtio-gpu-pci"],
            ),
            (
                &["-device", r#"{"driver": "virtio-vga", "id": "v"}"#],
                &["virtio-vga"],
            ),
            (
                &[
                    "-device",
                    "virtio-net-pci",
                    "-device",
                    "nvme,serial=lsi53c895a",
                ],
                &[],
            ),
            (&["-append", "virtio-9p-pci"], &[]),
            (&["-device"], &[]),
        ];
        for (arguments, devices) in cases {
            assert_eq!(named(arguments), devices, "{arguments:?}");
        }
        let arguments = ["-device", "lsi53c895a"].map(OsString::from);
        let text =
            "lsi53c895a loses its state in a sleep: unload the guest's driver sym53c8xx before";
        assert_eq!(warnings(&arguments), [text]);
    }
}
