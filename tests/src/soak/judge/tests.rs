use super::*;

fn step(number: u32) -> Step {
    Step { life: 9, number }
}

fn cold_boot() -> Vec<Sign> {
    vec![Sign::ColdBoot("no image".into()), Sign::Born(0, 9)]
}

fn wake(number: u32) -> Vec<Sign> {
    vec![Sign::Loading, Sign::Woke(0), Sign::Whole(0, step(number))]
}

fn sleep(number: u32) -> Vec<Sign> {
    let asks = Sign::Asks(0, step(number));
    vec![asks, Sign::Saving, Sign::Written, Sign::Asleep]
}

/// A machine in its first life, asleep at the first step.
fn asleep() -> Judge {
    asleep_after(1, [cold_boot(), sleep(1)])
}

/// The same of a machine with this many images, after these signs.
fn asleep_after(images: usize, signs: [Vec<Sign>; 2]) -> Judge {
    let mut judge = Judge::new(images);
    judge.power_on(&signs.concat(), &End::Off).unwrap();
    assert_eq!(judge.medium(), Medium::Holds(step(1)));
    judge
}

/// Checks a machine, asleep at the first step, that wakes and sleeps three times.
fn lives_well(mut judge: Judge, wake: fn(u32) -> Vec<Sign>, sleep: fn(u32) -> Vec<Sign>) {
    for number in 1..4 {
        let signs = [wake(number), sleep(number + 1)].concat();
        judge.power_on(&signs, &End::Off).unwrap();
    }
    assert_eq!((judge.tally.whole, judge.tally.slept), (3, 4));
}

#[test]
fn a_good_life_is_good() {
    lives_well(asleep(), wake, sleep);
}

#[test]
fn every_cut_leaves_what_it_may() {
    let signs = [wake(1), sleep(2)].concat();
    let left = [
        Medium::MayHold(step(1)),
        Medium::Empty,
        Medium::Empty,
        Medium::Empty,
        Medium::Empty,
        Medium::Empty,
        Medium::MayHold(step(2)),
        Medium::Holds(step(2)),
    ];
    for (seen, &medium) in left.iter().enumerate() {
        let mut judge = asleep();
        judge.power_on(&signs[..seen], &End::Cut).unwrap();
        assert_eq!(judge.medium(), medium, "after {:?}", &signs[..seen]);
        let next = judge.power_on(&wake(2)[..2], &End::Cut);
        let may_wake = medium != Medium::Empty;
        assert_eq!(next.is_ok(), may_wake, "after {:?}", &signs[..seen]);
    }
}

#[test]
fn a_consumed_image_wakes_no_more() {
    let mut judge = asleep();
    judge.power_on(&[Sign::Loading], &End::Cut).unwrap();
    let again = judge.power_on(&wake(1), &End::Cut);
    assert_eq!(again, Err(Violation::WakeFromNothing));
}

#[test]
fn a_cut_before_any_sign_leaves_one_wake_at_most() {
    let mut judge = asleep();
    judge.power_on(&[], &End::Cut).unwrap();
    judge.power_on(&[], &End::Cut).unwrap();
    judge.power_on(&wake(1)[..1], &End::Cut).unwrap();
    judge.power_on(&wake(1)[..1], &End::Cut).unwrap_err();
}

#[test]
fn an_older_or_other_image_is_seen() {
    let mut judge = asleep();
    let signs = [wake(1), sleep(2)].concat();
    judge.power_on(&signs, &End::Off).unwrap();
    let old = judge.power_on(&wake(1), &End::Cut);
    assert_eq!(old, Err(Violation::OtherImage(step(1), Some(step(2)))));
}

#[test]
fn a_lost_image_is_seen() {
    let lost = asleep().power_on(&cold_boot(), &End::Cut);
    assert_eq!(lost, Err(Violation::ImageLost("no image".into(), step(1))));
}

#[test]
fn strange_cold_boots_are_seen() {
    let damaged = [Sign::ColdBoot("slot 0: damaged".into())];
    let seen = Judge::new(1).power_on(&damaged, &End::Cut);
    assert!(matches!(seen, Err(Violation::Reason(_))));
    let torn = [Sign::ColdBoot("no im".into())];
    Judge::new(1).power_on(&torn, &End::Cut).unwrap();
    Judge::new(1).power_on(&torn, &End::Off).unwrap_err();
    let late = [Sign::Loading, Sign::ColdBoot("no image".into())];
    let seen = asleep().power_on(&late, &End::Cut);
    assert!(matches!(seen, Err(Violation::ColdAfterLoad(_))));
}

#[test]
fn an_end_without_sleep_is_seen() {
    for end in [End::Off, End::Other("exit status: 1".into())] {
        Judge::new(1).power_on(&cold_boot(), &end).unwrap_err();
        asleep().power_on(&wake(1), &end).unwrap_err();
        asleep().power_on(&[], &end).unwrap_err();
    }
}

#[test]
fn a_life_that_comes_twice_is_seen() {
    let mut judge = Judge::new(1);
    judge.power_on(&cold_boot(), &End::Cut).unwrap();
    let again = judge.power_on(&cold_boot(), &End::Cut);
    assert_eq!(again, Err(Violation::StrangeLife(9)));
}

#[test]
fn refusals_and_failures_are_seen() {
    for sign in [
        Sign::Refused("error".into()),
        Sign::Fatal("test kernel: FAIL".into()),
        Sign::Saving,
        Sign::Asks(0, step(2)),
    ] {
        let signs = [cold_boot(), vec![sign]].concat();
        Judge::new(1).power_on(&signs, &End::Cut).unwrap_err();
    }
}

