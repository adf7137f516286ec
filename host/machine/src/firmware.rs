//! Reads the manifest of a firmware file, which states its formats and reserved memory.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use poorwill_manifest::{Manifest, ManifestError, read};
use thiserror::Error;

/// Why a firmware file has no readable manifest.
#[derive(Debug, Error)]
#[error("{}: {reason}", .file.display())]
pub struct FirmwareError {
    file: PathBuf,
    reason: ManifestError<io::Error>,
}

/// Reads the manifest of a firmware file: an ELF file, a flat binary, or a file that contains one
/// of them unchanged.
///
/// # Errors
///
/// [`FirmwareError`].
pub fn manifest(file: &Path) -> Result<Manifest, FirmwareError> {
    let failed = |reason| FirmwareError {
        file: file.to_owned(),
        reason,
    };
    let mut opened = File::open(file).map_err(|error| failed(ManifestError::File(error)))?;
    let next = |into: &mut [u8]| loop {
        match opened.read(into) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    };
    read(next).map_err(failed)
}
