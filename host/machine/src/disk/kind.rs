use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Size and block size of a disk on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Length in bytes.
    pub bytes: u64,
    /// Block size in bytes, the unit of its partition table.
    pub block_bytes: u32,
}

/// Why a file is not a readable raw disk.
#[derive(Debug, Error)]
pub enum KindError {
    #[error("cannot read disk {file}: {reason}{}", hint(.reason), file = .file.display())]
    Unreadable { file: PathBuf, reason: io::Error },
    #[error("{} is neither a file nor a block device", .0.display())]
    NotADisk(PathBuf),
    #[error("{file} is a {format} image, and Poorwill needs a raw disk: convert it with \
             `qemu-img convert -O raw {file} {file}.raw`", file = .file.display())]
    Wrapped { file: PathBuf, format: &'static str },
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            ": run it as root, or as a user with the right to read it"
        }
        _ => "",
    }
}

/// The first bytes of formats that are not raw, for a clearer error.
const FORMATS: [(&[u8], &str); 4] = [
    (b"QFI\xfb", "qcow2"),
    (b"KDMV", "VMDK"),
    (b"vhdxfile", "VHDX"),
    (b"conectix", "VHD"),
];

/// Opens `file` for reading, and returns its kind.
///
/// # Errors
///
/// [`KindError`].
pub fn look_at(file: &Path) -> Result<(File, Kind), KindError> {
    let unreadable = |reason| KindError::Unreadable {
        file: file.to_owned(),
        reason,
    };
    // Checked before the open: opening a pipe would wait for its other end.
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

/// The logical block size of a block device; 512 if the kernel does not know it.
fn block_bytes(device: u64) -> u32 {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    fs::read_to_string(format!(
        "/sys/dev/block/{major}:{minor}/queue/logical_block_size"
    ))
    .ok()
    .and_then(|text| text.trim().parse().ok())
    .unwrap_or(512)
}
