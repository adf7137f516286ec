//! APLIC (RISC-V Advanced Interrupt Architecture 1.0, AIA, chapter 4).
//!
//! Machine mode's [`Root`] domain delegates all sources to the OS's [`Domain`].

use arrayvec::ArrayVec;
use poorwill_devicetree::{Aplic, ImsicLayout, MAX_HARTS};

use crate::{Keeper, Registers, State};

/// Register offsets (AIA, section 4.5, and for IDC structures 4.8.1).
pub(crate) mod register {
    pub(crate) const DOMAINCFG: u64 = 0;
    /// Of source 1; there is no source 0.
    pub(crate) const SOURCECFG: u64 = 0x4;
    pub(super) const MMSIADDRCFG: u64 = 0x1bc0;
    pub(super) const MMSIADDRCFGH: u64 = 0x1bc4;
    pub(super) const SMSIADDRCFG: u64 = 0x1bc8;
    pub(super) const SMSIADDRCFGH: u64 = 0x1bcc;
    /// Pending bits (4.5.4), of sources 0 to 31.
    pub(crate) const SETIP: u64 = 0x1c00;
    pub(crate) const SETIPNUM: u64 = 0x1cdc;
    /// The inputs, as they are now (4.5.10).
    pub(crate) const IN_CLRIP: u64 = 0x1d00;
    pub(crate) const CLRIPNUM: u64 = 0x1ddc;
    pub(super) const SETIE: u64 = 0x1e00;
    pub(crate) const SETIENUM: u64 = 0x1edc;
    pub(super) const CLRIE: u64 = 0x1f00;
    /// A message of a hart's own (4.5.15).
    pub(super) const GENMSI: u64 = 0x3000;
    /// Of source 1.
    pub(crate) const TARGET: u64 = 0x3004;
    pub(super) const IDC: u64 = 0x4000;
    pub(super) const IDC_STRIDE: u64 = 32;
    pub(super) const IDELIVERY: u64 = 0;
    pub(super) const ITHRESHOLD: u64 = 8;
}

/// DOMAINCFG: the domain's interrupts reach harts (AIA, 4.5.1).
pub(crate) const INTERRUPT_ENABLE: u32 = 1 << 8;

/// GENMSI: the message that was asked for is still to be sent (AIA, 4.5.15).
const BUSY: u32 = 1 << 12;

/// SOURCECFG: delegated to the child domain in the low bits (AIA, 4.5.2).
const DELEGATED: u32 = 1 << 10;

/// Machine mode's domain, which has every source after a reset.
#[derive(Debug)]
pub struct Root<R> {
    registers: R,
    sources: u32,
    /// Number of the child domain, first and last source.
    delegated: ArrayVec<(u32, u32, u32), 4>,
    /// Machine mode's and the OS's, where IMSICs deliver.
    imsics: Option<[ImsicLayout; 2]>,
}

impl<R: Registers<u32>> Root<R> {
    /// The root domain that `described` says lies behind `registers`. `imsics` are
    /// machine mode's and the OS's files, where harts have both.
    pub fn new(registers: R, described: &Aplic, imsics: Option<[ImsicLayout; 2]>) -> Self {
        Root {
            registers,
            sources: described.sources,
            delegated: described.delegated.clone(),
            imsics,
        }
    }

    /// Delegates the sources to the OS's domain, and programs the addresses of the IMSICs, which
    /// all domains share.
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

    /// AIA, 4.9.1 and 4.9.2: the page number of the first file, and how hart
    /// and group numbers spread over the address.
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
        // Besides the page number the specification has only the guest bits here, and takes the
        // rest from the registers above. QEMU takes all fields from here; elsewhere the others are
        // reserved and ignored.
        let high = high & 0xfff | spread(os);
        self.registers.write(register::SMSIADDRCFGH, high);
    }
}

/// The low and the high half.
#[allow(clippy::cast_possible_truncation, reason = "the halves are meant")]
fn halves(value: u64) -> (u32, u32) {
    (value as u32, (value >> 32) as u32)
}

