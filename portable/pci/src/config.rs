use core::fmt;

/// The most functions below a host bridge that are listed.
pub const MAX_FUNCTIONS: usize = 64;

/// A function's address on the bus, for configuration accesses.
///
/// The bus number may change: at power-on, buses below a bridge have no numbers yet. The
/// [`Location`](super::Location) stays the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Function {
    /// Bus, 0 to 255.
    pub bus: u8,
    /// Device on the bus, 0 to 31.
    pub device: u8,
    /// Function of the device, 0 to 7.
    pub function: u8,
}

impl Function {
    /// The routing ID: bus, device and function in one number.
    #[must_use]
    pub fn routing_id(self) -> u16 {
        u16::from(self.bus) << 8 | u16::from(self.device) << 3 | u16::from(self.function)
    }

    /// The function with this routing ID.
    #[must_use]
    pub fn from_routing_id(id: u16) -> Self {
        let [function, bus] = id.to_le_bytes();
        Function {
            bus,
            device: function >> 3,
            function: function & 7,
        }
    }
}

impl fmt::Display for Function {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{:02x}:{:02x}.{}",
            self.bus, self.device, self.function
        )
    }
}

/// The configuration space of the functions below one host bridge (ECAM).
///
/// Callers only use the buses from
/// [`HostBridge::first_bus`](super::HostBridge::first_bus) to `last_bus`, devices below
/// 32 and functions below 8.
pub trait ConfigSpace {
    /// Reads the dword at `register`, a multiple of 4 below 4096; all ones if the
    /// function does not exist.
    fn read32(&self, function: Function, register: u16) -> u32;

    /// Writes the dword at `register`, a multiple of 4 below 4096. The write is complete
    /// when this returns (configuration writes are non-posted).
    fn write32(&self, function: Function, register: u16, value: u32);
}

impl<C: ConfigSpace + ?Sized> ConfigSpace for &C {
    fn read32(&self, function: Function, register: u16) -> u32 {
        (**self).read32(function, register)
    }

    fn write32(&self, function: Function, register: u16, value: u32) {
        (**self).write32(function, register, value);
    }
}
