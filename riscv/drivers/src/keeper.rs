use poorwill_devicetree::MAX_HARTS;
use thiserror::Error;

use crate::Registers;

/// Maximum words of a device's state: an APLIC domain with 1023 sources and a delivery control for
/// each hart, or a PLIC of that size.
pub const MAX_WORDS: usize = 2 * 1024 + 32 + MAX_HARTS * 33;

/// The state does not fit this device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the device's state is {needed} words long, not {found}")]
pub struct WrongLength {
    /// Words that the device keeps.
    pub needed: usize,
    /// Words of the saved state.
    pub found: usize,
}

/// Words whose number [`Keeper::check`] has checked.
#[derive(Clone, Copy, Debug)]
pub struct State<S>(S);

impl<S> State<S> {
    pub(crate) fn words<W>(&self) -> &[W]
    where
        S: AsRef<[W]>,
    {
        self.0.as_ref()
    }
}

/// A device whose state is the contents of some of its registers.
pub trait Keeper {
    /// Value of a register.
    type Word: Copy;

    /// Tag of the state's section in an image.
    const TAG: u32;

    /// Version of the section: the set of registers and their order.
    const VERSION: u16;

    /// Registers of the device.
    fn registers(&self) -> &impl Registers<Self::Word>;

    /// Offsets of the registers with the OS's state, in the order of restoring; at most
    /// [`MAX_WORDS`].
    fn offsets(&self) -> impl Iterator<Item = u64>;

    /// Reads the OS's state.
    fn capture(&self) -> impl Iterator<Item = Self::Word> {
        self.offsets().map(|offset| self.registers().read(offset))
    }

    /// Checks that `words` can be the state of this device, without restoring it.
    ///
    /// # Errors
    ///
    /// [`WrongLength`].
    fn check<S: AsRef<[Self::Word]>>(&self, words: S) -> Result<State<S>, WrongLength> {
        let needed = self.offsets().count();
        let found = words.as_ref().len();
        if found != needed {
            return Err(WrongLength { needed, found });
        }
        Ok(State(words))
    }

    /// Restores the state.
    fn restore<S: AsRef<[Self::Word]>>(&self, state: &State<S>) {
        for (offset, word) in self.offsets().zip(state.words()) {
            self.registers().write(offset, *word);
        }
    }
}
