//! `check`: shows devices whose state a sleep without power destroys, because their drivers have no
//! suspend.
//!
//! Linux does not show whether a driver has one, so this is a list of the drivers without.

use core::fmt::Write;

use crate::cut::{domain_and_bus, for_each_in};
use crate::error::Error;
use crate::files::path;
use crate::places::Places;

/// PCI drivers of Debian's kernels 6.12 and 7.2 without a suspend: the modules' `struct pci_driver`
/// has neither `pm` nor `suspend`. Storage, networks, CAN and displays are listed.
const PCI: &[&str] = &[
    "3w-xxxx",
    "aic94xx",
    "atp870u",
    "be2iscsi",
    "bfa",
    "csiostor",
    "hptiop",
    "mvsas",
    "pdc_adma",
    "qla2xxx",
    "qla4xxx",
    "sata_promise",
    "sata_qstor",
    "sata_svw",
    "sata_sx4",
    "sata_uli",
    "sata_vsc",
    "snic",
    "sym53c8xx",
    "wd719x",
    "bna",
    "cxgb3",
    "cxgb4",
    "enic",
    "ionic",
    "nfp",
    "ns83820",
    "qla3xxx",
    "r6040",
    "S2IO",
    "sfc_ef100",
    "sis190",
    "tehuti",
    "ems_pci",
    "kvaser_pci",
    "peak_pci",
    "cirrus",
    "cirrus-qemu",
    "vfio-pci",
];

/// Virtio drivers of these kernels without `freeze`.
const VIRTIO: &[&str] = &["9pnet_virtio", "virtio_gpu"];

/// A bus: the folder of its drivers, the names of those without a suspend, and which of a driver's
/// files are devices.
type Bus<'a> = (&'a str, &'a [&'a str], &'a dyn Fn(&str) -> bool);

/// Shows each such device.
///
/// # Errors
///
/// [`Error::LosesState`]: there is one.
pub(crate) fn check(places: &Places<'_>, out: &mut dyn Write) -> Result<(), Error> {
    let mut is_any_lost = false;
    let is_function = |name: &str| domain_and_bus(name).is_some();
    let is_virtio = |name: &str| name.starts_with("virtio");
    let buses: [Bus<'_>; 2] = [
        (places.pci_drivers, PCI, &is_function),
        (places.virtio_drivers, VIRTIO, &is_virtio),
    ];
    for (drivers, names, is_device) in buses {
        for driver in names {
            for_each_in(&path(&[drivers, driver])?, &mut |device| {
                if !is_device(device) {
                    return Ok(());
                }
                is_any_lost = true;
                let remedy = "unload it before a sleep";
                Ok(writeln!(
                    out,
                    "loses state  {device}: {driver} has no suspend: {remedy}"
                )?)
            })?;
        }
    }
    if is_any_lost {
        return Err(Error::LosesState);
    }
    Ok(writeln!(out, "no driver without a suspend is in use")?)
}
