//! A trace's file, which appears only once it is whole.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use crate::coding::Record;
use crate::header::{Counted, Setting};
use crate::writer::Writer;

/// Writes a trace to `FILE.part`, and renames that at the end. When dropped it removes the part.
#[derive(Debug)]
pub struct TraceFile {
    writer: Option<Writer<BufWriter<File>>>,
    part: PathBuf,
    file: PathBuf,
}

impl TraceFile {
    /// Begins a trace.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn create(file: &Path, setting: Setting) -> io::Result<Self> {
        let part = part_of(file);
        let to = BufWriter::new(File::create(&part)?);
        let mut trace = TraceFile {
            writer: None,
            part,
            file: file.to_owned(),
        };
        trace.writer = Some(Writer::new(to, setting)?);
        Ok(trace)
    }

    /// Appends a record. Its hart must exist.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn push(&mut self, record: &Record) -> io::Result<()> {
        match &mut self.writer {
            Some(writer) => writer.push(record),
            None => Ok(()),
        }
    }

    /// Removes the part of a trace that cannot be dropped, as its thread does not end.
    ///
    /// # Errors
    ///
    /// The part cannot be removed. One that does not exist is no error.
    pub fn discard(file: &Path) -> io::Result<()> {
        match fs::remove_file(part_of(file)) {
            Err(reason) if reason.kind() != io::ErrorKind::NotFound => Err(reason),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Completes the file.
    ///
    /// # Errors
    ///
    /// The file cannot be written. It is not there then.
    pub fn finish(mut self, counted: Counted, is_whole: bool) -> io::Result<()> {
        if let Some(writer) = self.writer.take() {
            let to = writer.finish(counted, is_whole)?;
            let file = to.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.sync_all()?;
            fs::rename(&self.part, &self.file)?;
        }
        Ok(())
    }
}

/// The name of a trace that is not complete.
fn part_of(file: &Path) -> PathBuf {
    let mut part = OsString::from(file);
    part.push(".part");
    PathBuf::from(part)
}

impl Drop for TraceFile {
    fn drop(&mut self) {
        // After a rename there is no part. A destructor has no caller that could get an error.
        let _ = fs::remove_file(&self.part);
    }
}
