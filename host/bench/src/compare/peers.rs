//! QEMU's own save and restore, and the host's plain copies.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use poorwill_machine::interrupt;
use poorwill_machine::qmp::{
    Control, SaveKind, incoming_arguments, socket_arguments, socket_folder,
};
use poorwill_machine::{Machine, Qemu};
use rustix::fs::{Advice, fadvise};
use tempfile::TempDir;

use super::figures::{ColdBoot, QemuCycle};
use super::guest::Guest;

const MIB: u64 = 1 << 20;

/// The kinds of QEMU's saves, in the order of measurement.
pub(super) const KINDS: [SaveKind; 2] = [SaveKind::Stream, SaveKind::MappedRam];

const CONNECT_LIMIT: Duration = Duration::from_secs(20);
const SAVE_LIMIT: Duration = Duration::from_secs(240);

/// A guest that QEMU has saved to a file.
#[derive(Debug)]
pub(super) struct Saved {
    machine: Machine,
    file: PathBuf,
    kind: SaveKind,
    /// Number of saves by [`Saved::cycle_each`], for the files' names.
    saves: u32,
    /// The figures of the last save, to which its restore will be added.
    begun: QemuCycle,
    /// Folder of the control socket.
    socket: TempDir,
}

impl Saved {
    /// Boots a guest and saves it.
    pub(super) fn prepare(
        qemu: &Qemu,
        machine: &Machine,
        folder: &Path,
    ) -> anyhow::Result<(Self, ColdBoot)> {
        let socket = socket_folder()?;
        let mut machine = machine.clone();
        let arguments = socket_arguments(&socket.path().join("qmp"));
        machine.extra_arguments.extend(arguments);
        let (guest, cold_boot) = Guest::cold_boot(&machine, qemu)?;
        let mut saved = Saved {
            machine,
            file: folder.join("saved.first"),
            kind: KINDS[KINDS.len() - 1],
            saves: 0,
            begun: QemuCycle::default(),
            socket,
        };
        let control = saved.connect()?;
        saved.save(guest, control, saved.kind, folder.join("saved"))?;
        Ok((saved, cold_boot))
    }

    /// Restores the guest, fills `used_mib` of its memory, and saves it.
    pub(super) fn fill(&mut self, qemu: &Qemu, used_mib: u64) -> anyhow::Result<()> {
        let (mut guest, control, _, _) = self.restore(qemu)?;
        guest.fill(used_mib)?;
        let file = self.file.with_extension(format!("filled-{used_mib}"));
        self.save(guest, control, self.kind, file)
    }

    /// For each of `kinds`: restores the last save, and saves the machine again in that kind. Each
    /// round must end with the same kind.
    pub(super) fn cycle_each(
        &mut self,
        qemu: &Qemu,
        kinds: &[SaveKind],
    ) -> anyhow::Result<Vec<QemuCycle>> {
        let mut cycles = Vec::new();
        for &kind in kinds {
            let (guest, control, restore_ms, total_ms) = self.restore(qemu)?;
            cycles.push(QemuCycle {
                restore_ms,
                total_ms,
                ..self.begun.clone()
            });
            self.saves += 1;
            let file = self.file.with_extension(self.saves.to_string());
            self.save(guest, control, kind, file)?;
        }
        Ok(cycles)
    }

    fn save(
        &mut self,
        mut guest: Guest,
        mut control: Control,
        kind: SaveKind,
        file: PathBuf,
    ) -> anyhow::Result<()> {
        guest.listen()?;
        let begun = guest.elapsed_ms();
        control.save(&file, kind, SAVE_LIMIT)?;
        let saved = guest.elapsed_ms();
        control.quit()?;
        let ended = guest.wait_end()?;
        let file_bytes = fs::metadata(&file)
            .with_context(|| format!("reading the size of {}", file.display()))?
            .blocks()
            * 512;
        if self.file != file && self.file.exists() {
            remove(&self.file)?;
        }
        settle(&file)?;
        self.file = file;
        self.kind = kind;
        self.begun = QemuCycle {
            kind: kind.to_string(),
            file_bytes,
            save_ms: saved - begun,
            save_total_ms: ended - begun,
            ..QemuCycle::default()
        };
        Ok(())
    }

    /// Starts QEMU and restores the save. Also returns the times at which the machine ran and redis
    /// answered, in ms from QEMU's readiness.
    fn restore(&self, qemu: &Qemu) -> anyhow::Result<(Guest, Control, f64, f64)> {
        let mut machine = self.machine.clone();
        machine.extra_arguments.extend(incoming_arguments());
        let mut guest = Guest::power_on(&machine, qemu)?;
        let mut control = self.connect()?;
        control.restore(&self.file, self.kind, SAVE_LIMIT)?;
        let restored = guest.elapsed_ms();
        let answered = guest.ask()?;
        Ok((guest, control, restored, answered))
    }

    fn connect(&self) -> anyhow::Result<Control> {
        Ok(Control::connect(
            &self.socket.path().join("qmp"),
            CONNECT_LIMIT,
        )?)
    }
}

/// Flushes `file` on the host, so that the next measurement does not pay for earlier writes. Then
/// drops it from the host's page cache, as if the machine had been off.
pub(super) fn settle(file: &Path) -> anyhow::Result<()> {
    let settled = File::open(file).and_then(|file| {
        file.sync_all()?;
        Ok(fadvise(&file, 0, None, Advice::DontNeed)?)
    });
    settled.with_context(|| format!("flushing {}", file.display()))
}

/// Reads `bytes` of the disk's file from `read_at`, then overwrites and flushes `bytes` at
/// `write_at`, 1 MiB at a time.
pub(super) fn copy_on_host(
    disk: &Path,
    read_at: u64,
    write_at: u64,
    bytes: u64,
) -> anyhow::Result<(Duration, Duration)> {
    let copied = time_copies(disk, read_at, write_at, bytes.div_ceil(MIB));
    interrupt::check()?;
    copied.context("plain reads and writes on the host")
}

fn time_copies(
    disk: &Path,
    read_at: u64,
    write_at: u64,
    mib: u64,
) -> io::Result<(Duration, Duration)> {
    let file = File::options().read(true).write(true).open(disk)?;
    let mut buffer = vec![0; 1 << 20];
    let begun = Instant::now();
    for index in 0..mib {
        file.read_exact_at(&mut buffer, read_at + index * MIB)?;
    }
    let read = begun.elapsed();
    let begun = Instant::now();
    for index in 0..mib {
        file.write_all_at(&buffer, write_at + index * MIB)?;
    }
    file.sync_data()?;
    Ok((read, begun.elapsed()))
}

/// Removes a large file that is no longer needed.
pub(super) fn remove(file: &Path) -> anyhow::Result<()> {
    fs::remove_file(file).with_context(|| format!("removing {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_copies_what_it_is_told_to() {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("disk");
        let mut contents = vec![0; 3 << 20];
        contents[(2 << 20)..].fill(7);
        fs::write(&disk, &contents).unwrap();
        copy_on_host(&disk, 2 * MIB, 0, MIB - 5).unwrap();
        contents[..(1 << 20)].fill(7);
        assert!(fs::read(&disk).unwrap() == contents);
        assert!(copy_on_host(&disk, 2 * MIB, 0, 2 * MIB).is_err());
    }
}
