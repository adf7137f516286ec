//! The interrupt controllers that all harts share, and the OS's state of them.

use arrayvec::ArrayVec;
use poorwill_devicetree::{Interrupts, MAX_APLICS, MAX_PLICS};

use crate::aplic::{Domain, Root};
use crate::{Keeper, Plic, Registers, State, WrongLength};

/// Which section of a machine's state holds a controller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionKey {
    /// The kind of controller.
    pub owner: u32,
    /// Which one of that kind.
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

/// The controllers of a machine.
#[derive(Debug)]
pub struct Controllers<R> {
    plics: ArrayVec<Plic<R>, MAX_PLICS>,
    roots: ArrayVec<Root<R>, MAX_APLICS>,
    aplics: ArrayVec<Domain<R>, MAX_APLICS>,
}

/// What the OS has programmed into them, found to be as long as it is to be.
#[derive(Clone, Debug, Default)]
pub struct ControllerState<'a> {
    plics: ArrayVec<Option<State<&'a [u32]>>, MAX_PLICS>,
    aplics: ArrayVec<Option<State<&'a [u32]>>, MAX_APLICS>,
}

/// What the OS had each of its APLIC domains do before they were [shut](Controllers::shut).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShutDomains(ArrayVec<u32, MAX_APLICS>);

impl<R: Registers<u32>> Controllers<R> {
    /// Owner and version of each kind of section of their state.
    pub const SECTIONS: [(u32, u16); 2] = [
        (Plic::<R>::TAG, Plic::<R>::VERSION),
        (Domain::<R>::TAG, Domain::<R>::VERSION),
    ];

    /// Those that are `described`, each behind the `registers` at its address.
    pub fn new(described: &Interrupts, registers: impl Fn(u64) -> R) -> Self {
        let plics = described.plics.iter();
        // Without a domain of the OS there is nobody to hand sources to.
        let has_os = !described.os_aplics.is_empty();
        let roots = described.machine_aplics.iter().filter(|_| has_os);
        let domains = described.os_aplics.iter();
        let imsics = described.machine_imsic.zip(described.os_imsic);
        let imsics: Option<[_; 2]> = imsics.map(Into::into);
        Controllers {
            plics: plics
                .map(|plic| Plic::new(registers(plic.base), plic))
                .collect(),
            roots: roots
                .map(|root| Root::new(registers(root.base), root, imsics))
                .collect(),
            aplics: domains
                .map(|domain| Domain::new(registers(domain.base), domain))
                .collect(),
        }
    }

    /// What the OS finds at a power-on.
    pub fn start(&self) {
        self.plics.iter().for_each(Plic::start);
        self.roots.iter().for_each(Root::start);
    }

    /// Makes a source of the OS's first APLIC domain pending that no device drives. One
    /// that the OS does not use is inactive, and stays as it is.
    pub fn raise(&self, source: u32) {
        if let Some(aplic) = self.aplics.first() {
            aplic.raise(source);
        }
    }

    /// Has no APLIC let an interrupt out any more: none sends a message, but for one that a hart
    /// has [asked for](Self::are_sending) before.
    pub fn shut(&self) -> ShutDomains {
        ShutDomains(self.aplics.iter().map(Domain::shut).collect())
    }

    /// Whether a message that a hart has asked an APLIC for is still to be sent.
    pub fn are_sending(&self) -> bool {
        self.aplics.iter().any(Domain::is_sending)
    }

    /// Has the APLICs go on as they did before they were shut.
    pub fn reopen(&self, shut: &ShutDomains) {
        for (aplic, domain) in self.aplics.iter().zip(&shut.0) {
            aplic.reopen(*domain);
        }
    }

    /// Captures the OS's state: `write` is called for each section, with its words. That of
    /// domains that are `shut` is as it was before.
    ///
    /// # Errors
    ///
    /// That of `write`, which is then not called again.
    pub fn capture<E>(
        &self,
        shut: Option<&ShutDomains>,
        mut write: impl FnMut(SectionKey, &mut dyn Iterator<Item = u32>) -> Result<(), E>,
    ) -> Result<(), E> {
        for (number, plic) in (0..).zip(&self.plics) {
            write(SectionKey::of(plic, number), &mut plic.capture())?;
        }
        for (number, aplic) in (0..).zip(&self.aplics) {
            let held = shut.and_then(|shut| shut.0.get(usize::from(number)));
            let mut words = aplic.capture_as(held.copied());
            write(SectionKey::of(aplic, number), &mut words)?;
        }
        Ok(())
    }

    /// Captures which sources are pending at the moment, where these are not just what devices
    /// drive: `write` is called for each section.
    ///
    /// # Errors
    ///
    /// That of `write`, which is then not called again.
    pub fn capture_pending<E>(
        &self,
        mut write: impl FnMut(SectionKey, &[u32]) -> Result<(), E>,
    ) -> Result<(), E> {
        for (number, aplic) in (0..).zip(&self.aplics) {
            let words: ArrayVec<u32, PENDING_WORDS> = aplic.pending().take(PENDING_WORDS).collect();
            write(pending_key(number), &words)?;
        }
        Ok(())
    }

    /// Checks a state against this machine. `take` has the words of a section, or
    /// `None` where there is no such section. Nothing is put back yet.
    ///
    /// # Errors
    ///
    /// That of `take`; of `refuse`, for words that are more or fewer than the
    /// controller keeps.
    pub fn check<'a, E>(
        &self,
        mut take: impl FnMut(SectionKey) -> Result<Option<&'a [u32]>, E>,
        refuse: impl Fn(SectionKey, WrongLength) -> E,
    ) -> Result<ControllerState<'a>, E> {
        let mut state = ControllerState::default();
        for (number, plic) in (0..).zip(&self.plics) {
            let words = check_one(plic, number, &mut take, &refuse)?;
            state.plics.push(words);
        }
        for (number, aplic) in (0..).zip(&self.aplics) {
            let words = check_one(aplic, number, &mut take, &refuse)?;
            state.aplics.push(words);
        }
        Ok(state)
    }

    /// What a state has the APLICs do, once they are [opened](Self::reopen).
    pub fn domains(&self, state: &ControllerState<'_>) -> ShutDomains {
        let domains = self.aplics.iter().zip(&state.aplics);
        ShutDomains(
            domains
                .map(|(aplic, words)| aplic.domain(words.as_ref()))
                .collect(),
        )
    }

    /// Puts the state back, but no APLIC lets an interrupt out before [`let_out`](Self::let_out)
    /// or [`reopen`](Self::reopen). A controller without a section stays as it is.
    pub fn put_back(&self, state: &ControllerState<'_>) {
        for (plic, words) in self.plics.iter().zip(&state.plics) {
            if let Some(words) = words {
                plic.restore(words);
            }
        }
        for (aplic, words) in self.aplics.iter().zip(&state.aplics) {
            if let Some(words) = words {
                aplic.put_back(words);
            }
        }
    }

    /// Has the APLICs interrupt again, once the harts can take that: `pending` has the words
    /// of a section of [`capture_pending`](Self::capture_pending), or none.
    pub fn let_out<'a>(
        &self,
        state: &ControllerState<'_>,
        mut pending: impl FnMut(SectionKey) -> Option<&'a [u32]>,
    ) {
        for (number, (aplic, words)) in (0..).zip(self.aplics.iter().zip(&state.aplics)) {
            if let Some(words) = words {
                aplic.let_out(words, pending(pending_key(number)).unwrap_or_default());
            }
        }
    }
}

/// Most words of pending bits that a domain has: those of 1023 sources.
const PENDING_WORDS: usize = 32;

/// The section of an APLIC's pending sources.
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
