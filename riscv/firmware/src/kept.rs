//! State that a sleep or a cut keeps and brings back.
//!
//! Each owner has one list, which [`kept!`] makes. A list is kept itself, so it may be
//! an entry of another list. Harts and PCI devices have lists of their own.

use core::borrow::Borrow;
use core::fmt::Debug;

use poorwill_drivers::ShutDomains;
use poorwill_hart::Resume;
use poorwill_image::{StateError, StateSections, StateWriter};
use poorwill_sleep::NotKept;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Owner of a section and its version.
pub(crate) type Section = (u32, u16);

/// Where state is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    /// In the image of a sleep.
    Image,
    /// In the record of a cut.
    Record,
}

/// A save, while no hart runs the OS.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Saving<'a> {
    pub(crate) store: Store,
    /// Where the OS goes on, which has asked for a sleep that is a cut.
    pub(crate) vector: Option<Resume>,
    /// DOMAINCFG of the OS's APLICs from before they were shut.
    pub(crate) shut: Option<&'a ShutDomains>,
}

/// State that is lost with the power.
pub(crate) trait Keep {
    /// Owners and versions of its sections; a list has those of an image.
    const SECTIONS: &'static [Section];

    /// Its state in a store. The default is for a store without it.
    type State<'a>: Debug + Default;

    /// Writes its sections.
    ///
    /// # Errors
    ///
    /// [`NotKept`].
    fn save(&self, saving: &Saving<'_>, into: &mut StateWriter<'_>) -> Result<(), NotKept>;

    /// Takes its sections out, and finds that they fit this machine. Nothing is put back yet.
    ///
    /// # Errors
    ///
    /// [`StateError`].
    fn check<'a>(
        &self,
        store: Store,
        sections: &mut StateSections<'a>,
    ) -> Result<Self::State<'a>, StateError>;

    /// Puts the state back, without anything that interrupts a hart.
    fn put_back(&self, store: Store, state: &Self::State<'_>);

    /// Lets it interrupt, once each hart that goes on has its own state.
    fn let_out(&self, _store: Store, _state: &Self::State<'_>) {}
}

/// Makes an owner's list: a value that is [kept](Keep), its type and its state's. An entry is
/// a line: its stores, its name, its type and its value. Each step is taken in the list's order.
macro_rules! kept {
    (
        $(#[$doc:meta])* static $NAME:ident: $Owner:ident, $State:ident;
        $($($store:ident)|+ => $entry:ident: $Type:ty = $value:expr;)*
    ) => {
        $(#[$doc])*
        pub(crate) static $NAME: $Owner = $Owner { $($entry: $value,)* };

        pub(crate) struct $Owner { $($entry: &'static $Type,)* }

        #[derive(Debug, Default)]
        pub(crate) struct $State<'a> {
            $(pub(crate) $entry: <$Type as $crate::kept::Keep>::State<'a>,)*
        }

        const _: () = {
            use poorwill_image::{StateError, StateSections, StateWriter};
            use poorwill_sleep::NotKept;
            use $crate::kept::{Keep, Saving, Section, Store, joined, total};

            const ALL: &[&[Section]] = &[$(
                if matches!(Store::Image, $(Store::$store)|+) { <$Type>::SECTIONS } else { &[] },
            )*];

            impl Keep for $Owner {
                const SECTIONS: &'static [Section] = &joined::<{ total(ALL) }>(ALL);
                type State<'a> = $State<'a>;

                fn save(&self, by: &Saving<'_>, into: &mut StateWriter<'_>) -> Result<(), NotKept> {
                    $(if matches!(by.store, $(Store::$store)|+) {
                        Keep::save(self.$entry, by, into)?;
                    })*
                    Ok(())
                }

                fn check<'a>(
                    &self,
                    store: Store,
                    sections: &mut StateSections<'a>,
                ) -> Result<$State<'a>, StateError> {
                    let mut state = $State::default();
                    $(if matches!(store, $(Store::$store)|+) {
                        state.$entry = Keep::check(self.$entry, store, sections)?;
                    })*
                    Ok(state)
                }

                fn put_back(&self, store: Store, state: &$State<'_>) {
                    $(if matches!(store, $(Store::$store)|+) {
                        Keep::put_back(self.$entry, store, &state.$entry);
                    })*
                }

                fn let_out(&self, store: Store, state: &$State<'_>) {
                    $(if matches!(store, $(Store::$store)|+) {
                        Keep::let_out(self.$entry, store, &state.$entry);
                    })*
                }
            }
        };
    };
}

pub(crate) use kept;

/// How many sections some entries have.
pub(crate) const fn total(all: &[&[Section]]) -> usize {
    let (mut sum, mut at) = (0, 0);
    while at < all.len() {
        sum += all[at].len();
        at += 1;
    }
    sum
}

/// The sections of some entries: [`total`] of them.
pub(crate) const fn joined<const N: usize>(all: &[&[Section]]) -> [Section; N] {
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

/// State that is one value in one section.
pub(crate) trait KeepValue {
    type Value: FromBytes + IntoBytes + Immutable + KnownLayout + Debug + ?Sized + 'static;

    const SECTION: Section;

    /// The value, if the store is to have it.
    ///
    /// # Errors
    ///
    /// [`NotKept::Device`].
    fn value(&self, saving: &Saving<'_>) -> Result<Option<impl Borrow<Self::Value>>, NotKept>;

    /// Whether a store's value fits this machine.
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
