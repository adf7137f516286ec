/// A line condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineEvents {
    /// A byte was received.
    pub input: bool,
    /// A break: the line was held low for longer than a byte.
    pub line_break: bool,
}

/// A UART's transmitter and receiver.
pub trait Chip {
    /// Returns whether the transmitter accepts a byte.
    fn is_ready(&self) -> bool;

    /// Sends a byte; the transmitter is ready.
    fn put(&self, byte: u8);

    /// Returns whether the OS's driver is changing the settings, so that a byte would become one.
    fn is_being_set(&self) -> bool;

    /// Sends a byte all the same, and leaves the settings as they were.
    fn put_amid_settings(&self, byte: u8);

    /// Takes a received byte.
    fn take(&self) -> Option<u8>;

    /// Returns whether all bytes have left.
    fn is_idle(&self) -> bool;

    /// Condition of the line. A break is reported once. A received byte stays for the OS.
    fn events(&self) -> LineEvents;
}
