//! Sets with damaged parts: no domain runs with memory that was not verified.

use poorwill_medium::fake::FakeMedium;
use poorwill_memory::PAGE_BYTES;
use poorwill_sleep::{ColdBoot, NoWake, Outcome};
use poorwill_store::{DiscardReason, Failure, NoImage, SlotState};
use proptest::prelude::*;

use crate::machine::{
    Boot, Boots, Machine, NAMES, PAGES, disk, has_set, is_asleep, on_area, parts, state,
};

/// What is damaged in a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    Header,
    State,
    /// The last piece of its pages.
    Piece,
}

impl Damage {
    /// It is found before a page is loaded.
    fn is_early(self) -> bool {
        self != Damage::Piece
    }
}

/// The failure that a domain's damaged piece leads to.
fn failure(domain: usize) -> Failure {
    // An image of 300 pages has at least 257 saved ones.
    Failure::DamagedPiece(u64::from(PAGES[domain] == 300))
}

/// Damages parts of the committed set.
fn spoil(disk: &mut FakeMedium, damages: &[Option<Damage>]) {
    let parts = parts(disk);
    for (part, damage) in parts.iter().zip(damages) {
        let (Some(part), Some(damage)) = (part, damage) else {
            continue;
        };
        match damage {
            Damage::Header => disk.flip(part.start + 33, 2),
            Damage::State => disk.flip(part.start + PAGE_BYTES + 9, 2),
            Damage::Piece => disk.flip(part.end - 9, 2),
        }
    }
}

/// For each domain whether it sleeps, of which one does, and what is damaged in its part.
fn sets() -> impl Strategy<Value = (Vec<bool>, Vec<Option<Damage>>)> {
    let damage = prop::sample::select(&[Damage::Header, Damage::State, Damage::Piece][..]);
    let damage = prop_oneof![3 => Just(None), 2 => damage.prop_map(Some)];
    (1_usize..=8, any::<prop::sample::Index>()).prop_flat_map(move |(domains, sleeper)| {
        let asleep = prop::collection::vec(prop::bool::weighted(0.8), domains);
        let asleep = asleep.prop_map(move |mut asleep| {
            asleep[sleeper.index(domains)] = true;
            asleep
        });
        (asleep, prop::collection::vec(damage.clone(), domains))
    })
}

/// What a domain of a set that wakes must come to.
fn is_right(outcome: Outcome<u64>, domain: usize, asleep: bool, damage: Option<Damage>) -> bool {
    match (asleep, damage) {
        (false, _) => outcome == Outcome::Cold(ColdBoot::NoPart),
        (true, None) => outcome == Outcome::Wakes(state(domain, 1)),
        (true, Some(Damage::Piece)) => outcome == Outcome::Ended(failure(domain)),
        (true, Some(_)) => {
            matches!(outcome, Outcome::Cold(ColdBoot::NoWake(NoWake::Refused(_))))
        }
    }
}

/// The line of a domain.
fn line_of(domain: usize, outcome: Outcome<u64>) -> String {
    let name = NAMES[domain];
    match outcome {
        Outcome::Wakes(_) => format!("wake domain={name} mode=persist "),
        Outcome::Cold(reason) => format!("cold boot: domain {name}: {reason}"),
        Outcome::Ended(failure) => {
            format!("domain {name} ends: the image could not be loaded: {failure}")
        }
    }
}

/// The failures of parts in the record of the last set.
fn recorded(disk: &mut FakeMedium) -> Vec<Option<Failure>> {
    on_area(disk, |area| {
        let records = area.slots().iter().filter_map(|slot| slot.record());
        let record = records.max_by_key(|record| record.generation).unwrap();
        record.parts().iter().map(|part| part.failure).collect()
    })
    .unwrap()
}

fn last_state(disk: &mut FakeMedium) -> SlotState {
    on_area(disk, |area| area.slots()[0].record().unwrap().state).unwrap()
}

/// A power-on that finds nothing to wake: for no reason, or because a wake of the whole set failed.
fn boots_cold(machine: &mut Machine, disk: &mut FakeMedium, whole: Option<Failure>) -> Boot {
    machine.run(9);
    let boot = machine.boot(disk);
    let reason = whole.map_or(NoImage::None.into(), NoWake::LastWakeFailed);
    assert_eq!(boot.cold(), Some(reason.into()));
    assert!(boot.ends.is_empty() && machine.all_hold(9));
    boot
}

/// The next power-ons: one names the domains that failed, and the others are silent.
fn name_once(machine: &mut Machine, disk: &mut FakeMedium, failed: &[usize]) {
    for is_named in [true, false] {
        let boot = boots_cold(machine, disk, None);
        let failed = if is_named { failed } else { &[] };
        let reason = |domain| ColdBoot::from(NoWake::LastWakeFailed(failure(domain)));
        let lines = failed
            .iter()
            .map(|domain| line_of(*domain, Outcome::Cold(reason(*domain))));
        assert_eq!(boot.said, lines.collect::<Vec<_>>());
        let Boots::Cold(start) = boot.woke else {
            unreachable!("it boots cold");
        };
        for domain in 0..machine.domains() {
            let own = match failed.contains(&domain) {
                true => reason(domain),
                false => start.reason(),
            };
            assert_eq!(start.of(domain), own);
        }
    }
}

