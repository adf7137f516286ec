//! APLIC (RISC-V Advanced Interrupt Architecture 1.0, AIA, chapter 4).
//!
//! Machine mode's [`Root`] domain delegates all sources to the OS's [`Domain`].

use arrayvec::ArrayVec;
use poorwill_devicetree::{Aplic, ImsicLayout, MAX_HARTS};

use crate::{Keeper, Registers, State};

/// Register offsets (AIA, section 4.5, and for IDC structures 4.8.1).
pub(crate) mod register {
    pub(crate) const DOMAINCFG: u64 = 0;
    /// For source 1; there is no source 0.
    pub(crate) const SOURCECFG: u64 = 0x4;
    pub(super) const MMSIADDRCFG: u64 = 0x1bc0;
    pub(super) const MMSIADDRCFGH: u64 = 0x1bc4;
    pub(super) const SMSIADDRCFG: u64 = 0x1bc8;
    pub(super) const SMSIADDRCFGH: u64 = 0x1bcc;
    /// Pending bits (4.5.4) of sources 0 to 31.
    pub(crate) const SETIP: u64 = 0x1c00;
    pub(crate) const SETIPNUM: u64 = 0x1cdc;
    /// Current values of the inputs (4.5.10).
    pub(crate) const IN_CLRIP: u64 = 0x1d00;
    pub(crate) const CLRIPNUM: u64 = 0x1ddc;
    pub(super) const SETIE: u64 = 0x1e00;
    pub(crate) const SETIENUM: u64 = 0x1edc;
    pub(super) const CLRIE: u64 = 0x1f00;
    /// Sends a message on behalf of a hart (4.5.15).
    pub(super) const GENMSI: u64 = 0x3000;
    /// For source 1.
    pub(crate) const TARGET: u64 = 0x3004;
    pub(super) const IDC: u64 = 0x4000;
    pub(super) const IDC_STRIDE: u64 = 32;
    pub(super) const IDELIVERY: u64 = 0;
    pub(super) const ITHRESHOLD: u64 = 8;
}

/// DOMAINCFG: interrupts reach harts (AIA, 4.5.1).
pub(crate) const INTERRUPT_ENABLE: u32 = 1 << 8;

/// GENMSI: the requested message is not yet sent (AIA, 4.5.15).
const BUSY: u32 = 1 << 12;

/// SOURCECFG: delegated to the child domain in the low bits (AIA, 4.5.2).
const DELEGATED: u32 = 1 << 10;

/// Machine mode's domain, which has all sources after a reset.
#[derive(Debug)]
pub struct Root<R> {
    registers: R,
    sources: u32,
    /// Child index, first and last source.
    delegated: ArrayVec<(u32, u32, u32), 4>,
    /// Nodes of machine mode's and of the OS's files, if IMSICs deliver.
    imsics: Option<[ImsicLayout; 2]>,
}

impl<R: Registers<u32>> Root<R> {
    /// The domain in `described`, with its registers.
    pub fn new(registers: R, described: &Aplic) -> Self {
        Root {
            registers,
            sources: described.sources,
            delegated: described.delegated.clone(),
            imsics: described.imsics,
        }
    }

    /// Delegates the sources to the OS's domain, and programs the IMSIC addresses that all domains
    /// share.
    pub fn start(&self) {
        self.registers.write(register::DOMAINCFG, 0);
        disable_all(&self.registers, self.sources);
        for (child, first, last) in &self.delegated {
            for source in (*first).max(1)..=(*last).min(self.sources) {
                let offset = register::SOURCECFG + 4 * u64::from(source - 1);
                self.registers.write(offset, DELEGATED | child);
            }
        }
        if let Some([machine, os]) = self.imsics {
            self.point_at_imsics(machine, os);
        }
    }

    /// AIA, 4.9.1 and 4.9.2: the page number of the first file, and the address bits for hart and
    /// group numbers.
    fn point_at_imsics(&self, machine: ImsicLayout, os: ImsicLayout) {
        let spread = |layout: ImsicLayout| {
            let group_shift = layout.group_shift.saturating_sub(24);
            layout.hart_bits << 12
                | layout.group_bits << 16
                | layout.guest_bits << 20
                | group_shift << 24
        };
        let page = |layout: ImsicLayout| halves(layout.base >> 12);
        let (low, high) = page(machine);
        self.registers.write(register::MMSIADDRCFG, low);
        let high = high & 0xfff | spread(machine);
        self.registers.write(register::MMSIADDRCFGH, high);
        let (low, high) = page(os);
        self.registers.write(register::SMSIADDRCFG, low);
        // This register has only the page number and the guest bits in the specification, which
        // takes the other fields from the registers above. QEMU takes all fields from here; other
        // APLICs ignore the reserved ones.
        let high = high & 0xfff | spread(os);
        self.registers.write(register::SMSIADDRCFGH, high);
    }
}

#[allow(clippy::cast_possible_truncation, reason = "it splits the value")]
fn halves(value: u64) -> (u32, u32) {
    (value as u32, (value >> 32) as u32)
}

/// Disables all sources of a domain, including those that it gets later.
fn disable_all(registers: &impl Registers<u32>, sources: u32) {
    for word in 0..=u64::from(sources / 32) {
        registers.write(register::CLRIE + 4 * word, u32::MAX);
    }
}

