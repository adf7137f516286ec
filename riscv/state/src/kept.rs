//! State that a sleep or a cut saves and restores.
//!
//! Each owner has one list, which [`kept!`](crate::kept!) makes. A list implements [`Keep`], so it may be an
//! entry of another list. Harts and PCI devices have lists of their own.

use core::borrow::Borrow;
use core::fmt::Debug;

use poorwill_drivers::ShutDomains;
use poorwill_image::{StateError, StateSections, StateWriter};
use poorwill_memory::EntryPoint;
use poorwill_sleep::NotKept;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Owner of a section and its version.
pub type Section = (u32, u16);

/// The place in which state is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// In the image of a sleep.
    Image,
    /// In the record of a cut.
    Record,
}

/// The facts that a save needs, while no hart runs the OS.
#[derive(Clone, Copy, Debug)]
pub struct Saving<'a> {
    /// Where the state goes.
    pub store: Store,
    /// The address at which the OS will continue, if it asked for a sleep by a cut.
    pub vector: Option<EntryPoint>,
    /// DOMAINCFG of the OS's APLICs from before they were shut.
    pub shut: Option<&'a ShutDomains>,
}

/// State that a power-off destroys.
pub trait Keep {
    /// Owners and versions of the sections. For a list: those of an image.
    const SECTIONS: &'static [Section];

    /// The checked state from a store. The default stands for a store without the state.
    type State<'a>: Debug + Default;

    /// Writes the sections.
    ///
    /// # Errors
    ///
    /// [`NotKept`].
    fn save(&self, saving: &Saving<'_>, into: &mut StateWriter<'_>) -> Result<(), NotKept>;

