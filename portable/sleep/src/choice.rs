//! Chooses the way of a sleep.

use poorwill_store::{Configuration, Purpose, SleepMode};

/// How a machine sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// By a cut: everything stays in persistent RAM.
    Cut,
    /// By a save at once, for this purpose.
    Save(Purpose),
    /// By retaining, without an end or for at most this number of ms.
    Rest(Option<u64>),
}

/// The way that a configuration asks for. A machine that cannot be cut, or whose cut was refused,
/// is saved instead.
pub(crate) fn choose(configuration: &Configuration, can_be_cut: bool) -> Choice {
    match (configuration.next_snapshot, configuration.mode) {
        (Some(name), _) => Choice::Save(Purpose::Snapshot(name)),
        (None, None | Some(SleepMode::Cut)) if can_be_cut => Choice::Cut,
        (None, _) => match configuration.stage_after_ms() {
            Some(0) => Choice::Save(Purpose::Once),
            rest => Choice::Rest(rest),
        },
    }
}

#[cfg(test)]
mod tests {
    use poorwill_store::Name;
    use proptest::prelude::*;

    use super::*;

    fn configurations() -> impl Strategy<Value = Configuration> {
        let mode = prop::option::of(prop::sample::select(&SleepMode::ALL[..]));
        (mode, 1u64..10, 0u64..10, any::<bool>()).prop_map(
            |(mode, stage_delay_ms, break_even_ms, is_snapshot)| Configuration {
                mode,
                stage_delay_ms,
                break_even_ms,
                next_snapshot: is_snapshot.then_some(Name::NONE),
                ..Configuration::default()
            },
        )
    }

    proptest! {
        /// The machine sleeps in a mode that is chosen by name, and takes a snapshot likewise.
        #[test]
        fn what_was_chosen_by_name_counts(configuration in configurations(), can_be_cut: bool) {
            let choice = choose(&configuration, can_be_cut);
            let may_be_cut = matches!(configuration.mode, None | Some(SleepMode::Cut))
                && configuration.next_snapshot.is_none();
            prop_assert_eq!(choice == Choice::Cut, can_be_cut && may_be_cut);
            if let Some(name) = configuration.next_snapshot {
                prop_assert_eq!(choice, Choice::Save(Purpose::Snapshot(name)));
            } else if let Some(SleepMode::Retain | SleepMode::Staged | SleepMode::Auto) =
                configuration.mode
            {
                prop_assert_eq!(choice, Choice::Rest(configuration.stage_after_ms()));
            } else if choice != Choice::Cut {
                prop_assert_eq!(choice, Choice::Save(Purpose::Once));
            }
        }

        /// Whether the machine can be cut changes nothing else.
        #[test]
        fn without_persistent_ram_nothing_is_cut(configuration in configurations()) {
            let without = choose(&configuration, false);
            let with = choose(&configuration, true);
            prop_assert!(without != Choice::Cut);
            prop_assert!(with == without
                || with == Choice::Cut && without == Choice::Save(Purpose::Once));
        }
    }
}