/// The OS's domain.
#[derive(Debug)]
pub struct Domain<R> {
    registers: R,
    sources: u32,
    /// Offsets of the interrupt delivery controls in use; empty if IMSICs deliver.
    delivery: ArrayVec<u64, MAX_HARTS>,
}

impl<R: Registers<u32>> Domain<R> {
    /// The domain in `described`, with its registers.
    pub fn new(registers: R, described: &Aplic) -> Self {
        let controls = (described.harts.iter())
            .map(|hart| register::IDC + u64::from(*hart) * register::IDC_STRIDE);
        Domain {
            registers,
            sources: described.sources,
            delivery: if described.msi_parent.is_some() {
                ArrayVec::new()
            } else {
                controls.collect()
            },
        }
    }

    /// Makes a source pending. The APLIC ignores this for an inactive source (AIA, 4.5.6).
    pub fn raise(&self, source: u32) {
        self.registers.write(register::SETIPNUM, source);
    }

    /// The pending bits, a word for each 32 sources (AIA, 4.5.4).
    pub fn pending(&self) -> impl Iterator<Item = u32> {
        (0..=u64::from(self.sources / 32))
            .map(|word| self.registers.read(register::SETIP + 4 * word))
    }

    /// Shuts the domain: interrupts stay pending from now on. Returns the old DOMAINCFG.
    pub fn shut(&self) -> u32 {
        let domain = self.registers.read(register::DOMAINCFG);
        let mode = domain & !INTERRUPT_ENABLE;
        self.registers.write(register::DOMAINCFG, mode);
        // A read waits until the write has taken effect.
        self.registers.read(register::DOMAINCFG);
        domain
    }

    /// Returns whether a GENMSI message of a hart is not yet sent. A shut domain still sends it.
    pub fn is_sending(&self) -> bool {
        self.registers.read(register::GENMSI) & BUSY != 0
    }

    /// Restores DOMAINCFG after [`shut`](Self::shut).
    pub fn reopen(&self, domain: u32) {
        self.registers.write(register::DOMAINCFG, domain);
    }

    /// As [`capture`](Keeper::capture), for a shut domain: `held` is DOMAINCFG from before.
    pub fn capture_as(&self, held: Option<u32>) -> impl Iterator<Item = u32> {
        self.offsets().map(move |offset| match held {
            Some(domain) if offset == register::DOMAINCFG => domain,
            _ => self.registers.read(offset),
        })
    }

    /// Makes these sources pending, and enables the domain's interrupts if `state` has them
    /// enabled. The last step after [`put_back`](Self::put_back).
    pub fn let_out<S: AsRef<[u32]>>(&self, state: &State<S>, pending: &[u32]) {
        for (word, bits) in (0..=u64::from(self.sources / 32)).zip(pending) {
            self.registers.write(register::SETIP + 4 * word, *bits);
        }
        self.registers
            .write(register::DOMAINCFG, self.domain(Some(state)));
    }

    /// DOMAINCFG in `state`. Without a state, the register's current value.
    pub fn domain<S: AsRef<[u32]>>(&self, state: Option<&State<S>>) -> u32 {
        let kept = state.and_then(|state| state.words().last().copied());
        kept.unwrap_or_else(|| self.registers.read(register::DOMAINCFG))
    }

    /// Restores the state, but keeps the domain shut. A message that was sent before the hart's
    /// file is restored would be lost with the file's old contents.
    ///
    /// The delivery mode comes first: a later change of the mode destroys targets (AIA, 4.5.16).
    /// Enables can only be added (4.5.9), and a reset leaves them unspecified (4.6).
    pub fn put_back<S: AsRef<[u32]>>(&self, state: &State<S>) {
        let Some((domain, words)) = state.words().split_last() else {
            return;
        };
        let mode = domain & !INTERRUPT_ENABLE;
        self.registers.write(register::DOMAINCFG, mode);
        disable_all(&self.registers, self.sources);
        for (offset, word) in self.offsets().zip(words) {
            self.registers.write(offset, *word);
        }
    }
}

impl<R: Registers<u32>> Keeper for Domain<R> {
    type Word = u32;
    const TAG: u32 = u32::from_le_bytes(*b"APLC");
    const VERSION: u16 = 1;

    fn registers(&self) -> &impl Registers<u32> {
        &self.registers
    }

    /// A source's mode comes before its target, the domain's enable last. Pending bits are not
    /// included: an OS suspends its devices before a save, and a cut keeps pending bits separately.
    fn offsets(&self) -> impl Iterator<Item = u64> {
        let sources = u64::from(self.sources);
        let per_source = move |base| (0..sources).map(move |source| base + 4 * source);
        let enables = (0..=sources / 32).map(|word| register::SETIE + 4 * word);
        let delivery = self.delivery.iter().flat_map(|control| {
            [
                control + register::ITHRESHOLD,
                control + register::IDELIVERY,
            ]
        });
        per_source(register::SOURCECFG)
            .chain(per_source(register::TARGET))
            .chain(enables)
            .chain(delivery)
            .chain([register::DOMAINCFG])
    }

    fn restore<S: AsRef<[u32]>>(&self, state: &State<S>) {
        self.put_back(state);
        self.let_out(state, &[]);
    }
}

#[cfg(test)]
mod tests;
