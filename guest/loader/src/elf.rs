//! ELF files of 64 bits (Tool Interface Standard; System V ABI, chapter 5).

use arrayvec::ArrayVec;
use poorwill_memory::PhysRange;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, little_endian as le};

use crate::error::LoadError;
use crate::items::{Item, Items};
use crate::kernel_file::KernelFile;
use crate::piece::{MAX_SEGMENTS, Piece};

#[derive(FromBytes, Immutable, KnownLayout)]
#[repr(C)]
struct FileHeader {
    /// Magic number, class, byte order, and fields that are not checked.
    identification: [u8; 16],
    kind: le::U16,
    machine: le::U16,
    _version: le::U32,
    entry: le::U64,
    headers: le::U64,
    _sections: le::U64,
    _flags: le::U32,
    _header_bytes: le::U16,
    program_header_bytes: le::U16,
    program_headers: le::U16,
    _of_sections: [le::U16; 3],
}

/// The start of the identification of a 64-bit, little-endian file.
const IDENTIFICATION: [u8; 6] = *b"\x7fELF\x02\x01";
/// The file type of a program with fixed addresses.
const EXECUTABLE: u16 = 2;
const RISCV: u16 = 243;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct ProgramHeader {
    kind: le::U32,
    _flags: le::U32,
    offset: le::U64,
    _virtual: le::U64,
    physical: le::U64,
    file_bytes: le::U64,
    memory_bytes: le::U64,
    _align: le::U64,
}

/// The type of a segment that must be loaded.
const LOAD: u32 = 1;

/// A kernel in an ELF file, which gives the memory address of each segment.
pub(crate) struct Elf {
    pub(crate) entry: u64,
    headers: u64,
    count: u16,
}

impl Elf {
    pub(crate) const HEADER_BYTES: usize = size_of::<FileHeader>();

    /// Reads the header; `None`: the file is not a 64-bit RISC-V program.
    pub(crate) fn read(header: &[u8; Self::HEADER_BYTES]) -> Option<Self> {
        let header = FileHeader::ref_from_bytes(header).ok()?;
        let is_ours = header.identification.starts_with(&IDENTIFICATION)
            && header.kind.get() == EXECUTABLE
            && header.machine.get() == RISCV
            && usize::from(header.program_header_bytes.get()) == size_of::<ProgramHeader>();
        is_ours.then(|| Elf {
            entry: header.entry.get(),
            headers: header.headers.get(),
            count: header.program_headers.get(),
        })
    }

    /// The segments to load, at the physical addresses that the file gives.
    ///
    /// # Errors
    ///
    /// [`LoadError`]: the file is cut short, or malformed.
    pub(crate) fn segments<I: Items>(
        &self,
        file: &mut KernelFile<'_, I>,
    ) -> Result<ArrayVec<Piece, MAX_SEGMENTS>, LoadError> {
        let mut segments = ArrayVec::new();
        for index in 0..u64::from(self.count) {
            let mut header = ProgramHeader::new_zeroed();
            let offset = self
                .headers
                .checked_add(index * size_of::<ProgramHeader>() as u64);
            file.read(offset, header.as_mut_bytes())?;
            if header.kind.get() == LOAD && header.memory_bytes.get() > 0 {
                let segment = header.piece(file)?;
                (segments.try_push(segment))
                    .map_err(|_| LoadError::TooManySegments(MAX_SEGMENTS))?;
            }
        }
        Ok(segments)
    }
}

impl ProgramHeader {
    fn piece<I: Items>(&self, file: &KernelFile<'_, I>) -> Result<Piece, LoadError> {
        let start = self.physical.get();
        let (bytes, memory) = (self.file_bytes.get(), self.memory_bytes.get());
        let end = start.checked_add(memory);
        let end = end.filter(|_| bytes <= memory);
        let end = end.ok_or(LoadError::Segment(start))?;
        let (offset, bytes) = file.part(self.offset.get(), bytes)?;
        Ok(Piece {
            item: Item::Kernel,
            offset,
            bytes,
            place: PhysRange { start, end },
        })
    }
}
