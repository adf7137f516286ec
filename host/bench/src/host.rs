//! The conditions of a bench: the host, the programs and the settings.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::SystemTime;

use poorwill_machine::Qemu;
use poorwill_machine::paths::Guest;
use poorwill_machine::resources;
use poorwill_memory::checksum;
use serde::{Deserialize, Serialize};

/// The conditions of a measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    pub command: String,
    /// Start of the measurement (RFC 3339, UTC).
    pub began: String,
    /// Duration of the measurement.
    pub seconds: f64,
    /// Whether `--quick` was given.
    pub quick: bool,
    /// Version of the command `poorwill`.
    pub poorwill: String,
    /// The commit of the sources, if they are in a Git repository.
    pub commit: Option<String>,
    /// Length and checksum of the measured firmware.
    pub firmware: String,
    pub qemu: String,
    pub processor: String,
    /// Cores that this process may use.
    pub cores: usize,
    pub memory_mib: u64,
    pub kernel: String,
    /// The host's load average over one minute, before and after the measurement.
    pub load_average: [Option<f64>; 2],
    /// The file system of the disks.
    pub file_system: String,
    /// The guest's kernel, if a guest was measured.
    pub guest_kernel: Option<String>,
}

/// Examines the host, the programs and the firmware. A fact that cannot be found out becomes
/// `unknown`.
///
/// # Errors
///
/// The firmware or QEMU is missing.
pub fn environment(firmware: &Path, folder: &Path, quick: bool) -> anyhow::Result<Environment> {
    let qemu = Qemu::find()?;
    let words: Vec<String> = std::env::args_os()
        .enumerate()
        .map(|(index, word)| match index {
            // The command's name alone, without its folder.
            0 => "poorwill".to_owned(),
            _ => word.to_string_lossy().into_owned(),
        })
        .collect();
    Ok(Environment {
        command: words.join(" "),
        began: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        seconds: 0.0,
        quick,
        poorwill: env!("CARGO_PKG_VERSION").into(),
        commit: output(Command::new("git").args(["describe", "--always", "--dirty"])),
        firmware: describe_firmware(firmware)?,
        qemu: output(Command::new(&qemu.program).arg("--version"))
            .unwrap_or_else(|| qemu.version.to_string()),
        processor: processor(),
        cores: thread::available_parallelism().map_or(0, usize::from),
        memory_mib: resources::memory_installed().map_or(0, |memory| memory.0 >> 20),
        kernel: read_line("/proc/sys/kernel/osrelease"),
        load_average: [load_average(); 2],
        file_system: file_system(folder),
        guest_kernel: guest_kernel(),
    })
}

/// The host's load average over the last minute; `None`: not known.
#[must_use]
pub fn load_average() -> Option<f64> {
    let text = read_line("/proc/loadavg");
    text.split(' ').next()?.parse().ok()
}

/// The first line of a command's output; `None`: it failed.
fn output(command: &mut Command) -> Option<String> {
    let output = command
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().next().map(|line| line.trim().to_owned())
}

fn read_line(file: &str) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().next().unwrap_or("unknown").to_owned()
}

/// The firmware's length and checksum, which distinguish two firmware files.
fn describe_firmware(firmware: &Path) -> io::Result<String> {
    let bytes = fs::read(firmware)?;
    let sum = checksum::of_bytes(&bytes);
    Ok(format!("{} bytes, checksum {sum:016x}", bytes.len()))
}

fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    name.map_or("unknown".into(), |(_, name)| name.to_owned())
}

fn file_system(folder: &Path) -> String {
    let kind = output(Command::new("stat").args(["-f", "-c", "%T"]).arg(folder));
    kind.unwrap_or_else(|| "unknown".into())
}

/// The guest's kernel, from the guest's manifest. It says whether the packages are pinned: only
/// figures from guests with the same packages are comparable.
fn guest_kernel() -> Option<String> {
    let guest = Guest::manifest()?;
    Some(match guest.pinned {
        true => guest.kernel,
        false => format!("{}, not the pinned guest", guest.kernel),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn firmware_files_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
        fs::write(&one, "abc").unwrap();
        fs::write(&other, "abd").unwrap();
        let [one, other] = [one, other].map(|file| describe_firmware(&file).unwrap());
        assert!(one.starts_with("3 bytes") && one != other, "{one} {other}");
        assert!(describe_firmware(folder.path()).is_err());
    }

    #[test]
    fn this_host_is_described() {
        assert!(load_average().is_some());
        assert_ne!(read_line("/proc/sys/kernel/osrelease"), "unknown");
        assert_ne!(file_system(Path::new("/")), "unknown");
    }
}
