//! How long wear levelling lets a memory last under attack.

use poorwill_oc_pmem::{Attack, Levelling, Region, lifetime};

/// Lines of the modelled memory, and writes between two moves (LightPC's).
const LINES: u64 = 512;
const INTERVAL: u64 = 100;

/// Seeds of random keys, of which the shortest lifetime counts.
const SEEDS: u64 = 3;

/// Endurances of a slot, in writes for each of the `lines x interval` writes of a round.
const ROUNDS: [f64; 4] = [0.5, 4.0, 24.0, 96.0];

/// What a levelling took before its first slot was worn out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lasted {
    /// The levelling.
    pub levelling: &'static str,
    /// The attack.
    pub attack: &'static str,
    /// The program's writes at each of [`rounds`], of those that all slots take together.
    pub shares: [f64; 4],
}

/// Endurances of a slot, in rounds.
#[must_use]
pub fn rounds() -> [f64; 4] {
    ROUNDS
}

/// All levellings under all attacks.
#[must_use]
pub fn lifetimes() -> Vec<Lasted> {
    of(LINES)
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small numbers"
)]
fn of(lines: u64) -> Vec<Lasted> {
    let share = |kind, how, rounds: f64, seed| {
        let region = Region {
            lines,
            interval: INTERVAL,
            endurance: (rounds * (lines * INTERVAL) as f64) as u64,
            seed,
        };
        lifetime(kind, how, &region).of_ideal(&region)
    };
    let one = |(levelling, kind), (attack, how)| Lasted {
        levelling,
        attack,
        shares: ROUNDS.map(|rounds| {
            // Keys are random. A static place only has another name.
            let seeds = if kind == Levelling::TwoKeys { SEEDS } else { 1 };
            let all = (1..=seeds).map(|seed| share(kind, how, rounds, seed));
            all.fold(f64::INFINITY, f64::min)
        }),
    };
    let all = Levelling::ALL.into_iter();
    all.flat_map(|levelling| Attack::ALL.map(|attack| one(levelling, attack)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_levelling_meets_each_attack() {
        let all = of(64);
        assert_eq!(all.len(), 8);
        let worst = |levelling: &str| {
            let own = all.iter().filter(|one| one.levelling == levelling);
            own.map(|one| one.shares[2]).fold(f64::INFINITY, f64::min)
        };
        assert!(worst("none") < 0.02 && worst("Start-Gap, randomised") < 0.05);
        assert!(worst("two keys") > 0.3, "{all:?}");
        // A slot that does not endure a round is worn out wherever its line goes.
        assert!(
            all.iter()
                .all(|one| one.attack == "one slot" || one.shares[0] < 0.05),
            "{all:?}"
        );
    }
}
