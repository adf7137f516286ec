use poorwill_medium::pci::{self, Function};

use crate::{KeeperError, Machine};

/// A function of the machine's.
#[derive(Debug)]
pub(crate) struct Device<'a, M> {
    pub(crate) machine: &'a M,
    /// Which host bridge it is below.
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
    /// The `bytes` bytes from `offset` on of what the function decodes by a BAR.
    ///
    /// # Errors
    ///
    /// [`KeeperError::Unreachable`].
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

    /// The owner of its sections of a kind: three letters, and the host bridge.
    pub(crate) fn owner(&self, kind: &[u8; 3]) -> u32 {
        let [first, second, third] = *kind;
        let [host, ..] = self.host.to_le_bytes();
        u32::from_le_bytes([first, second, third, host])
    }

    /// The number of its sections.
    pub(crate) fn number(&self) -> u16 {
        self.function.routing_id()
    }
}

/// The kind and the host bridge of a section's owner.
pub(crate) fn kind_and_host(owner: u32) -> ([u8; 3], usize) {
    let [first, second, third, host] = owner.to_le_bytes();
    ([first, second, third], host.into())
}