/// A wake whose first part was whole.
fn check_awake(machine: &Machine, boot: &Boot, asleep: &[bool], damages: &[Option<Damage>]) {
    assert_eq!((boot.woke, boot.continued), (Boots::Awake, 1));
    let first = asleep.iter().position(|asleep| *asleep).unwrap();
    let mut order: Vec<_> = (0..asleep.len())
        .filter(|domain| *domain != first)
        .collect();
    // The last domain is returned.
    let is_last = first + 1 == asleep.len();
    order.insert(if is_last { order.len() } else { 0 }, first);
    let found: Vec<_> = boot.ends.iter().map(|(domain, _)| *domain).collect();
    assert_eq!(found, order);
    for (domain, outcome) in &boot.ends {
        let (domain, outcome) = (*domain, *outcome);
        let (asleep, damage) = (asleep[domain], damages[domain]);
        assert!(is_right(outcome, domain, asleep, damage), "{outcome:?}");
        match outcome {
            Outcome::Wakes(_) => assert!(machine.holds(domain, 1)),
            Outcome::Cold(_) => assert!(machine.holds(domain, 2)),
            Outcome::Ended(_) => {}
        }
        let line = line_of(domain, outcome);
        assert!(
            boot.said.iter().any(|said| said.starts_with(&line)),
            "{line}"
        );
    }
    assert_eq!((boot.early_lines, boot.said.len()), (0, asleep.len()));
}

fn wake_damaged(asleep: &[bool], damages: &[Option<Damage>]) {
    let (mut machine, mut disk) = (Machine::new(asleep.len()), disk());
    machine.run(1);
    let (slept, _) = machine.sleep_those(&mut disk, 1, asleep, None, &|_| ());
    assert!(is_asleep(&slept), "{slept:?}");
    spoil(&mut disk, damages);
    machine.run(2);
    let boot = machine.boot(&mut disk);
    assert!(!has_set(&mut disk), "it wakes once at most");
    let first = asleep.iter().position(|asleep| *asleep).unwrap();
    match damages[first] {
        Some(damage) if damage.is_early() => {
            let reason = boot.cold();
            assert!(matches!(reason, Some(ColdBoot::NoWake(NoWake::Refused(_)))));
            assert!(boot.ends.is_empty() && machine.all_hold(2));
            let refused = SlotState::Discarded(DiscardReason::Refused);
            assert_eq!(last_state(&mut disk), refused);
        }
        Some(_) => {
            assert_eq!(boot.woke, Boots::Reset(failure(first)));
            assert!(boot.ends.is_empty() && boot.continued == 0);
            let mut others = (0..asleep.len()).filter(|domain| *domain != first);
            assert!(others.all(|domain| machine.holds(domain, 2)));
            assert!(
                boots_cold(&mut machine, &mut disk, Some(failure(first)))
                    .said
                    .is_empty()
            );
        }
        None => {
            check_awake(&machine, &boot, asleep, damages);
            let ended = |domain: usize| matches!(boot.end(domain), Some(Outcome::Ended(_)));
            let sleepers = (0..asleep.len()).filter(|domain| asleep[*domain]);
            let failures = sleepers.map(|domain| ended(domain).then(|| failure(domain)));
            assert_eq!(recorded(&mut disk), failures.collect::<Vec<_>>());
            let failed: Vec<_> = (0..asleep.len()).filter(|domain| ended(*domain)).collect();
            return name_once(&mut machine, &mut disk, &failed);
        }
    }
    name_once(&mut machine, &mut disk, &[]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn no_domain_runs_unverified((asleep, damages) in sets()) {
        wake_damaged(&asleep, &damages);
    }
}

/// A failure is named only at the next power-on: a set of a later sleep wakes.
#[test]
fn an_old_failure_does_not_cost_a_newer_set() {
    let (mut machine, mut disk) = (Machine::new(3), disk());
    machine.run(1);
    machine.sleep(&mut disk, 1);
    spoil(&mut disk, &[None, Some(Damage::Piece), None]);
    machine.run(2);
    let boot = machine.boot(&mut disk);
    assert_eq!(boot.end(1), Some(Outcome::Ended(failure(1))));
    machine.run(3);
    // The ended domain does not sleep.
    let (slept, _) = machine.sleep_those(&mut disk, 3, &[true, false, true], None, &|_| ());
    assert!(is_asleep(&slept), "{slept:?}");
    machine.run(4);
    let boot = machine.boot(&mut disk);
    assert_eq!(boot.end(1), Some(Outcome::Cold(ColdBoot::NoPart)));
    assert!(boot.wakes(0) && boot.wakes(2));
    name_once(&mut machine, &mut disk, &[]);
}
