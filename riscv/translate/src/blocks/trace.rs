//! Memory for what the interpreter foresees. It is plain data: any bits are valid.

/// Most instructions of a block.
pub(super) const MOST_STEPS: usize = 120;

/// Most stores, and loads, of a block that are noted.
const MOST_ACCESSES: usize = 512;

/// The instructions that the interpreter has executed, and their accesses.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Trace {
    pub(super) steps: [Step; MOST_STEPS],
    pub(super) stores: [Store; MOST_ACCESSES],
    pub(super) loads: [Load; MOST_ACCESSES],
}

impl Trace {
    #[cfg(feature = "fake")]
    pub(super) const EMPTY: Trace = Trace {
        steps: [Step {
            pc: 0,
            x: 0,
            f: 0,
            status: 0,
            reserved: 0,
            value: 0,
            stores: 0,
            loads: 0,
            register: 0,
        }; MOST_STEPS],
        stores: [Store::EMPTY; MOST_ACCESSES],
        loads: [Load::EMPTY; MOST_ACCESSES],
    };
}

/// The state after an instruction.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Step {
    pub(super) pc: u64,
    /// Values of the registers with the number `register`. The others have not changed.
    pub(super) x: u64,
    pub(super) f: u64,
    /// `sstatus`
    pub(super) status: u64,
    /// The reservation's address and size, as in the environment, and its value.
    pub(super) reserved: u64,
    pub(super) value: u64,
    /// Numbers of stores and loads up to here.
    pub(super) stores: u16,
    pub(super) loads: u16,
    pub(super) register: u8,
}

/// A store, by physical address.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Store {
    pub(super) address: u64,
    pub(super) value: u64,
    pub(super) bytes: u8,
}

/// A load of memory as it was before the block.
pub(super) type Load = Store;

impl Store {
    #[cfg(feature = "fake")]
    const EMPTY: Store = Store {
        address: 0,
        value: 0,
        bytes: 0,
    };

    pub(super) fn addresses(&self) -> core::ops::Range<u64> {
        self.address..self.address + u64::from(self.bytes)
    }

    /// The byte that stores have left at an address.
    pub(super) fn byte(stores: &[Store], address: u64) -> Option<u8> {
        let store = stores
            .iter()
            .rfind(|it| it.addresses().contains(&address))?;
        Some((store.value >> (8 * (address - store.address))) as u8)
    }
}
