//! The interrupt controllers that all harts share, and the OS's state in them.

use arrayvec::ArrayVec;
use poorwill_devicetree::{Interrupts, MAX_APLICS, MAX_PLICS};

use crate::aplic::{Domain, Root};
use crate::{Keeper, Plic, Registers, State, WrongLength};

/// Identifies a controller's section in a machine's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionKey {
    /// The kind of controller.
    pub owner: u32,
    /// Index among the controllers of that kind.
    pub number: u16,
    /// Version of the section.
    pub version: u16,
}

impl SectionKey {
    fn of<K: Keeper>(_: &K, number: u16) -> Self {
        SectionKey {
            owner: K::TAG,
            number,
            version: K::VERSION,
        }
    }
}

/// The controllers of a machine. Each has an owner, whose OS programs it.
#[derive(Debug)]
pub struct Controllers<R> {
    plics: ArrayVec<(u8, Plic<R>), MAX_PLICS>,
    roots: ArrayVec<Root<R>, MAX_APLICS>,
    aplics: ArrayVec<(u8, Domain<R>), MAX_APLICS>,
}

/// The controllers of one owner, numbered from 0.
#[derive(Debug)]
pub struct OwnControllers<'c, R> {
    all: &'c Controllers<R>,
    owner: u8,
}

/// The OS's state in the controllers, with checked lengths.
#[derive(Clone, Debug, Default)]
pub struct ControllerState<'a> {
    plics: ArrayVec<Option<State<&'a [u32]>>, MAX_PLICS>,
    aplics: ArrayVec<Option<State<&'a [u32]>>, MAX_APLICS>,
    /// Pending bits of each APLIC; empty if the state has no such section.
    pending: ArrayVec<&'a [u32], MAX_APLICS>,
}

/// DOMAINCFG of the OS's APLIC domains from before they were [shut](Controllers::shut).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShutDomains(ArrayVec<u32, MAX_APLICS>);

impl<R: Registers<u32>> Controllers<R> {
    /// Owner and version of each kind of section of their state.
    pub const SECTIONS: [(u32, u16); 2] = [
        (Plic::<R>::TAG, Plic::<R>::VERSION),
        (Domain::<R>::TAG, Domain::<R>::VERSION),
    ];

    /// The controllers in `described`. `registers` gives a controller's registers by address, and
    /// `owner` the number of its owner.
    pub fn new(
        described: &Interrupts,
        registers: impl Fn(u64) -> R,
        owner: impl Fn(u64) -> u8,
    ) -> Self {
        let plics = described.plics.iter();
        // Without a domain of the OS, sources cannot be delegated.
        let has_os = !described.os_aplics.is_empty();
        let roots = described.machine_aplics.iter().filter(|_| has_os);
        let domains = described.os_aplics.iter();
        Controllers {
            plics: plics
                .map(|plic| (owner(plic.base), Plic::new(registers(plic.base), plic)))
                .collect(),
            roots: roots
                .map(|root| Root::new(registers(root.base), root))
                .collect(),
            aplics: domains
                .map(|domain| {
                    let controller = Domain::new(registers(domain.base), domain);
                    (owner(domain.base), controller)
                })
                .collect(),
        }
    }

    /// The controllers of an owner.
    pub fn of(&self, owner: u8) -> OwnControllers<'_, R> {
        OwnControllers { all: self, owner }
    }

    /// Sets the controllers up for the OS at a power-on.
    pub fn start(&self) {
        self.plics.iter().for_each(|(_, plic)| plic.start());
        self.roots.iter().for_each(Root::start);
    }

    /// Makes a source of the OS's first APLIC domain pending that no device drives. A source that
    /// the OS does not use is inactive and stays unchanged.
    pub fn raise(&self, source: u32) {
        if let Some((_, aplic)) = self.aplics.first() {
            aplic.raise(source);
        }
    }
}

