//! Checks from outside whether the firmware's code and constants are unchanged: it reads the file
//! that backs the machine's memory.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, ensure};
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Endianness, elf};
use poorwill_machine::file_memory;

/// Start address of the machine's memory.
const MEMORY_START: u64 = 0x8000_0000;

/// ID of the memory as a QEMU object.
const NAME: &str = "intact";

/// Arguments that back the machine's memory of `bytes` bytes by a new file.
pub(crate) fn arguments(file: &Path, bytes: u64) -> anyhow::Result<Vec<String>> {
    File::create(file)?.set_len(bytes)?;
    let [option, memory] = file_memory(NAME, file)?;
    let backend = format!("memory-backend={NAME}");
    Ok(vec![option, memory, "-machine".to_owned(), backend])
}

/// Compares code and constants in the firmware file with the memory.
///
/// # Errors
///
/// They differ, or cannot be read.
pub(crate) fn check(firmware: &Path, memory: &Path) -> anyhow::Result<()> {
    let bytes = fs::read(firmware)?;
    let elf = ElfFile64::<Endianness>::parse(&*bytes).context("the firmware's file")?;
    let memory = File::open(memory)?;
    let order = elf.endian();
    let mut compared = 0;
    for part in elf.elf_program_headers() {
        let is_kept = part.p_type(order) == elf::PT_LOAD && part.p_flags(order) & elf::PF_W == 0;
        if !is_kept {
            continue;
        }
        let start = part.p_paddr(order);
        let wanted = part
            .data(order, &*bytes)
            .ok()
            .context("a part without bytes")?;
        let mut found = vec![0; wanted.len()];
        memory.read_exact_at(&mut found, start - MEMORY_START)?;
        let mut pairs = wanted.iter().zip(&found);
        if let Some(at) = pairs.position(|(wanted, found)| wanted != found) {
            anyhow::bail!(
                "the firmware's memory was changed at {:#x}",
                start + at as u64
            );
        }
        compared += wanted.len();
    }
    ensure!(compared > 0, "the firmware has neither code nor constants");
    Ok(())
}
