use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use poorwill_medium::{Direction, Medium, MediumError, check_range};
use poorwill_memory::{OsPage, PAGE_BYTES, Page};
use zerocopy::IntoBytes;

use crate::interrupt;

/// Linux's `EINTR`: the user asked to stop.
const INTERRUPTED: u16 = 4;

/// A disk file or block device as a medium, to read sleep areas, and for tests that damage them.
///
/// A status in its errors is the operating system's error number. [`Medium::start`] always fails,
/// since it moves OS memory, which the host does not have.
#[derive(Debug)]
pub struct FileMedium {
    file: File,
    capacity: u64,
}

impl FileMedium {
    /// The first `bytes` bytes of `file`, cut to whole pages.
    #[must_use]
    pub fn new(file: File, bytes: u64) -> Self {
        FileMedium {
            file,
            capacity: bytes / PAGE_BYTES * PAGE_BYTES,
        }
    }
}

fn status(error: &io::Error) -> u16 {
    /// Linux's `EIO`, for errors without a number.
    const INPUT_OUTPUT: u16 = 5;
    error
        .raw_os_error()
        .and_then(|code| code.try_into().ok())
        .unwrap_or(INPUT_OUTPUT)
}

impl Medium for FileMedium {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn max_pages(&self) -> usize {
        256
    }

    fn depth(&self) -> usize {
        1
    }

    fn read(&mut self, offset: u64, into: &mut [Page]) -> Result<(), MediumError> {
        check_range(self.capacity, offset, into.len())?;
        if interrupt::requested() {
            let status = INTERRUPTED;
            return Err(MediumError::Device {
                direction: Direction::Read,
                offset,
                status,
            });
        }
        self.file
            .read_exact_at(into.as_mut_bytes(), offset)
            .map_err(|error| MediumError::Device {
                direction: Direction::Read,
                offset,
                status: status(&error),
            })
    }

    fn write(&mut self, offset: u64, from: &[Page]) -> Result<(), MediumError> {
        check_range(self.capacity, offset, from.len())?;
        self.file
            .write_all_at(from.as_bytes(), offset)
            .map_err(|error| MediumError::Device {
                direction: Direction::Write,
                offset,
                status: status(&error),
            })
    }

    fn flush(&mut self) -> Result<(), MediumError> {
        self.file
            .sync_data()
            .map_err(|error| MediumError::Flush(status(&error)))
    }

    fn start(
        &mut self,
        direction: Direction,
        offset: u64,
        _pages: &[OsPage],
        _tag: u32,
    ) -> Result<(), MediumError> {
        /// Linux's `ENOSYS`.
        const NOT_IMPLEMENTED: u16 = 38;
        Err(MediumError::Device {
            direction,
            offset,
            status: NOT_IMPLEMENTED,
        })
    }

    fn poll(&mut self) -> Result<Option<u32>, MediumError> {
        Ok(None)
    }

    fn quiesce(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_was_written_and_nothing_beyond() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(3 * PAGE_BYTES + 17).unwrap();
        let mut medium = FileMedium::new(file, 3 * PAGE_BYTES + 17);
        assert_eq!(medium.capacity(), 3 * PAGE_BYTES);

        let written = [Page([0x1122_3344_5566_7788; 512]), Page([7; 512])];
        medium.write(PAGE_BYTES, &written).unwrap();
        medium.flush().unwrap();
        let mut read = [Page::ZERO, Page::ZERO];
        medium.read(PAGE_BYTES, &mut read).unwrap();
        assert_eq!(read, written);

        let beyond = MediumError::OutOfRange {
            offset: 2 * PAGE_BYTES,
            end: 4 * PAGE_BYTES,
        };
        assert_eq!(medium.read(2 * PAGE_BYTES, &mut read), Err(beyond));
        assert_eq!(medium.write(2 * PAGE_BYTES, &read), Err(beyond));
        assert!(medium.read(u64::MAX - PAGE_BYTES + 1, &mut read).is_err());
    }

    #[test]
    fn a_file_cut_short_is_a_device_error() {
        let file = tempfile::tempfile().unwrap();
        let mut medium = FileMedium::new(file, PAGE_BYTES);
        let error = medium.read(0, &mut [Page::ZERO]).unwrap_err();
        assert!(
            matches!(
                error,
                MediumError::Device {
                    direction: Direction::Read,
                    ..
                }
            ),
            "{error}"
        );
    }
}
