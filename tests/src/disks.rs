//! The disks of a trial, in files that are created for it.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use gpt_disk_io::{BlockIoAdapter, Disk as TableDisk, DiskError};
use gpt_disk_types::{
    BlockSize, GptHeader, GptPartitionEntry, GptPartitionEntryArray, GptPartitionEntryArrayLayout,
    GptPartitionEntrySize, GptPartitionType, Guid, Lba, LbaLe, U32Le,
};
use indicatif::ProgressBar;
use poorwill_machine::disk::{NewDisk, copy_sparse};
use poorwill_machine::domains::Sleep;
use poorwill_machine::size::Bytes;
use poorwill_machine::{Disk, file_memory};
use serde_json::{Value, json};

use crate::plan::{Attached, DiskKind};

/// A disk of a trial.
#[derive(Clone, Debug)]
pub(crate) struct TrialDisk {
    pub(crate) file: PathBuf,
    pub(crate) attached: Attached,
}

impl TrialDisk {
    /// Creates the disk's file. `root` is the file system in its root partition, if it has one.
    pub(crate) fn make(
        kind: &DiskKind,
        file: PathBuf,
        root: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let areas = kind
            .areas
            .iter()
            .map(|size| size.parse())
            .collect::<Result<Vec<Bytes>, _>>()?;
        if kind.attached == Attached::Nvme4k {
            let area = areas
                .first()
                .context("a disk of 4096-byte blocks has one area")?;
            make_4k(&file, area.0)?;
        } else {
            let root = (kind.root || kind.boot)
                .then(|| root.context("a disk with a root needs a Linux guest"))
                .transpose()?;
            let new = NewDisk {
                root: root.map(Path::to_owned),
                swap: kind.beside.as_deref().map(str::parse).transpose()?,
                areas,
            };
            new.create(&file, false, &ProgressBar::hidden())?;
        }
        Ok(Self {
            file,
            attached: kind.attached,
        })
    }

    /// Prepares the disk for a power-on.
    ///
    /// # Errors
    ///
    /// `qemu-img` fails.
    pub(crate) fn switch_on(&self) -> anyhow::Result<()> {
        if !self.is_volatile() {
            return Ok(());
        }
        // Blocks of 4 KiB, so that lost and kept writes are close to each other.
        let options = [
            "-q",
            "-f",
            "qcow2",
            "-o",
            "cluster_size=4k",
            "-F",
            "raw",
            "-b",
        ];
        image_tool(|tool| {
            tool.arg("create").args(options);
            tool.args([&self.file, &self.written()]);
        })
    }

    /// Finishes a power-on: the writes that reached the disk, and only these, become its contents.
    ///
    /// # Errors
    ///
    /// `qemu-img` fails.
    pub(crate) fn switch_off(&self) -> anyhow::Result<()> {
        if !self.is_volatile() {
            return Ok(());
        }
        image_tool(|tool| {
            // The next power-on reads it through the host's cache, so no flush is needed.
            tool.args(["commit", "-q", "-t", "unsafe", "-f", "qcow2"]);
            tool.arg(self.written());
        })?;
        Ok(std::fs::remove_file(self.written())?)
    }

    fn is_volatile(&self) -> bool {
        matches!(
            self.attached,
            Attached::NvmeVolatile | Attached::AhciVolatile
        )
    }

    /// The file with the writes of a power-on to a volatile disk. QEMU keeps the table of its
    /// blocks in its own memory until the guest flushes, or until the table is too long. If QEMU is
    /// killed before, these blocks keep their old contents, even if later writes are kept.
    fn written(&self) -> PathBuf {
        self.file.with_extension("written.qcow2")
    }

    /// Bytes of a logical block.
    pub(crate) fn block_bytes(&self) -> u32 {
        if self.attached == Attached::Nvme4k {
            4096
        } else {
            512
        }
    }

    /// The disk for the machine library; `None`: the library cannot attach this kind.
    pub(crate) fn plain(&self) -> Option<Disk> {
        match self.attached {
            Attached::Nvme => Some(Disk::nvme(&self.file)),
            Attached::Virtio => Some(Disk::virtio(&self.file)),
            Attached::NvmeBehindPort
            | Attached::Ahci
            | Attached::AhciVolatile
            | Attached::NvmePrompt
            | Attached::Nvme4k
            | Attached::NvmeVolatile
            | Attached::NvmeShared
            | Attached::NvmeSecond
            | Attached::NvmeThird
            | Attached::Ivshmem
            | Attached::IvshmemBehindPort
            | Attached::NvmePmr => None,
        }
    }

