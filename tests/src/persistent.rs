//! Changes and checks of a machine's persistent memory while the machine is off.

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use poorwill_image::{CutKey, SealingKey};
use poorwill_memory::{PAGE_BYTES, Page, checksum};
use poorwill_vault::{CutCounter, SliceFlash, Vault};

use crate::disks::copy_part;
use crate::plan::OnMemory;
use crate::tamper::vault_range;

/// The first word of a line in a cut's record. Its first byte is the kind of line.
const MAGIC: [u8; 7] = *b"PWCUT\0\x01";

/// Kinds of lines, and their offsets in the record (docs/cut.md).
const BEGUN: u8 = 1;
const COMMITTED: (u8, u64) = (2, 256);

/// Bytes of a line.
const LINE: usize = 64;

/// Address of the memory that stands for the memory controller's registers on machines `cut-wear`:
/// 7 wear registers, and the register with error flags.
const WEAR: u64 = 0x500_0000;
const ERROR: u64 = WEAR + 0x100;

/// Values for the wear registers.
const WORDS: [u64; 7] = [0x11, 0x2222, 3, 0x4444_4444_4444, 5, 6, u64::MAX];

/// Offset in the record of a byte of its first part: in the payload of the first section.
const PART_BYTE: u64 = PAGE_BYTES + 0x60;

/// Applies `what` to the file that backs a machine's memory.
pub(crate) fn apply(what: OnMemory, memory: &Path) -> anyhow::Result<()> {
    match what {
        OnMemory::Copy => copy(memory, &copy_of(memory)),
        OnMemory::PutBack => copy(&copy_of(memory), memory),
        OnMemory::FlipPart => {
            let file = open(memory)?;
            flip(&file, find_record(&file)? + PART_BYTE)
        }
        OnMemory::FlipCommit => {
            let file = open(memory)?;
            flip(&file, find_record(&file)? + COMMITTED.1 + 16)
        }
        OnMemory::SetWear => Ok(open(memory)?.write_all_at(&wear(), WEAR)?),
        OnMemory::LoseWear => Ok(open(memory)?.write_all_at(&[0; 8 * WORDS.len()], WEAR)?),
        OnMemory::CheckWear => {
            let mut found = [0; 8 * WORDS.len()];
            open(memory)?.read_exact_at(&mut found, WEAR)?;
            ensure!(
                found[..] == wear()[..],
                "the wear registers hold {found:x?}"
            );
            Ok(())
        }
        OnMemory::TellError => Ok(open(memory)?.write_all_at(&[1], ERROR)?),
        OnMemory::ForgeCommit => {
            let file = open(memory)?;
            let at = find_record(&file)? + COMMITTED.1;
            flip(&file, at + 16)?;
            let mut line = [0; LINE];
            file.read_exact_at(&mut line, at)?;
            let words: [u64; 8] = std::array::from_fn(|word| {
                let bytes = line[8 * word..][..8].try_into().expect("eight bytes");
                u64::from_le_bytes(bytes)
            });
            let sum = checksum::of_words(&words[..7]);
            Ok(file.write_all_at(&sum.to_le_bytes(), at + 56)?)
        }
    }
}

fn wear() -> Vec<u8> {
    WORDS.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The keys that must be in a machine's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// None: the machine was cut or switched off.
    None,
    /// The key of the cut that the machine was about to take.
    Cut,
}

/// Checks that a machine's memory contains these keys and no others. The vault in `flash` has the
/// keys to look for.
pub(crate) fn check_keys(memory: &Path, flash: &Path, keys: Keys) -> anyhow::Result<()> {
    let all = fs::read(flash)?;
    let Range { start, end } = vault_range();
    let copy = all[start as usize..end as usize].to_vec();
    let vault = Vault::open(SliceFlash::<_>::new(copy), 0..end - start)?;
    let key = vault.key().context("the machine has no key")?;
    let cut = CutKey::new(&SealingKey::new(*key.bytes()), vault.cut());
    let memory = fs::read(memory)?;
    ensure!(
        !holds(&memory, key.bytes()),
        "the vault's key is in persistent memory"
    );
    ensure!(
        holds(&memory, cut.bytes()) == (keys == Keys::Cut),
        "the key of cut {}: memory must contain {keys:?}",
        vault.cut()
    );
    Ok(())
}

/// Whether a quarter of a key is in `memory`.
fn holds(memory: &[u8], key: &[u8; 32]) -> bool {
    let parts = key.as_chunks::<8>().0;
    let pages = (0..memory.len()).step_by(size_of::<Page>());
    // The page, and the bytes of the next one with which a quarter that begins in it may end.
    let page = |start: usize| &memory[start..memory.len().min(start + ZEROS.len())];
    pages
        .map(page)
        .filter(|page| !ZEROS.starts_with(page))
        .any(|page| {
            let mut windows = page.windows(8);
            windows.any(|window| parts.iter().any(|part| part == window))
        })
}

/// Most of memory is zeros. A comparison with zeros is faster than the search for a key.
const ZEROS: &[u8] = &[0; size_of::<Page>() + 7];

fn open(memory: &Path) -> anyhow::Result<File> {
    Ok(File::options().read(true).write(true).open(memory)?)
}

/// Offset of the record of a cut: the page that begins with the record's first line.
fn find_record(file: &File) -> anyhow::Result<u64> {
    let is_line = |at, kind: u8| {
        let mut word = [0; 8];
        file.read_exact_at(&mut word, at)?;
        anyhow::Ok(word[0] == kind && word[1..] == MAGIC)
    };
    let (kind, offset) = COMMITTED;
    let pages = file.metadata()?.len() / PAGE_BYTES;
    for page in (0..pages).map(|page| page * PAGE_BYTES) {
        if is_line(page, BEGUN)? && is_line(page + offset, kind)? {
            return Ok(page);
        }
    }
    anyhow::bail!("there is no record of a cut in memory")
}

fn flip(file: &File, offset: u64) -> anyhow::Result<()> {
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset)?;
    byte[0] ^= 0x10;
    Ok(file.write_all_at(&byte, offset)?)
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let (from, to) = (File::open(from)?, File::create(to)?);
    let end = from.metadata()?.len();
    to.set_len(end)?;
    Ok(copy_part(&from, &to, 0..end)?)
}

fn copy_of(memory: &Path) -> PathBuf {
    memory.with_extension("copy")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_key_is_found() {
        let key = *b"abcdefghijklmnopqrstuvwxyz012345";
        let mut memory = vec![0; 100];
        assert!(!holds(&memory, &key));
        memory[41..49].copy_from_slice(&key[8..16]);
        assert!(holds(&memory, &key));
        memory[44] = 0;
        assert!(!holds(&memory, &key));
        let mut memory = vec![0; 3 * size_of::<Page>()];
        let end = 2 * size_of::<Page>();
        memory[end - 1..end + 7].copy_from_slice(&key[..8]);
        assert!(holds(&memory, &key));
    }
}
