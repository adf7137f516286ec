//! Checks a host for all that Poorwill's machines need.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use poorwill_machine::area::{AreaError, Questions, inspect};
use poorwill_machine::paths::{self, Guest, Kernel, PathError};
use poorwill_machine::resources;
use poorwill_machine::size::Bytes;
use poorwill_machine::tree::COMPILER;
use poorwill_machine::{Qemu, RECOMMENDED, in_path};
use poorwill_memory::linux::KNOWN_VERSIONS;
use serde_json::{Value, json};

use crate::devices::warnings;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Good,
    /// Machines run, but something does not work, or works less well.
    Lacking,
    /// No machine runs.
    Missing,
}

/// The state of a part of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) what: &'static str,
    pub(crate) health: Health,
    pub(crate) detail: String,
    /// What the user can do.
    pub(crate) cure: Option<String>,
}

impl Finding {
    pub(crate) fn good(what: &'static str, detail: impl Into<String>) -> Self {
        Finding {
            what,
            health: Health::Good,
            detail: detail.into(),
            cure: None,
        }
    }

    /// The finding as JSON.
    pub(crate) fn value(&self) -> Value {
        json!({
            "what": self.what,
            "health": self.health.word(),
            "detail": self.detail,
            "cure": self.cure,
        })
    }

    pub(crate) fn bad(
        what: &'static str,
        health: Health,
        detail: impl Into<String>,
        cure: &str,
    ) -> Self {
        Finding {
            what,
            health,
            detail: detail.into(),
            cure: Some(cure.to_owned()),
        }
    }
}

impl Health {
    /// Its word, in text and in JSON.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Health::Good => "ok",
            Health::Lacking => "warning",
            Health::Missing => "missing",
        }
    }
}

const SETUP: &str = "as root, run `tools/setup`";

/// Free disk space for a machine's root and two images.
const DISK_FOR_MACHINE: Bytes = Bytes::gib(3);
/// Free disk space to build the guest.
const DISK_FOR_GUEST: Bytes = Bytes::gib(4);
/// RAM for the default machine, and for QEMU itself.
const MEMORY: Bytes = Bytes::mib(2560);

/// Checks all parts of the host. Changes nothing.
#[must_use]
pub(crate) fn examine() -> Vec<Finding> {
    let guest_there = Guest::find(Kernel::Stock).is_ok();
    let mut findings = vec![qemu(), setpriv(), firmware(), guest()];
    findings.extend(kernels());
    findings.push(guest_tools(guest_there));
    findings.push(binfmt(guest_there));
    findings.push(disk(guest_there));
    findings.push(memory());
    findings.push(opensbi());
    findings.push(test_kernel());
    findings.extend([loader(), plugin(), compiler()]);
    findings
}

/// Checks that the firmware accepts the sleep area of a disk. Changes nothing.
#[must_use]
pub(crate) fn examine_disk(disk: &Path) -> Finding {
    let areas = inspect(disk, Questions::default());
    let refused = match areas.as_deref() {
        Ok([area]) => {
            let (disk, partition) = (disk.display(), area.partition);
            let detail = format!("{disk}: partition {partition}, {}", Bytes(area.bytes));
            return Finding::good("sleep area", detail);
        }
        Ok(several) => AreaError::SeveralAreas {
            file: disk.to_owned(),
            count: several.len(),
        }
        .to_string(),
        Err(error) => error.to_string(),
    };
    let cure = "until this is corrected, no machine saves its memory on this disk";
    Finding::bad("sleep area", Health::Missing, refused, cure)
}

/// Checks the devices of a machine. Without arguments for QEMU there is nothing to check.
#[must_use]
pub(crate) fn devices(arguments: &[OsString]) -> Vec<Finding> {
    const WHAT: &str = "devices";
    if arguments.is_empty() {
        return Vec::new();
    }
    let cure = "or attach another device: disks by NVMe, AHCI or virtio";
    let warnings = warnings(arguments).into_iter();
    let warned: Vec<_> = warnings
        .map(|warning| Finding::bad(WHAT, Health::Lacking, warning, cure))
        .collect();
    match warned.is_empty() {
        true => vec![Finding::good(
            WHAT,
            "no known one loses its state in a sleep",
        )],
        false => warned,
    }
}

fn qemu() -> Finding {
    match Qemu::find() {
        Err(error) => Finding::bad("QEMU", Health::Missing, error.to_string(), SETUP),
        Ok(Qemu { program, version }) => {
            let detail = format!("{version} ({})", program.display());
            if version < RECOMMENDED {
                let detail = format!("{detail}; tested with {RECOMMENDED} and later");
                return Finding::bad("QEMU", Health::Lacking, detail, SETUP);
            }
            Finding::good("QEMU", detail)
        }
    }
}

fn setpriv() -> Finding {
    match in_path("setpriv") {
        Some(program) => Finding::good("setpriv", program.display().to_string()),
        None => Finding::bad(
            "setpriv",
            Health::Lacking,
            "not in PATH: if poorwill is killed, QEMU keeps running",
            "as root, run `apt-get install util-linux`",
        ),
    }
}

