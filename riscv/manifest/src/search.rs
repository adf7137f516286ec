use thiserror::Error;

use crate::raw::{MAGIC, MANIFEST_BYTES, MANIFEST_VERSION, Manifest, Unreadable};

/// Why a file's manifest cannot be read. `E` is why the file itself cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ManifestError<E> {
    /// No manifest in it.
    #[error(
        "it has no manifest: it is no firmware of Poorwill's, or one from before version 0.1.0"
    )]
    Missing,
    /// A manifest whose checksum does not fit.
    #[error("its manifest is damaged")]
    Damaged,
    /// A manifest of another version.
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

/// Bytes that are held at once.
const WINDOW_BYTES: usize = 8192;

/// Finds and reads the manifest of a firmware file, in any format. `next` fills the
/// start of a buffer with the next bytes of the file, and returns how many: 0 at its
/// end.
///
/// The magic word alone proves nothing, as a program that reads manifests contains it,
/// too: the first whole manifest counts, and only without one is a broken one named.
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
                // The rest of it is still to come, or is not there.
                None => {}
            }
        }
        if count == 0 {
            break;
        }
        // A manifest may begin in these and end in the next ones. Whole ones within
        // them were looked at, but for what is unreadable, which may be seen again.
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

/// Where the magic word is.
fn places(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let windows = bytes.windows(MAGIC.len()).enumerate();
    windows.filter_map(|(at, window)| (window == MAGIC).then_some(at))
}
