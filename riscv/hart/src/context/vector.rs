use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Maximum bytes of a vector register. VLEN is at most 1024 bits, the largest that QEMU models; the
/// specification allows 65536.
pub const MAX_VLENB: usize = 128;

const REGISTERS: usize = 32;

/// The vector unit (V extension, chapter 3). An image has these bytes up to the last one of v31.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct VectorRegisters {
    /// First element that a vector instruction executes.
    pub vstart: u64,
    /// Fixed-point rounding mode and saturation.
    pub vcsr: u64,
    /// Number of elements that an instruction works on.
    pub vl: u64,
    /// Type of the elements.
    pub vtype: u64,
    /// Bytes of a register.
    pub vlenb: u64,
    /// v0 to v31 in order, each of `vlenb` bytes.
    pub v: [u8; REGISTERS * MAX_VLENB],
}

/// Bytes before v0.
const HEAD_BYTES: usize = size_of::<VectorRegisters>() - REGISTERS * MAX_VLENB;

impl VectorRegisters {
    /// Zeroed registers of `vlenb` bytes; `None` unless that is a power of two from 4 to
    /// [`MAX_VLENB`].
    #[must_use]
    pub fn new(vlenb: u64) -> Option<Self> {
        let is_length = vlenb.is_power_of_two() && (4..=MAX_VLENB as u64).contains(&vlenb);
        if !is_length {
            return None;
        }
        Some(VectorRegisters {
            vstart: 0,
            vcsr: 0,
            vl: 0,
            vtype: 0,
            vlenb,
            v: [0; REGISTERS * MAX_VLENB],
        })
    }

    /// The bytes for an image.
    pub(super) fn used_bytes(&self) -> &[u8] {
        &self.as_bytes()[..HEAD_BYTES + used(self.vlenb)]
    }

    /// Reads an image's bytes; `None` if they are invalid.
    pub(super) fn from_used(bytes: &[u8]) -> Option<Self> {
        let head: [u64; HEAD_BYTES / 8] = <_>::read_from_bytes(bytes.get(..HEAD_BYTES)?).ok()?;
        let [vstart, vcsr, vl, vtype, vlenb] = head;
        let mut registers = VectorRegisters::new(vlenb)?;
        let v = &bytes[HEAD_BYTES..];
        if v.len() != used(vlenb) {
            return None;
        }
        registers.v[..v.len()].copy_from_slice(v);
        Some(VectorRegisters {
            vstart,
            vcsr,
            vl,
            vtype,
            ..registers
        })
    }
}

/// Bytes of v0 to v31; `vlenb` is at most [`MAX_VLENB`].
fn used(vlenb: u64) -> usize {
    REGISTERS * usize::try_from(vlenb).map_or(MAX_VLENB, |vlenb| vlenb.min(MAX_VLENB))
}
