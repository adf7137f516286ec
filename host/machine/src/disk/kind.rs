use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// What a disk is on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Bytes.
    pub bytes: u64,
    /// Bytes of a block, in which its partition table counts.
    pub block_bytes: u32,
}

/// Why something is not a raw disk that can be looked at.
#[derive(Debug, Error)]
pub enum KindError {
    /// Cannot be opened or read.
    #[error("cannot read disk {file}: {reason}{}", hint(.reason), file = .file.display())]
    Unreadable {
        /// The disk.
        file: PathBuf,
        /// The operating system's reason.
        reason: io::Error,
    },
    /// A directory, a pipe, a terminal.
    #[error("{} is neither a file nor a block device", .0.display())]
    NotADisk(PathBuf),
    /// A format that wraps the disk's bytes.
    #[error("{file} is a {format} image, and Poorwill wants raw disks: convert it with \
             `qemu-img convert -O raw {file} {file}.raw`", file = .file.display())]
    Wrapped {
        /// The image.
        file: PathBuf,
        /// The format's name.
        format: &'static str,
    },
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => ": run it as root, or as a user who may read it",
        _ => "",
    }
}

/// First bytes of disk image formats that are not raw.
const FORMATS: [(&[u8], &str); 4] = [
    (b"QFI\xfb", "qcow2"),
    (b"KDMV", "VMDK"),
    (b"vhdxfile", "VHDX"),
    (b"conectix", "VHD"),
];

/// Opens `file` for reading and tells what it is.
///
/// # Errors
///
/// [`KindError`].
pub fn look_at(file: &Path) -> Result<(File, Kind), KindError> {
    let unreadable = |reason| KindError::Unreadable {
        file: file.to_owned(),
        reason,
    };
    // Asked before opening: opening a pipe would wait for its other end.
    let data = fs::metadata(file).map_err(unreadable)?;
    let is_block_device = data.file_type().is_block_device();
    if !data.is_file() && !is_block_device {
        return Err(KindError::NotADisk(file.to_owned()));
    }
    let mut disk = File::open(file).map_err(unreadable)?;
    let mut start = Vec::new();
    disk.by_ref()
        .take(8)
        .read_to_end(&mut start)
        .map_err(unreadable)?;
    if let Some((_, format)) = FORMATS.iter().find(|(magic, _)| start.starts_with(magic)) {
        return Err(KindError::Wrapped {
            file: file.to_owned(),
            format,
        });
    }
    let bytes = disk.seek(SeekFrom::End(0)).map_err(unreadable)?;
    let block_bytes = if is_block_device {
        block_bytes(data.rdev())
    } else {
        512
    };
    Ok((disk, Kind { bytes, block_bytes }))
}

/// The logical block size of a block device, as the kernel tells it; 512 if it
/// does not.
fn block_bytes(device: u64) -> u32 {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    fs::read_to_string(format!(
        "/sys/dev/block/{major}:{minor}/queue/logical_block_size"
    ))
    .ok()
    .and_then(|text| text.trim().parse().ok())
    .unwrap_or(512)
}
