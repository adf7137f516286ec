//! The address of an instruction that writes a line back.

use crate::session::{Session, fail};

/// A bit of the data for [`flushed`]: the address is physical. The bits below are the
/// register's number.
const PHYSICAL: usize = 1 << 8;

pub(crate) fn flush_data(register: u8, is_physical: bool) -> usize {
    usize::from(register) | if is_physical { PHYSICAL } else { 0 }
}

/// The physical address that a hart is about to flush; `None`: it is not mapped. `data` is that of
/// [`flush_data`].
pub(crate) fn flushed(session: &Session, hart: usize, data: usize) -> Option<u64> {
    let register = u8::try_from(data % PHYSICAL).expect("a register's number");
    let registers = session.registers.get();
    let value = registers.and_then(|all| session.qemu.register_value(all, register));
    let Some(value) = value else {
        fail(&format_args!("QEMU cannot read register x{register}"));
    };
    if data & PHYSICAL != 0 {
        Some(value)
    } else {
        session.internals.physical(session.cpu(hart), value)
    }
}
