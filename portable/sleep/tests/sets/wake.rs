//! A set wakes, with nothing going wrong.

use poorwill_memory::PAGE_BYTES;
use poorwill_sleep::{ColdBoot, NoWake, Outcome};
use poorwill_store::NoImage;

use crate::machine::{Boots, Machine, NAMES, PAGES, disk, has_set, is_asleep, state};

/// The fields of a line that wakes a domain: its name, bytes, ms of the load, and us.
fn fields(line: &str) -> (&str, u64, u64, u64) {
    let rest = line.strip_prefix("wake domain=").unwrap();
    let words: Vec<&str> = rest.split(' ').collect();
    let [name, "mode=persist", bytes, load_ms, us] = words[..] else {
        panic!("{line}");
    };
    let number = |word: &str, key| word.strip_prefix(key).unwrap().parse().unwrap();
    (
        name,
        number(bytes, "loaded_bytes="),
        number(load_ms, "load_ms="),
        number(us, "us="),
    )
}

#[test]
fn each_domain_wakes_once_and_in_its_order() {
    for domains in 1..=8 {
        let (mut machine, mut disk) = (Machine::new(domains), disk());
        for seed in [1, 2, 3] {
            machine.run(seed);
            let slept = machine.sleep(&mut disk, seed);
            assert!(is_asleep(&slept), "{slept:?}");
            machine.run(50);
            let boot = machine.boot(&mut disk);
            assert_eq!((boot.woke, boot.continued), (Boots::Awake, 1));
            let right: Vec<_> = (0..domains)
                .map(|domain| (domain, Outcome::Wakes(state(domain, seed))))
                .collect();
            assert_eq!(boot.ends, right);
            assert!(machine.all_hold(seed));
            assert!(!has_set(&mut disk));
        }
        let boot = machine.boot(&mut disk);
        let none = ColdBoot::from(NoWake::from(NoImage::None));
        assert_eq!(boot.cold(), Some(none));
        assert!(boot.said.is_empty() && boot.continued == 0);
        assert!(machine.all_hold(3), "a cold boot loads nothing");
    }
}

/// No domain waits for the console.
#[test]
fn the_lines_come_when_all_domains_go_on() {
    let (mut machine, mut disk) = (Machine::new(8), disk());
    machine.run(1);
    machine.sleep(&mut disk, 1);
    let boot = machine.boot(&mut disk);
    assert_eq!((boot.early_lines, boot.said.len()), (0, 8));
    let mut last = 0;
    for (domain, line) in boot.said.iter().enumerate() {
        let (name, bytes, load_ms, us) = fields(line);
        let zeros = (0..PAGES[domain] - 1).filter(|index| (index + 1).is_multiple_of(7));
        let pages = PAGES[domain] - zeros.count() as u64;
        assert_eq!((name, bytes), (NAMES[domain], pages * PAGE_BYTES));
        assert!(us >= last + load_ms * 1000, "{line}");
        assert!(us < 10_000_000, "{line}");
        last = us;
    }
}

/// Ended domains do not sleep. They start cold, the ones before the first that wakes as well.
#[test]
fn a_domain_without_a_part_starts_cold() {
    let (mut machine, mut disk) = (Machine::new(4), disk());
    machine.run(1);
    let asleep = [false, true, false, true];
    let (slept, _) = machine.sleep_those(&mut disk, 1, &asleep, None, &|_| ());
    assert!(is_asleep(&slept), "{slept:?}");
    machine.run(2);
    let boot = machine.boot(&mut disk);
    let cold = Outcome::Cold(ColdBoot::NoPart);
    let wakes = |domain| Outcome::Wakes(state(domain, 1));
    // The first load comes before any domain runs.
    let right = [(1, wakes(1)), (0, cold), (2, cold), (3, wakes(3))];
    assert_eq!(boot.ends, right);
    let held: Vec<_> = (0..4).map(|domain| machine.holds(domain, 2)).collect();
    assert_eq!(held, asleep.map(|slept| !slept));
    let lines =
        ["can", "linux"].map(|name| format!("cold boot: domain {name}: no image of this domain"));
    assert_eq!(boot.said[1..3], lines);
}

#[test]
fn the_last_domain_is_returned_and_not_released() {
    let (mut machine, mut disk) = (Machine::new(3), disk());
    machine.run(1);
    let asleep = [false, false, true];
    machine.sleep_those(&mut disk, 1, &asleep, None, &|_| ());
    let boot = machine.boot(&mut disk);
    let cold = Outcome::Cold(ColdBoot::NoPart);
    let last = (2, Outcome::Wakes(state(2, 1)));
    assert_eq!(boot.ends, [(0, cold), (1, cold), last]);
}

#[test]
fn a_set_of_other_domains_does_not_wake() {
    let (mut machine, mut disk) = (Machine::new(3), disk());
    machine.run(1);
    machine.sleep_those(&mut disk, 1, &[false, false, true], None, &|_| ());
    let mut other = Machine::new(2);
    other.run(5);
    let boot = other.boot(&mut disk);
    let reason = boot.cold().unwrap().to_string();
    assert_eq!(reason, "the set is of other domains");
    assert!(other.all_hold(5) && !has_set(&mut disk));
}
