//! Machines whose power fails: runs QEMU under the plugin, and checks the plugin's report.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use poorwill_plugin::report::{End, Report};

use crate::plan::{PowerOn, WrittenBackBy};

/// QEMU's exit status when the hold-up ran out.
pub(crate) const LOST: i32 = poorwill_plugin::CUT;

/// Start of the test kernel's text about machine mode's memory.
const KEPT: &str = "machine mode's memory: ";

/// The file that backs the machine's memory.
pub(crate) fn memory(folder: &Path) -> PathBuf {
    folder.join("ram")
}

/// QEMU's arguments for the plugin. Idle harts wait `grace_us` microseconds for devices. With 0,
/// runs repeat to the instruction, except for a power failure by the socket `supply`.
///
/// # Errors
///
/// The firmware has no code for the instant.
pub(crate) fn arguments(
    plugin: &Path,
    firmware: &Path,
    folder: &Path,
    supply: Option<&Path>,
    grace_us: u32,
    on: &PowerOn,
) -> anyhow::Result<Vec<String>> {
    let mut own = format!(
        "{},ram={},report={},grace={grace_us}",
        plugin.display(),
        memory(folder).display(),
        report(folder).display()
    );
    if let Some(more) = &on.plugin {
        own = format!("{own},{more}");
    }
    if let Some(socket) = supply {
        own = format!("{own},control={}", socket.display());
    }
    if let Some(most) = on.fails_within {
        own = format!("{own},signal-at={}", fastrand::u64(1..=most));
    }
    for (name, instant) in [("signal", &on.fails), ("again", &on.fails_again)] {
        if let Some(instant) = instant {
            own = format!("{own},{}", instant.arguments(name, firmware)?);
        }
    }
    let arguments = [
        "-accel",
        "tcg,thread=single",
        "-seed",
        "7",
        "-rtc",
        "base=2026-01-01,clock=vm",
        "-plugin",
        &own,
    ];
    Ok(arguments.map(str::to_owned).into())
}

fn report(folder: &Path) -> PathBuf {
    folder.join("power.json")
}

/// Start of Linux's lines about reserved ranges.
const RESERVED: &str = "OF: reserved mem: ";

/// Part of Linux's lines about machine mode's ranges.
const OURS: &str = " poorwill@";

/// The ranges of machine mode's memory; `None`: the guest does not print them.
pub(crate) fn kept(lines: &[&str]) -> Option<Vec<Range<u64>>> {
    if let Some((_, list)) = lines.iter().find_map(|line| line.split_once(KEPT)) {
        let ranges = list.trim_matches(['[', ']']).split(", ");
        return ranges.map(range).collect();
    }
    let ours = lines.iter().filter(|line| line.contains(OURS));
    let ours = ours.filter_map(|line| line.split_once(RESERVED)?.1.split_once(' '));
    // Linux prints the address of the last byte.
    let ours = ours.map(|(text, _)| range(text).map(|range| range.start..range.end + 1));
    let ours: Vec<_> = ours.collect::<Option<_>>()?;
    (!ours.is_empty()).then_some(ours)
}

/// Two hexadecimal numbers with dots in between, as Rust and Linux print ranges.
fn range(text: &str) -> Option<Range<u64>> {
    let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let (start, end) = text.split_once("..")?;
    Some(number(start)?..number(end)?)
}

/// Checks a power-off by the guest. Lost lines must be in machine mode's own memory, `kept`, which
/// a power-on fills again or checks. Lines must have been written back as `on` requires. Returns
/// the instructions of the longest hart since the signal; `None`: there was no signal, and it was
/// not required.
pub(crate) fn check(
    folder: &Path,
    kept: &[Range<u64>],
    on: &PowerOn,
) -> anyhow::Result<Option<u64>> {
    let report = fs::read(report(folder)).context("the plugin's report")?;
    let report: Report = serde_json::from_slice(&report)?;
    let lines = report.lines.context("the plugin models no caches")?;
    ensure!(
        report.end == End::PowerOff,
        "the hold-up ended before the machine was switched off"
    );
    ensure!(
        report.unknown_accesses == 0,
        "the plugin missed {} accesses",
        report.unknown_accesses
    );
    ensure!(
        report.rose_again == on.fails_again.is_some(),
        "the power-fail line has not risen again"
    );
    ensure!(
        !kept.is_empty(),
        "the guest did not print the ranges of machine mode's memory"
    );
    let is_kept = |address: &&u64| kept.iter().any(|range| range.contains(address));
    let of_machine_mode = lines.lost_addresses.iter().filter(is_kept).count();
    ensure!(
        of_machine_mode as u64 == lines.lost,
        "{} lines of cache were lost, of which {of_machine_mode} are known to be machine \
         mode's: {:x?}",
        lines.lost,
        lines.lost_addresses
    );
    let by = on.written_back_by;
    let written_back = match by {
        Some(WrittenBackBy::Line) => lines.flushed_by_line,
        Some(WrittenBackBy::Whole) => lines.flushed_all,
        Some(WrittenBackBy::Register) => lines.flushed_by_register,
        Some(WrittenBackBy::Reading) | None => lines.displaced,
    };
    ensure!(
        by.is_none() || written_back > 0,
        "no line was written back by {by:?}: {lines:?}"
    );
    let since = report.harts.iter().filter_map(|hart| hart.since_signal);
    let since = since.max();
    // A guest may sleep before a random instant, or there is no instant.
    let arguments = on.plugin.as_deref().unwrap_or_default();
    ensure!(
        since.is_some() || !arguments.contains("signal-"),
        "the power-fail line was not raised"
    );
    Ok(since)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_modes_memory_is_what_the_guest_names() {
        let line = "test kernel: machine mode's memory: [80000000..801c0000, 8be00000..8c000000]";
        let expected = || vec![0x8000_0000..0x801c_0000, 0x8be0_0000..0x8c00_0000];
        assert_eq!(kept(&["x", line]), Some(expected()));
        assert_eq!(kept(&["test kernel: machine mode's memory: none"]), None);
        assert_eq!(kept(&[]), None);
        let lines = [
            "[    0.000000] OF: reserved mem: 0x0000000080000000..0x00000000801bffff (1792 KiB) nomap non-reusable poorwill@80000000",
            "[    0.000000] OF: reserved mem: 0x0000000086000000..0x0000000086004fff (20 KiB) nomap non-reusable tee@86000000",
            "[    0.000000] OF: reserved mem: 0x000000008be00000..0x000000008bffffff (2048 KiB) nomap non-reusable poorwill@8be00000",
        ];
        assert_eq!(kept(&lines), Some(expected()));
    }
}
