use poorwill_pci::{self as pci, Function};

use crate::{KeeperError, Machine};

#[derive(Debug)]
pub(crate) struct Device<'a, M> {
    pub(crate) machine: &'a M,
    pub(crate) host: usize,
    pub(crate) function: Function,
}

impl<M> Clone for Device<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Device<'_, M> {}

impl<M: Machine> Device<'_, M> {
    /// The window of `bytes` bytes from `offset` in a BAR of the function.
    pub(crate) fn window(
        &self,
        bar: u8,
        offset: u64,
        bytes: u64,
    ) -> Result<M::Window, KeeperError> {
        let config = self.machine.config(self.host);
        let address = pci::bar_address(&config, self.function, bar)
            .and_then(|address| address.checked_add(offset))
            .and_then(|address| self.machine.host(self.host).cpu_address(address, bytes));
        let address = address.ok_or(KeeperError::Unreachable(self.function))?;
        Ok(self.machine.window(address))
    }

    /// The owner of its sections: the three letters of its kind, and the host bridge.
    pub(crate) fn owner(&self, kind: &[u8; 3]) -> u32 {
        let [first, second, third] = *kind;
        let [host, ..] = self.host.to_le_bytes();
        u32::from_le_bytes([first, second, third, host])
    }

    /// The number of its sections: its routing ID.
    pub(crate) fn number(&self) -> u16 {
        self.function.routing_id()
    }
}

/// The kind's letters and the host bridge in a section's owner.
pub(crate) fn kind_and_host(owner: u32) -> ([u8; 3], usize) {
    let [first, second, third, host] = owner.to_le_bytes();
    ([first, second, third], host.into())
}
