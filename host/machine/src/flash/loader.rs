//! The board's first flash, from which a machine starts its next stage.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use super::file::{FLASH_BYTES, FlashError};
use crate::disk::{PRIVATE, temporary_beside};

/// Creates the file of a board's first flash, with `program` at its start and the length that QEMU
/// demands. The file is sparse. It replaces an older file only when complete.
///
/// # Errors
///
/// [`FlashError`].
pub fn make_loader(program: &Path, file: &Path) -> Result<(), FlashError> {
    let bytes = fs::read(program).map_err(|reason| FlashError::Read {
        file: program.to_owned(),
        reason,
    })?;
    if bytes.len() as u64 > FLASH_BYTES {
        return Err(FlashError::TooLong {
            file: program.to_owned(),
            bytes: bytes.len() as u64,
        });
    }
    write(&bytes, file).map_err(|reason| FlashError::Write {
        file: file.to_owned(),
        reason,
    })
}

fn write(bytes: &[u8], file: &Path) -> io::Result<()> {
    let mut temporary = temporary_beside(file, PRIVATE)?;
    temporary.write_all(bytes)?;
    temporary.as_file().set_len(FLASH_BYTES)?;
    temporary.persist(file)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_lies_at_the_start_of_a_whole_flash() {
        let folder = tempfile::tempdir().unwrap();
        let [program, file] = ["program", "flash"].map(|name| folder.path().join(name));
        fs::write(&program, b"code").unwrap();
        make_loader(&program, &file).unwrap();
        let flash = fs::read(&file).unwrap();
        assert_eq!(
            (&flash[..5], flash.len() as u64),
            (&b"code\0"[..], FLASH_BYTES)
        );
        fs::write(&program, b"new").unwrap();
        make_loader(&program, &file).unwrap();
        assert_eq!(&fs::read(&file).unwrap()[..4], b"new\0");
    }

    #[test]
    fn a_program_that_is_missing_or_too_long_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let [program, file] = ["program", "flash"].map(|name| folder.path().join(name));
        let missing = make_loader(&program, &file).unwrap_err();
        assert!(matches!(missing, FlashError::Read { .. }), "{missing}");
        fs::File::create(&program)
            .unwrap()
            .set_len(FLASH_BYTES + 1)
            .unwrap();
        let long = make_loader(&program, &file).unwrap_err();
        assert!(matches!(long, FlashError::TooLong { .. }), "{long}");
        assert!(!file.exists());
    }
}
