//! Names of files within QEMU's arguments.

use std::path::Path;

/// A file's name within an argument of QEMU, which reads two commas as one.
pub(crate) fn quoted(file: &Path) -> String {
    file.to_string_lossy().replace(',', ",,")
}