impl<R: Registers<u32>> OwnControllers<'_, R> {
    fn plics(&self) -> impl Iterator<Item = &Plic<R>> {
        let own = (self.all.plics.iter()).filter(|(owner, _)| *owner == self.owner);
        own.map(|(_, plic)| plic)
    }

    fn aplics(&self) -> impl Iterator<Item = &Domain<R>> {
        let own = (self.all.aplics.iter()).filter(|(owner, _)| *owner == self.owner);
        own.map(|(_, aplic)| aplic)
    }

    /// Shuts all APLICs: they send no more messages, except those that a hart has
    /// [requested](Self::are_sending) before.
    pub fn shut(&self) -> ShutDomains {
        ShutDomains(self.aplics().map(Domain::shut).collect())
    }

    /// Returns whether a message that a hart has requested from an APLIC is not yet sent.
    pub fn are_sending(&self) -> bool {
        self.aplics().any(Domain::is_sending)
    }

    /// Reopens the APLICs as they were before they were shut.
    pub fn reopen(&self, shut: &ShutDomains) {
        for (aplic, domain) in self.aplics().zip(&shut.0) {
            aplic.reopen(*domain);
        }
    }

    /// Captures the OS's state. Calls `write` with the words of each section. `shut` has the values
    /// of DOMAINCFG from before the domains were shut.
    ///
    /// # Errors
    ///
    /// The error of `write`, which is then not called again.
    pub fn capture<E>(
        &self,
        shut: Option<&ShutDomains>,
        mut write: impl FnMut(SectionKey, &mut dyn Iterator<Item = u32>) -> Result<(), E>,
    ) -> Result<(), E> {
        for (number, plic) in (0..).zip(self.plics()) {
            write(SectionKey::of(plic, number), &mut plic.capture())?;
        }
        for (number, aplic) in (0..).zip(self.aplics()) {
            let held = shut.and_then(|shut| shut.0.get(usize::from(number)));
            let mut words = aplic.capture_as(held.copied());
            write(SectionKey::of(aplic, number), &mut words)?;
        }
        Ok(())
    }

    /// Captures the pending bits of each APLIC. Calls `write` for each section.
    ///
    /// # Errors
    ///
    /// The error of `write`, which is then not called again.
    pub fn capture_pending<E>(
        &self,
        mut write: impl FnMut(SectionKey, &[u32]) -> Result<(), E>,
    ) -> Result<(), E> {
        for (number, aplic) in (0..).zip(self.aplics()) {
            let words: ArrayVec<u32, PENDING_WORDS> = aplic.pending().take(PENDING_WORDS).collect();
            write(pending_key(number), &words)?;
        }
        Ok(())
    }

    /// Checks a state against this machine, without restoring it. `take` returns a section's words,
    /// or `None` if the section is absent.
    ///
    /// # Errors
    ///
    /// The error of `take`; that of `refuse` if a section has the wrong number of words.
    pub fn check<'a, E>(
        &self,
        mut take: impl FnMut(SectionKey) -> Result<Option<&'a [u32]>, E>,
        refuse: impl Fn(SectionKey, WrongLength) -> E,
    ) -> Result<ControllerState<'a>, E> {
        let mut state = ControllerState::default();
        for (number, plic) in (0..).zip(self.plics()) {
            let words = check_one(plic, number, &mut take, &refuse)?;
            state.plics.push(words);
        }
        for (number, aplic) in (0..).zip(self.aplics()) {
            let words = check_one(aplic, number, &mut take, &refuse)?;
            state.aplics.push(words);
            let pending = take(pending_key(number))?;
            state.pending.push(pending.unwrap_or_default());
        }
        Ok(state)
    }

    /// DOMAINCFG of the APLICs in a state, for [`reopen`](Self::reopen).
    pub fn domains(&self, state: &ControllerState<'_>) -> ShutDomains {
        let domains = self.aplics().zip(&state.aplics);
        ShutDomains(
            domains
                .map(|(aplic, words)| aplic.domain(words.as_ref()))
                .collect(),
        )
    }

    /// Restores the state, but keeps all APLICs shut until [`let_out`](Self::let_out) or
    /// [`reopen`](Self::reopen). A controller without a section stays unchanged.
    pub fn put_back(&self, state: &ControllerState<'_>) {
        for (plic, words) in self.plics().zip(&state.plics) {
            if let Some(words) = words {
                plic.restore(words);
            }
        }
        for (aplic, words) in self.aplics().zip(&state.aplics) {
            if let Some(words) = words {
                aplic.put_back(words);
            }
        }
    }

    /// Opens the APLICs once the harts can take interrupts.
    pub fn let_out(&self, state: &ControllerState<'_>) {
        let states = state.aplics.iter().zip(&state.pending);
        for (aplic, (words, pending)) in self.aplics().zip(states) {
            if let Some(words) = words {
                aplic.let_out(words, pending);
            }
        }
    }
}

/// Maximum words of pending bits of a domain: 1023 sources.
const PENDING_WORDS: usize = 32;

/// Section of an APLIC's pending sources.
const fn pending_key(number: u16) -> SectionKey {
    SectionKey {
        owner: u32::from_le_bytes(*b"APLP"),
        number,
        version: 1,
    }
}

fn check_one<'a, E>(
    controller: &impl Keeper<Word = u32>,
    number: u16,
    take: &mut impl FnMut(SectionKey) -> Result<Option<&'a [u32]>, E>,
    refuse: &impl Fn(SectionKey, WrongLength) -> E,
) -> Result<Option<State<&'a [u32]>>, E> {
    let key = SectionKey::of(controller, number);
    let Some(words) = take(key)? else {
        return Ok(None);
    };
    let state = controller.check(words);
    state.map(Some).map_err(|length| refuse(key, length))
}

#[cfg(test)]
mod tests;