/// A cold boot of two domains.
fn cold_boots() -> Vec<Sign> {
    [cold_boot(), vec![Sign::Born(1, 9)]].concat()
}

/// The wake of two domains. The first one runs while the second one is loaded.
fn wakes(number: u32) -> Vec<Sign> {
    vec![
        Sign::Loading,
        Sign::Loaded,
        Sign::Whole(0, step(number)),
        Sign::Loading,
        Sign::Loaded,
        Sign::Woke(0),
        Sign::Woke(1),
        Sign::Whole(1, step(number)),
    ]
}

fn sleeps(number: u32) -> Vec<Sign> {
    let asks = |index| Sign::Asks(index, step(number));
    let image = [Sign::Saving, Sign::Written, Sign::Saved];
    [&[asks(0), asks(1)], &image[..], &image, &[Sign::Asleep]].concat()
}

/// A machine with two domains in their first life, asleep at the first step.
fn set_asleep() -> Judge {
    asleep_after(2, [cold_boots(), sleeps(1)])
}

/// The violation in a power-on that is cut after these signs.
fn violation(judge: &mut Judge, signs: &[Sign]) -> Violation {
    judge.power_on(signs, &End::Cut).unwrap_err()
}

#[test]
fn a_good_life_of_a_set_is_good() {
    lives_well(set_asleep(), wakes, sleeps);
}

/// From the first sign of a load on the set is consumed. The last image's save may have a commit.
#[test]
fn every_cut_of_a_set_leaves_what_it_may() {
    let signs = [wakes(1), sleeps(2)].concat();
    let committed = signs.len() - 1;
    let last_written = signs.iter().rposition(|sign| *sign == Sign::Written);
    for seen in 0..=signs.len() {
        let wanted = match seen {
            0 => Medium::MayHold(step(1)),
            _ if seen > committed => Medium::Holds(step(2)),
            _ if Some(seen) > last_written => Medium::MayHold(step(2)),
            _ => Medium::Empty,
        };
        let mut judge = set_asleep();
        judge.power_on(&signs[..seen], &End::Cut).unwrap();
        assert_eq!(judge.medium(), wanted, "after {:?}", &signs[..seen]);
        let next = judge.power_on(&[Sign::Loading], &End::Cut);
        let may_wake = wanted != Medium::Empty;
        assert_eq!(next.is_ok(), may_wake, "after {:?}", &signs[..seen]);
    }
}

#[test]
fn a_part_that_wakes_twice_is_seen() {
    // After a cut between the first part's load and the second one's.
    let signs = wakes(1);
    let mut judge = set_asleep();
    judge.power_on(&signs[..3], &End::Cut).unwrap();
    assert_eq!(violation(&mut judge, &signs), Violation::WakeFromNothing);
    // In one power-on.
    let again = [signs, vec![Sign::Whole(1, step(1))]].concat();
    let seen = violation(&mut set_asleep(), &again);
    assert_eq!(seen, Violation::WokeTwice(step(1)));
}

#[test]
fn mixed_generations_are_seen() {
    // The second domain wakes from an older set than the first one.
    let mut judge = set_asleep();
    let signs = [wakes(1), sleeps(2)].concat();
    judge.power_on(&signs, &End::Off).unwrap();
    let mut signs = wakes(2);
    signs[7] = Sign::Whole(1, step(1));
    let seen = violation(&mut judge, &signs);
    assert_eq!(seen, Violation::OtherImage(step(1), Some(step(2))));
    // It is in another life.
    let mut signs = cold_boots();
    signs[2] = Sign::Born(1, 8);
    let seen = violation(&mut Judge::new(2), &signs);
    assert_eq!(seen, Violation::StrangeLife(8));
}

#[test]
fn a_sleep_without_all_domains_is_seen() {
    let mut signs = [cold_boots(), sleeps(1)].concat();
    signs.remove(4);
    assert_eq!(violation(&mut Judge::new(2), &signs), Violation::Unasked);
}

#[test]
fn a_lost_set_or_part_is_seen() {
    let lost = violation(&mut set_asleep(), &cold_boots());
    assert_eq!(lost, Violation::ImageLost("no image".into(), step(1)));
    // One domain boots cold beside the other.
    let reason = "domain side1: no image of this domain".to_owned();
    let signs = [&wakes(1)[..6], &[Sign::ColdBoot(reason.clone())]].concat();
    let lost = violation(&mut set_asleep(), &signs);
    assert_eq!(lost, Violation::ColdAfterLoad(reason));
}

#[test]
fn a_domain_without_a_line_is_seen() {
    for index in 0..2 {
        let mut signs = [wakes(1), sleeps(2)].concat();
        signs.retain(|sign| *sign != Sign::Woke(index));
        let seen = violation(&mut set_asleep(), &signs);
        assert_eq!(seen, Violation::NoLine(index));
    }
    let twice = [wakes(1), vec![Sign::Woke(0)]].concat();
    let seen = violation(&mut set_asleep(), &twice);
    assert_eq!(seen, Violation::TwoLines(0));
    let seen = violation(&mut set_asleep(), &[Sign::Loading, Sign::Woke(2)]);
    assert_eq!(seen, Violation::NoDomain(2));
}

#[test]
fn a_set_that_ends_early_is_seen() {
    let signs = [wakes(1), sleeps(2)].concat();
    for seen in 0..signs.len() {
        let ended = set_asleep().power_on(&signs[..seen], &End::Off);
        assert!(
            matches!(ended, Err(Violation::Ended(_))),
            "{:?}",
            &signs[..seen]
        );
    }
}
