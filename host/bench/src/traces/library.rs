//! The recorded traces, in the cache.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use poorwill_machine::{interrupt, paths};
use poorwill_trace::{Header, Reader, TraceError};

use super::error::TracesError;
use super::guest::TracedGuest;
use super::programs::{Program, names};

/// The suffix of a trace's file.
const SUFFIX: &str = "trace";

/// The folder of the traces.
#[derive(Clone, Debug)]
pub struct Library {
    folder: PathBuf,
}

/// A trace that a user has named.
#[derive(Clone, Debug)]
pub struct Found {
    /// The file.
    pub file: PathBuf,
    /// What to do about a damaged one.
    remedy: String,
}

/// A trace of the library.
#[derive(Debug)]
pub struct Kept {
    /// Its name.
    pub name: String,
    /// Length of its file.
    pub bytes: u64,
    /// Its header, or why that cannot be read.
    pub header: Result<Header, TraceError>,
}

impl Library {
    /// The library in the cache. Its folder may not exist yet.
    ///
    /// # Errors
    ///
    /// There is no home directory.
    pub fn find() -> Result<Self, paths::PathError> {
        Ok(Library {
            folder: paths::cache()?.join("traces"),
        })
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file of a trace.
    #[must_use]
    pub fn file(&self, program: &Program, harts: u32) -> PathBuf {
        let name = program.trace_name(harts);
        self.folder.join(name).with_extension(SUFFIX)
    }

    /// All traces, by their names.
    ///
    /// # Errors
    ///
    /// The folder cannot be read. One that does not exist has no traces.
    pub fn list(&self) -> io::Result<Vec<Kept>> {
        let entries = match fs::read_dir(&self.folder) {
            Err(reason) if reason.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut kept = Vec::new();
        for entry in entries {
            let entry = entry?;
            let file = entry.path();
            let Some(name) = file.file_stem().and_then(|name| name.to_str()) else {
                continue;
            };
            if file.extension().is_some_and(|suffix| suffix == SUFFIX) {
                let opened = File::open(&file).map_err(TraceError::Read);
                let reader = opened.and_then(Reader::new);
                kept.push(Kept {
                    name: name.to_owned(),
                    bytes: entry.metadata()?.len(),
                    header: reader.map(|reader| reader.header().clone()),
                });
            }
        }
        kept.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(kept)
    }

    /// The trace that a user names: a file, or a trace of the library, which must be of the present
    /// guest. A file may be of any guest.
    ///
    /// # Errors
    ///
    /// [`TracesError`].
    pub fn named(&self, name: &str) -> Result<Found, TracesError> {
        let Some((program, harts)) = Program::of_trace(name) else {
            let file = PathBuf::from(name);
            return match file.is_file() {
                true => Ok(Found {
                    file,
                    remedy: "get the file again, or record a trace with `poorwill trace record`"
                        .to_owned(),
                }),
                false => Err(TracesError::Unknown {
                    name: name.to_owned(),
                    known: names(),
                }),
            };
        };
        let remedy = remedy(program, harts);
        let found = Found {
            file: self.file(program, harts),
            remedy: format!("record it again with `{remedy}`"),
        };
        if !found.file.exists() {
            let name = name.to_owned();
            return Err(TracesError::NotRecorded { name, remedy });
        }
        let header = found.open(|file| file)?.header().clone();
        let guest = TracedGuest::find()?;
        let other = match () {
            () if header.setting.guest != guest.digest => "guest",
            () if header.setting.program != program.digest() => "command line",
            () => return Ok(found),
        };
        Err(TracesError::Other {
            name: name.to_owned(),
            of: other,
            remedy,
        })
    }
}

/// The command that records a trace.
fn remedy(program: &Program, harts: u32) -> String {
    let record = format!("poorwill trace record {}", program.name);
    match harts == program.harts {
        true => record,
        false => format!("{record} --harts {harts}"),
    }
}

impl Found {
    /// Opens the trace. `watch` wraps the file, for a progress bar.
    ///
    /// # Errors
    ///
    /// [`TracesError`].
    pub fn open<'w, R: Read + 'w>(
        &self,
        watch: impl FnOnce(File) -> R,
    ) -> Result<Reader<Box<dyn Read + 'w>>, TracesError> {
        let file = File::open(&self.file).map_err(|reason| TracesError::File {
            file: self.file.clone(),
            reason,
        })?;
        let file: Box<dyn Read + 'w> = Box::new(BufReader::new(Interruptible(watch(file))));
        Reader::new(file).map_err(|reason| self.refused(reason))
    }

    /// The error of a trace that cannot be read.
    #[must_use]
    pub fn refused(&self, reason: TraceError) -> TracesError {
        TracesError::Damaged {
            file: self.file.clone(),
            reason,
            remedy: self.remedy.clone(),
        }
    }
}

/// A file whose reading ends when the user asks to stop.
#[derive(Debug)]
struct Interruptible<R>(R);

impl<R: Read> Read for Interruptible<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        interrupt::check().map_err(io::Error::other)?;
        self.0.read(buffer)
    }
}
