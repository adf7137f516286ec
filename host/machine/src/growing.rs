//! Files that another process writes meanwhile.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// A text file that grows, read up to the end of its last whole line.
#[derive(Debug)]
pub struct Growing {
    path: PathBuf,
    opened: Option<File>,
    /// The beginning of a line.
    rest: Vec<u8>,
}

impl Growing {
    /// The file with this path, which need not exist yet.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Growing {
            path: path.to_owned(),
            opened: None,
            rest: Vec::new(),
        }
    }

    /// Its whole lines since the last call.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn read(&mut self) -> io::Result<String> {
        if self.opened.is_none() {
            match File::open(&self.path) {
                Ok(file) => self.opened = Some(file),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(String::new()),
                Err(error) => return Err(error),
            }
        }
        if let Some(file) = &mut self.opened {
            file.read_to_end(&mut self.rest)?;
        }
        let whole = self.rest.iter().rposition(|byte| *byte == b'\n');
        let lines: Vec<u8> = self.rest.drain(..whole.map_or(0, |end| end + 1)).collect();
        Ok(String::from_utf8_lossy(&lines).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_line_is_read_once_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        let mut growing = Growing::new(&path);
        assert_eq!(growing.read().unwrap(), "");
        let mut file = File::create(&path).unwrap();
        let steps = ["one\ntw", "", "o\n"].map(|text| {
            file.write_all(text.as_bytes()).unwrap();
            growing.read().unwrap()
        });
        assert_eq!(steps, ["one\n", "", "two\n"]);
    }
}