    /// The disk as machine mode's own, beside domains; `None`: it cannot be of this kind.
    ///
    /// # Errors
    ///
    /// The file's length cannot be read.
    pub(crate) fn sleep(&self) -> io::Result<Option<Sleep>> {
        let file = self.file.clone();
        Ok(match self.attached {
            Attached::Nvme => Some(Sleep::Nvme(Disk::nvme(file))),
            Attached::NvmeVolatile => Some(Sleep::Nvme(Disk {
                node: Some(self.overlay()),
                ..Disk::nvme(file)
            })),
            Attached::Ivshmem => {
                let length = file.metadata()?.len();
                let bytes = Bytes(1 << length.checked_ilog2().ok_or(io::ErrorKind::InvalidInput)?);
                Some(Sleep::Memory { file, bytes })
            }
            _ => None,
        })
    }

    /// QEMU's options for a volatile disk.
    fn overlay(&self) -> Value {
        json!({
            "driver": "qcow2",
            "l2-cache-size": TABLE_CACHE,
            "file": { "driver": "file", "filename": self.written().to_string_lossy() },
            "backing": {
                "driver": "raw",
                "read-only": true,
                "file": { "driver": "file", "filename": self.file.to_string_lossy() },
            },
        })
    }

    /// QEMU's arguments for a disk that the machine library cannot attach.
    ///
    /// # Errors
    ///
    /// The file's length cannot be read.
    pub(crate) fn arguments(&self, number: usize) -> anyhow::Result<Vec<String>> {
        if self.is_memory() {
            return self.memory_arguments(number);
        }
        let node = format!("test{number}");
        let file = json!({ "driver": "file", "filename": self.file.to_string_lossy() });
        let block = match self.attached {
            _ if self.is_volatile() => {
                let mut overlay = self.overlay();
                overlay["node-name"] = node.clone().into();
                overlay
            }
            Attached::Ahci | Attached::NvmePrompt => json!({
                "driver": "raw", "node-name": node, "file": file, "cache": { "no-flush": true },
            }),
            _ => json!({ "driver": "raw", "node-name": node, "file": file }),
        };
        let mut arguments = vec!["-blockdev".to_owned(), block.to_string()];
        let mut device = |text: String| arguments.extend(["-device".to_owned(), text]);
        match self.attached {
            Attached::NvmeBehindPort => {
                device(port(number));
                device(format!("nvme,drive={node},serial={node},bus=port{number}"));
            }
            Attached::Ahci | Attached::AhciVolatile => {
                device(format!("ich9-ahci,id=ahci{number}"));
                device(format!("ide-hd,drive={node},bus=ahci{number}.0"));
            }
            Attached::NvmeShared => {
                device(format!("nvme-subsys,id=subsystem{number},nqn=disk{number}"));
                for port in ["a", "b"] {
                    device(format!(
                        "nvme,id={node}{port},serial={node},subsys=subsystem{number}"
                    ));
                }
                device(format!("nvme-ns,drive={node},bus={node}a,nsid=1,shared=on"));
            }
            Attached::NvmeSecond => {
                device("nvme,id=namespaces,serial=namespaces,addr=8".to_owned());
                device(format!("nvme-ns,drive={node},bus=namespaces,nsid=2"));
            }
            Attached::NvmeThird => device(format!("nvme-ns,drive={node},bus=namespaces,nsid=3")),
            Attached::NvmeVolatile | Attached::NvmePrompt => {
                device(format!("nvme,drive={node},serial={node}"))
            }
            _ => device(format!(
                "nvme,drive={node},serial={node},logical_block_size=4096,physical_block_size=4096"
            )),
        }
        Ok(arguments)
    }

    /// Whether the CPU accesses the disk by loads and stores.
    fn is_memory(&self) -> bool {
        matches!(
            self.attached,
            Attached::Ivshmem | Attached::IvshmemBehindPort | Attached::NvmePmr
        )
    }

    fn memory_arguments(&self, number: usize) -> anyhow::Result<Vec<String>> {
        let name = format!("memory{number}");
        let mut arguments = file_memory(&name, &self.file)?.to_vec();
        let mut device = |text: String| arguments.extend(["-device".to_owned(), text]);
        match self.attached {
            Attached::NvmePmr => device(format!("nvme,serial={name},pmrdev={name}")),
            Attached::IvshmemBehindPort => {
                device(port(number));
                device(format!("ivshmem-plain,memdev={name},bus=port{number}"));
            }
            _ => device(format!("ivshmem-plain,memdev={name}")),
        }
        Ok(arguments)
    }
}

