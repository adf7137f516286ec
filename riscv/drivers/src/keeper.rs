use poorwill_devicetree::MAX_HARTS;
use thiserror::Error;

use crate::Registers;

/// Most words that the state of one device has: that of an APLIC domain with 1023
/// sources and a delivery control for every hart, or of a PLIC with as many.
pub const MAX_WORDS: usize = 2 * 1024 + 32 + MAX_HARTS * 33;

/// The state to restore does not fit this device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the device's state is {needed} words long, not {found}")]
pub struct WrongLength {
    /// Words that the device keeps.
    pub needed: usize,
    /// Words that were offered.
    pub found: usize,
}

/// Words that [`Keeper::check`] has found to be as many as the device keeps.
#[derive(Clone, Copy, Debug)]
pub struct State<S>(S);

impl<S> State<S> {
    /// The words.
    pub(crate) fn words<W>(&self) -> &[W]
    where
        S: AsRef<[W]>,
    {
        self.0.as_ref()
    }
}

/// A device whose state is the contents of some of its registers.
pub trait Keeper {
    /// What a register holds.
    type Word: Copy;

    /// Tag of the state's record in an image.
    const TAG: u32;

    /// Version of the record: which registers, in which order.
    const VERSION: u16;

    /// The device.
    fn registers(&self) -> &impl Registers<Self::Word>;

    /// The offsets of the registers that hold the OS's state, in the order in which they are
    /// restored; at most [`MAX_WORDS`].
    fn offsets(&self) -> impl Iterator<Item = u64>;

    /// Reads what the OS has programmed.
    fn capture(&self) -> impl Iterator<Item = Self::Word> {
        self.offsets().map(|offset| self.registers().read(offset))
    }

    /// Checks that `words` can be the state of this device. Nothing is restored yet.
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
