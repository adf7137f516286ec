//! Files that QEMU and the plugin write meanwhile.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// A file that grows, read up to the end of its last whole line.
#[derive(Debug)]
pub(super) struct Growing {
    file: File,
    /// The beginning of a line.
    rest: String,
}

impl Growing {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Growing {
            file: File::open(path)?,
            rest: String::new(),
        })
    }

    /// Its further whole lines.
    pub(super) fn read(&mut self) -> io::Result<String> {
        self.file.read_to_string(&mut self.rest)?;
        let whole = self.rest.rfind('\n').map_or(0, |at| at + 1);
        let rest = self.rest.split_off(whole);
        Ok(std::mem::replace(&mut self.rest, rest))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_line_is_read_once_it_is_whole() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut growing = Growing::open(file.path()).unwrap();
        let mut steps = ["one\ntw", "", "o\n"].map(|text| {
            file.write_all(text.as_bytes()).unwrap();
            growing.read().unwrap()
        });
        steps.rotate_left(1);
        assert_eq!(steps, ["", "two\n", "one\n"]);
    }
}