/// Copies `part` of a disk to the same place of another disk, whose length becomes the same.
pub(crate) fn copy_part(from: &File, to: &File, part: Range<u64>) -> io::Result<()> {
    to.set_len(from.metadata()?.len())?;
    let start = part.start;
    copy_sparse(from, part, to, start, &ProgressBar::hidden())
}

/// QEMU's arguments for a PCIe root port.
fn port(number: usize) -> String {
    let chassis = number + 1;
    format!("pcie-root-port,id=port{number},chassis={chassis}")
}

/// Bytes of QEMU's cache for the tables of a volatile disk. Each 4 KiB describe 2 MiB of the disk,
/// so an image's tables do not fit.
const TABLE_CACHE: u64 = 32 << 10;

/// Runs `qemu-img`.
fn image_tool(arguments: impl FnOnce(&mut Command)) -> anyhow::Result<()> {
    let mut tool = Command::new("qemu-img");
    arguments(&mut tool);
    let output = tool
        .output()
        .context("no qemu-img: install the package qemu-utils")?;
    anyhow::ensure!(
        output.status.success(),
        "qemu-img ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    Ok(())
}

/// Offset of the only partition of a disk with 4096-byte blocks.
const START: u64 = 1 << 20;
const BLOCK: BlockSize = BlockSize::BS_4096;
const ENTRIES: u32 = 128;

/// Creates a disk with a partition table for blocks of 4096 bytes, and one sleep area. (`poorwill
/// disk` makes tables for blocks of 512 bytes only.)
fn make_4k(path: &Path, area_bytes: u64) -> anyhow::Result<()> {
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)?;
    file.set_len(START + area_bytes + START)?;
    write_4k(&file, area_bytes).map_err(|error| match error {
        DiskError::Io(error) => error.into(),
        other => anyhow::anyhow!("partition table of {}: {other}", path.display()),
    })
}

fn write_4k(file: &File, area_bytes: u64) -> Result<(), DiskError<io::Error>> {
    let invalid = |_| DiskError::Io(io::ErrorKind::InvalidInput.into());
    let last = (START + area_bytes + START) / BLOCK.to_u64() - 1;
    let entry_blocks = u64::from(ENTRIES) * 128 / BLOCK.to_u64();
    let entry = GptPartitionEntry {
        partition_type_guid: GptPartitionType(
            poorwill_store::AREA_TYPE
                .parse()
                .expect("the store's constant is a GUID"),
        ),
        unique_partition_guid: Guid::from_random_bytes([7; 16]),
        starting_lba: LbaLe::from_u64(START / BLOCK.to_u64()),
        ending_lba: LbaLe::from_u64((START + area_bytes) / BLOCK.to_u64() - 1),
        ..GptPartitionEntry::default()
    };
    let layout = GptPartitionEntryArrayLayout {
        start_lba: Lba(2),
        entry_size: GptPartitionEntrySize::new(128).expect("128 is the usual size"),
        num_entries: ENTRIES,
    };
    let mut storage = vec![0; 128 * 128];
    let mut entries = GptPartitionEntryArray::new(layout, BLOCK, &mut storage)
        .map_err(|_| DiskError::BufferTooSmall)?;
    *entries.get_partition_entry_mut(0).expect("there are 128") = entry;

    let mut disk = TableDisk::new(BlockIoAdapter::new(file, BLOCK))?;
    let mut block = vec![0; BLOCK.to_usize().ok_or(()).map_err(invalid)?];
    disk.write_protective_mbr(&mut block)?;
    let mut header = GptHeader {
        my_lba: LbaLe::from_u64(1),
        alternate_lba: LbaLe::from_u64(last),
        first_usable_lba: LbaLe::from_u64(2 + entry_blocks),
        last_usable_lba: LbaLe::from_u64(last - 1 - entry_blocks),
        disk_guid: Guid::from_random_bytes([8; 16]),
        partition_entry_lba: LbaLe::from_u64(2),
        number_of_partition_entries: U32Le::from_u32(ENTRIES),
        partition_entry_array_crc32: entries.calculate_crc32(),
        ..GptHeader::default()
    };
    header.update_header_crc32();
    disk.write_primary_gpt_header(&header, &mut block)?;
    disk.write_gpt_partition_entry_array(&entries)?;
    header.my_lba = LbaLe::from_u64(last);
    header.alternate_lba = LbaLe::from_u64(1);
    header.partition_entry_lba = LbaLe::from_u64(last - entry_blocks);
    header.update_header_crc32();
    entries.set_start_lba(Lba(last - entry_blocks));
    disk.write_secondary_gpt_header(&header, &mut block)?;
    disk.write_gpt_partition_entry_array(&entries)?;
    disk.flush()
}
