use zerocopy::{FromBytes, Immutable, KnownLayout, little_endian};

/// The header of Linux's image (Documentation/arch/riscv/boot-image-header.rst).
#[derive(FromBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Header {
    _code: [little_endian::U32; 2],
    text_offset: little_endian::U64,
    /// Bytes of memory that the kernel occupies, with uninitialised data.
    image_bytes: little_endian::U64,
    _flags: little_endian::U64,
    _version: [little_endian::U32; 2],
    _reserved: little_endian::U64,
    _magic: little_endian::U64,
    magic2: little_endian::U32,
    _pe_header: little_endian::U32,
}

/// "RSC\x05".
const MAGIC: u32 = 0x0543_5352;

/// Header of a Linux image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinuxImage {
    /// Requested offset from the start of memory.
    pub text_offset: u64,
    /// Bytes of memory, including uninitialised data.
    pub bytes: u64,
}

impl LinuxImage {
    /// Bytes of the header.
    pub const HEADER_BYTES: usize = size_of::<Header>();

    /// Reads the header; `None` if it is not Linux's.
    #[must_use]
    pub fn read(header: &[u8; Self::HEADER_BYTES]) -> Option<Self> {
        let header = Header::ref_from_bytes(header).ok()?;
        (header.magic2.get() == MAGIC).then(|| LinuxImage {
            text_offset: header.text_offset.get(),
            bytes: header.image_bytes.get(),
        })
    }
}