fn firmware() -> Finding {
    match paths::firmware() {
        Ok(file) => Finding::good("firmware", file.display().to_string()),
        Err(PathError::NoFirmware) => Finding::bad(
            "firmware",
            Health::Missing,
            "not built",
            "run `make firmware`",
        ),
        Err(error) => Finding::bad(
            "firmware",
            Health::Missing,
            error.to_string(),
            "mend POORWILL_FIRMWARE",
        ),
    }
}

fn guest() -> Finding {
    let cure = "as root, run `tools/guest` (about three minutes)";
    match Guest::find(Kernel::Stock) {
        Ok(guest) => {
            let folder = guest
                .kernel
                .parent()
                .unwrap_or(Path::new(""))
                .display()
                .to_string();
            if Guest::manifest().is_some_and(|guest| !guest.pinned) {
                let detail = format!("{folder}; its packages are not those of guest/packages.lock");
                let cure =
                    "do not compare its figures with the pinned guest's, or run `make relock`";
                return Finding::bad("guest", Health::Lacking, detail, cure);
            }
            Finding::good("guest", folder)
        }
        Err(PathError::NoGuest(file)) => {
            let detail = format!("{} is missing", file.display());
            Finding::bad("guest", Health::Missing, detail, cure)
        }
        Err(error) => Finding::bad("guest", Health::Missing, error.to_string(), cure),
    }
}

/// Whether the firmware knows the guest's kernels, so that it can find their free pages. A guest
/// that is not built is reported elsewhere.
fn kernels() -> impl Iterator<Item = Finding> {
    [Kernel::Stock, Kernel::Backports]
        .into_iter()
        .filter_map(|kernel| Guest::find(kernel).ok())
        .filter_map(|guest| fs::read(guest.kernel).ok())
        .map(|image| kernel(&image))
}

fn kernel(image: &[u8]) -> Finding {
    let cure = "check the console for `free pages are saved too`: each sleep then saves all memory";
    let Some(version) = linux_version(image) else {
        let detail = "a kernel without a readable version";
        return Finding::bad("kernel", Health::Lacking, detail, cure);
    };
    let known = || {
        let mut numbers = version.split(['.', '-', '+']).map(str::parse);
        let pair = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        Some(KNOWN_VERSIONS.contains(&pair))
    };
    if known() == Some(true) {
        return Finding::good("kernel", format!("{version}: free pages are found"));
    }
    let detail = format!("{version}: an unknown kernel, whose free pages may not be found");
    Finding::bad("kernel", Health::Lacking, detail, cure)
}

/// The version in a kernel's uncompressed image.
fn linux_version(image: &[u8]) -> Option<&str> {
    const BANNER: &[u8] = b"Linux version ";
    // A format string in the kernel starts with the same words, but no number follows.
    let rests = image.split(|byte| *byte == BANNER[0]);
    let versions = rests.filter_map(|rest| {
        let version = rest.strip_prefix(&BANNER[1..])?;
        let end = version.iter().position(|byte| *byte == b' ')?;
        str::from_utf8(&version[..end]).ok()
    });
    let mut versions =
        versions.filter(|text| text.starts_with(|first: char| first.is_ascii_digit()));
    versions.next()
}

/// How bad a missing tool for building the guest is. A built guest needs none.
fn needed_for_guest(guest_there: bool) -> Health {
    if guest_there {
        Health::Lacking
    } else {
        Health::Missing
    }
}

fn guest_tools(guest_there: bool) -> Finding {
    let tools = ["mmdebstrap", "mkfs.ext4", "cpio", "zstd", "xz", "depmod"];
    let missing: Vec<_> = tools.into_iter().filter(|tool| !has_tool(tool)).collect();
    if missing.is_empty() {
        return Finding::good("guest's tools", tools.join(", "));
    }
    let detail = format!("not in PATH: {} (to build the guest)", missing.join(", "));
    Finding::bad(
        "guest's tools",
        needed_for_guest(guest_there),
        detail,
        SETUP,
    )
}

/// Whether a tool is in PATH, or in a folder for administrators, which a user's PATH may lack.
fn has_tool(name: &str) -> bool {
    in_path(name).is_some()
        || (std::env::var_os("PATH").is_some_and(|path| !path.is_empty())
            && ["/usr/sbin", "/sbin"]
                .iter()
                .any(|folder| Path::new(folder).join(name).is_file()))
}

fn binfmt(guest_there: bool) -> Finding {
    let registered = Path::new("/proc/sys/fs/binfmt_misc/qemu-riscv64").exists();
    let can_be = Path::new("/usr/lib/binfmt.d/qemu-riscv64.conf").exists()
        || Path::new("/usr/share/binfmts/qemu-riscv64").exists();
    match (registered, can_be) {
        (true, _) => Finding::good("binfmt", "qemu-riscv64 is registered"),
        (false, true) => Finding::good("binfmt", "`tools/guest` registers qemu-riscv64"),
        (false, false) => Finding::bad(
            "binfmt",
            needed_for_guest(guest_there),
            "no qemu-user-static (to build the guest)",
            SETUP,
        ),
    }
}