    /// Takes the sections out of a store, and checks that they fit this machine. Restores nothing.
    ///
    /// # Errors
    ///
    /// [`StateError`].
    fn check<'a>(
        &self,
        store: Store,
        sections: &mut StateSections<'a>,
    ) -> Result<Self::State<'a>, StateError>;

    /// Restores the state, but interrupts no hart.
    fn put_back(&self, store: Store, state: &Self::State<'_>);

    /// Lets the device interrupt, after each resumed hart has its own state.
    fn let_out(&self, _store: Store, _state: &Self::State<'_>) {}
}

/// Makes an owner's list: a type that implements [`Keep`], and the type of its state. `of` makes
/// the list of a domain from the domain's index; the machine's list has index 0. The lists of two
/// domains do not clash: each list's sections are numbered in its domain. An entry is a line: its
/// stores, its name, its type and its value. Each step runs in the list's order.
#[macro_export]
macro_rules! kept {
    (
        $(#[$doc:meta])* struct $Owner:ident of $domain:ident, $State:ident;
        $($($store:ident)|+ => $entry:ident: $Type:ty = $value:expr;)*
    ) => {
        $(#[$doc])*
        pub(crate) struct $Owner { domain: u8, $($entry: $Type,)* }

        impl $Owner {
            pub const fn of($domain: u8) -> Self {
                $Owner { domain: $domain, $($entry: $value,)* }
            }
        }

        #[derive(Debug, Default)]
        pub(crate) struct $State<'a> {
            $(pub(crate) $entry: <$Type as $crate::Keep>::State<'a>,)*
        }

        const _: () = {
            use $crate::macro_support::{NotKept, StateError, StateSections, StateWriter};
            use $crate::{Keep, Saving, Section, Store, joined, total};

            const ALL: &[&[Section]] = &[$(
                if matches!(Store::Image, $(Store::$store)|+) { <$Type>::SECTIONS } else { &[] },
            )*];

            impl Keep for $Owner {
                const SECTIONS: &'static [Section] = &joined::<{ total(ALL) }>(ALL);
                type State<'a> = $State<'a>;

                fn save(&self, by: &Saving<'_>, into: &mut StateWriter<'_>) -> Result<(), NotKept> {
                    into.in_domain(self.domain, |into| {
                        $(if matches!(by.store, $(Store::$store)|+) {
                            Keep::save(&self.$entry, by, into)?;
                        })*
                        Ok(())
                    })
                }

                fn check<'a>(
                    &self,
                    store: Store,
                    sections: &mut StateSections<'a>,
                ) -> Result<$State<'a>, StateError> {
                    sections.in_domain(self.domain, |sections| {
                        let mut state = $State::default();
                        $(if matches!(store, $(Store::$store)|+) {
                            state.$entry = Keep::check(&self.$entry, store, sections)?;
                        })*
                        Ok(state)
                    })
                }

                fn put_back(&self, store: Store, state: &$State<'_>) {
                    $(if matches!(store, $(Store::$store)|+) {
                        Keep::put_back(&self.$entry, store, &state.$entry);
                    })*
                }

                fn let_out(&self, store: Store, state: &$State<'_>) {
                    $(if matches!(store, $(Store::$store)|+) {
                        Keep::let_out(&self.$entry, store, &state.$entry);
                    })*
                }
            }
        };
    };
}

/// Sums the numbers of sections of all entries.
#[must_use]
pub const fn total(all: &[&[Section]]) -> usize {
    let (mut sum, mut at) = (0, 0);
    while at < all.len() {
        sum += all[at].len();
        at += 1;
    }
    sum
}

/// Joins the sections of all entries: [`total`] of them.
#[must_use]
pub const fn joined<const N: usize>(all: &[&[Section]]) -> [Section; N] {
    let mut joined = [(0, 0); N];
    let (mut filled, mut entry, mut at) = (0, 0, 0);
    while filled < N {
        if at < all[entry].len() {
            joined[filled] = all[entry][at];
            filled += 1;
            at += 1;
        } else {
            (entry, at) = (entry + 1, 0);
        }
    }
    joined
}

/// State that is a single value in a section of its own.
pub trait KeepValue {
    /// The type of the value.
    type Value: FromBytes + IntoBytes + Immutable + KnownLayout + Debug + ?Sized + 'static;

    /// Owner and version of the section.
    const SECTION: Section;

    /// The value; `None` if the store does not need it.
    ///
    /// # Errors
    ///
    /// [`NotKept::Device`].
    fn value(&self, saving: &Saving<'_>) -> Result<Option<impl Borrow<Self::Value>>, NotKept>;

    /// Returns whether a store's value fits this machine.
    fn fits(&self, _value: Option<&Self::Value>) -> bool {
        true
    }

    /// See [`Keep::put_back`].
    fn put_back(&self, _value: Option<&Self::Value>) {}

    /// See [`Keep::let_out`].
    fn let_out(&self, _value: Option<&Self::Value>) {}
}

impl<V: KeepValue> Keep for V {
    const SECTIONS: &'static [Section] = &[V::SECTION];

    type State<'a> = Option<&'a V::Value>;

    fn save(&self, saving: &Saving<'_>, into: &mut StateWriter<'_>) -> Result<(), NotKept> {
        let (owner, version) = V::SECTION;
        match self.value(saving)? {
            Some(value) => Ok(into.section(owner, 0, version, value.borrow())?),
            None => Ok(()),
        }
    }

    fn check<'a>(
        &self,
        _: Store,
        sections: &mut StateSections<'a>,
    ) -> Result<Self::State<'a>, StateError> {
        let value = sections.take_payload(V::SECTION, 0)?;
        let (owner, version) = V::SECTION;
        let found = value.map_or(0, size_of_val);
        let misfit = StateError::Payload {
            owner,
            version,
            found,
        };
        self.fits(value).then_some(value).ok_or(misfit)
    }

    fn put_back(&self, _: Store, state: &Self::State<'_>) {
        KeepValue::put_back(self, *state);
    }

    fn let_out(&self, _: Store, state: &Self::State<'_>) {
        KeepValue::let_out(self, *state);
    }
}