/// Disables all sources of a domain, also those that it gets later.
fn disable_all(registers: &impl Registers<u32>, sources: u32) {
    for word in 0..=u64::from(sources / 32) {
        registers.write(register::CLRIE + 4 * word, u32::MAX);
    }
}

/// The domain that the OS uses.
#[derive(Debug)]
pub struct Domain<R> {
    registers: R,
    sources: u32,
    /// Where the interrupt delivery controls in use lie; none where IMSICs deliver.
    delivery: ArrayVec<u64, MAX_HARTS>,
}

impl<R: Registers<u32>> Domain<R> {
    /// The domain that `described` says lies behind `registers`.
    pub fn new(registers: R, described: &Aplic) -> Self {
        let controls = (described.harts.iter())
            .map(|hart| register::IDC + u64::from(*hart) * register::IDC_STRIDE);
        Domain {
            registers,
            sources: described.sources,
            delivery: if described.sends_msi {
                ArrayVec::new()
            } else {
                controls.collect()
            },
        }
    }

    /// Makes a source pending. The APLIC ignores it for one that is inactive
    /// (AIA, 4.5.6).
    pub fn raise(&self, source: u32) {
        self.registers.write(register::SETIPNUM, source);
    }

    /// Which sources are pending: a word for each 32 of them (AIA, 4.5.4).
    pub fn pending(&self) -> impl Iterator<Item = u32> {
        (0..=u64::from(self.sources / 32))
            .map(|word| self.registers.read(register::SETIP + 4 * word))
    }

    /// Lets no interrupt out any more: what comes from now on stays pending. Returns what
    /// DOMAINCFG held.
    pub fn shut(&self) -> u32 {
        let domain = self.registers.read(register::DOMAINCFG);
        let mode = domain & !INTERRUPT_ENABLE;
        self.registers.write(register::DOMAINCFG, mode);
        // It has taken effect once the register is read.
        self.registers.read(register::DOMAINCFG);
        domain
    }

    /// Whether a message that a hart has asked for by GENMSI is still to be sent. A domain
    /// that is shut sends it all the same.
    pub fn is_sending(&self) -> bool {
        self.registers.read(register::GENMSI) & BUSY != 0
    }

    /// Lets interrupts out again, where DOMAINCFG held that before it was
    /// [shut](Self::shut).
    pub fn reopen(&self, domain: u32) {
        self.registers.write(register::DOMAINCFG, domain);
    }

    /// As [`capture`](Keeper::capture) of a domain that is shut: DOMAINCFG is as it was
    /// before, where `held` has it.
    pub fn capture_as(&self, held: Option<u32>) -> impl Iterator<Item = u32> {
        self.offsets().map(move |offset| match held {
            Some(domain) if offset == register::DOMAINCFG => domain,
            _ => self.registers.read(offset),
        })
    }

    /// Makes those sources pending, and lets the domain's interrupts out if `state` has
    /// them so: what a domain is to do that was [put back](Self::put_back).
    pub fn let_out<S: AsRef<[u32]>>(&self, state: &State<S>, pending: &[u32]) {
        for (word, bits) in (0..=u64::from(self.sources / 32)).zip(pending) {
            self.registers.write(register::SETIP + 4 * word, *bits);
        }
        self.registers
            .write(register::DOMAINCFG, self.domain(Some(state)));
    }

    /// What DOMAINCFG is to hold by `state`; what it holds where there is none.
    pub fn domain<S: AsRef<[u32]>>(&self, state: Option<&State<S>>) -> u32 {
        let kept = state.and_then(|state| state.words().last().copied());
        kept.unwrap_or_else(|| self.registers.read(register::DOMAINCFG))
    }

    /// Restores the state, but lets no interrupt out. One that went out as a message before
    /// its hart's file is restored would be lost with what the file holds until then.
    ///
    /// The delivery mode comes first: a target is lost when the mode changes behind it (AIA,
    /// 4.5.16). Enables can only be added (4.5.9), and a reset leaves any (4.6).
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

    /// Order: a source's mode before its target, the domain's enable last. Pending bits are not
    /// in it: an image is of a machine whose devices are suspended, and a cut keeps them apart.
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