fn disk(guest_there: bool) -> Finding {
    let needed = match guest_there {
        true => DISK_FOR_MACHINE,
        false => Bytes(DISK_FOR_MACHINE.0 + DISK_FOR_GUEST.0),
    };
    let cache = match paths::cache() {
        Ok(cache) => cache,
        Err(error) => {
            return Finding::bad("disk space", Health::Missing, error.to_string(), "set HOME");
        }
    };
    let Some(free) = free_at(&cache) else {
        return Finding::bad(
            "disk space",
            Health::Lacking,
            format!("cannot find the free space at {}", cache.display()),
            "check POORWILL_CACHE",
        );
    };
    let detail = format!("{free} free at {}, {needed} needed", cache.display());
    if free < needed {
        let cure = "free some, or point POORWILL_CACHE to a larger file system";
        return Finding::bad("disk space", Health::Missing, detail, cure);
    }
    Finding::good("disk space", detail)
}

/// Free space in the file system of `folder`, or of the folder in which it would be created.
fn free_at(folder: &Path) -> Option<Bytes> {
    let there = folder.ancestors().find(|folder| folder.exists())?;
    resources::disk_free(there).ok()
}

fn memory() -> Finding {
    match resources::memory_available() {
        Some(free) if free >= MEMORY => {
            Finding::good("memory", format!("{free} available, {MEMORY} needed"))
        }
        Some(free) => Finding::bad(
            "memory",
            Health::Lacking,
            format!("{free} available, {MEMORY} needed for the default machine"),
            "use smaller machines: --memory 1G",
        ),
        None => Finding::bad(
            "memory",
            Health::Lacking,
            "cannot find the available memory",
            "check /proc/meminfo",
        ),
    }
}

fn loader() -> Finding {
    match paths::loader() {
        Ok(file) => Finding::good("loader", file.display().to_string()),
        Err(error) => for_cuts("loader", &error, "run `make loader`"),
    }
}

fn plugin() -> Finding {
    match paths::plugin() {
        Ok(file) => Finding::good("plugin for QEMU", file.display().to_string()),
        Err(error) => for_cuts("plugin for QEMU", &error, "run `make plugin`"),
    }
}

fn for_cuts(what: &'static str, error: &PathError, build: &str) -> Finding {
    match error {
        PathError::NoLoader | PathError::NoPlugin => {
            let detail = "not built (only for machines whose power fails)";
            Finding::bad(what, Health::Lacking, detail, build)
        }
        error => Finding::bad(
            what,
            Health::Lacking,
            error.to_string(),
            "correct POORWILL_LOADER or POORWILL_PLUGIN",
        ),
    }
}

fn compiler() -> Finding {
    match in_path(COMPILER) {
        Some(program) => Finding::good(COMPILER, program.display().to_string()),
        None => Finding::bad(
            COMPILER,
            Health::Lacking,
            "not in PATH (only for machines whose power fails)",
            SETUP,
        ),
    }
}

fn opensbi() -> Finding {
    let file = Path::new(paths::OPENSBI);
    if file.exists() {
        return Finding::good("OpenSBI", paths::OPENSBI);
    }
    Finding::bad(
        "OpenSBI",
        Health::Lacking,
        "not installed (only for comparisons)",
        SETUP,
    )
}

fn test_kernel() -> Finding {
    match paths::test_kernel() {
        Ok(file) => Finding::good("test kernel", file.display().to_string()),
        Err(PathError::NoTestKernel) => Finding::bad(
            "test kernel",
            Health::Lacking,
            "not built (only for tests and for the bench of sealing)",
            "run `make test-kernel`",
        ),
        Err(error) => Finding::bad(
            "test kernel",
            Health::Lacking,
            error.to_string(),
            "mend POORWILL_TEST_KERNEL",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_found_for_folders_that_are_not_there_yet() {
        assert!(free_at(Path::new("/tmp/not/there/yet")).is_some_and(|free| free.0 > 0));
    }

    #[test]
    fn kernels_that_are_newer_than_any_that_was_seen_are_told() {
        let image = |version: &str| {
            let mut image = b"MZ%s Linux version %s (%s)\0".to_vec();
            image.extend_from_slice(format!("Linux version {version} (a@b)").as_bytes());
            kernel(&image)
        };
        assert_eq!(image("6.12.107+deb13-riscv64").health, Health::Good);
        assert_eq!(image("7.2-rc1").health, Health::Good);
        for version in ["7.99.1", "5.10.0", "next"] {
            let finding = image(version);
            assert_eq!(finding.health, Health::Lacking);
            assert!(finding.cure.is_some());
        }
        assert_eq!(kernel(b"Linux").health, Health::Lacking);
    }

    #[test]
    fn whatever_is_not_good_has_a_cure() {
        for finding in examine() {
            assert_eq!(
                finding.cure.is_none(),
                finding.health == Health::Good,
                "{finding:?}"
            );
        }
    }
}
