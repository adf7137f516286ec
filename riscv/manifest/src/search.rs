use thiserror::Error;

use crate::raw::{MAGIC, MANIFEST_BYTES, MANIFEST_VERSION, Manifest, Unreadable};

/// Why a file's manifest cannot be read. `E`: the error of reading the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ManifestError<E> {
    /// The file has no manifest.
    #[error("it has no manifest: it is not Poorwill firmware, or older than version 0.1.0")]
    Missing,
    /// The manifest's checksum is wrong.
    #[error("its manifest is damaged")]
    Damaged,
    /// The manifest has an unknown version.
    #[error(
        "its manifest has version {found}, and versions up to {MANIFEST_VERSION} are read here"
    )]
    Version {
        /// The manifest's version.
        found: u16,
    },
    /// The file cannot be read.
    #[error(transparent)]
    File(E),
}

/// Bytes of the file that are in memory at a time.
const WINDOW_BYTES: usize = 8192;

/// Finds and reads the manifest of a firmware file in any format. `next` fills the start of a
/// buffer with the next bytes of the file and returns their number, 0 at its end.
///
/// Programs that read manifests contain the magic word, too. So the first valid manifest counts;
/// the error of a broken one is returned only if there is no valid one.
///
/// # Errors
///
/// [`ManifestError`].
pub fn read<E>(
    mut next: impl FnMut(&mut [u8]) -> Result<usize, E>,
) -> Result<Manifest, ManifestError<E>> {
    let mut window = [0; WINDOW_BYTES];
    let mut filled = 0;
    let mut unreadable = None;
    loop {
        let count = next(&mut window[filled..]).map_err(ManifestError::File)?;
        filled = (filled + count).min(WINDOW_BYTES);
        let bytes = &window[..filled];
        for at in places(bytes) {
            match Manifest::parse(&bytes[at..]) {
                Some(Ok(manifest)) => return Ok(manifest),
                Some(Err(reason)) => unreadable = unreadable.or(Some(reason)),
                // The rest of the manifest is in the next window, or the file ends.
                None => {}
            }
        }
        if count == 0 {
            break;
        }
        // A manifest may begin in this window and end in the next. Complete manifests were handled
        // above; a broken one may be found again, without effect.
        let kept = filled.min(MANIFEST_BYTES - 1);
        window.copy_within(filled - kept..filled, 0);
        filled = kept;
    }
    Err(match unreadable {
        None => ManifestError::Missing,
        Some(Unreadable::Damaged) => ManifestError::Damaged,
        Some(Unreadable::Version(found)) => ManifestError::Version { found },
    })
}

/// Offsets of the magic word.
fn places(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let windows = bytes.windows(MAGIC.len()).enumerate();
    windows.filter_map(|(at, window)| (window == MAGIC).then_some(at))
}
