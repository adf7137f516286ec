//! How long a memory lasts under a program that wants to wear it out.
//!
//! The program writes one line at a time, and no cache is before the memory. Between two moves of the
//! levelling it keeps to a line, so each step counts its writes at once. Only wear is modelled here, and no
//! time.

use alloc::vec;
use alloc::vec::Vec;

use crate::memory::randomise::Randomiser;
use crate::memory::start_gap::{Move, StartGap};

/// How lines change their slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Levelling {
    /// Each line keeps its slot.
    None,
    /// Start-Gap moves a line by a slot in each round.
    StartGap,
    /// Start-Gap behind the static randomiser, as LightPC has it.
    Randomised,
    /// Two keys, and a frontier between them that takes the gap's place. Lines before it have places by
    /// the new key, the others by the old one. At its end the new key is the old one, and another key is
    /// drawn. A place is a line's number XOR the key, so a step exchanges two lines or none.
    TwoKeys,
}

impl Levelling {
    /// All kinds, with their names.
    pub const ALL: [(&'static str, Levelling); 4] = [
        ("none", Levelling::None),
        ("Start-Gap", Levelling::StartGap),
        ("Start-Gap, randomised", Levelling::Randomised),
        ("two keys", Levelling::TwoKeys),
    ];
}

/// What the program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// It writes the same line for ever.
    OneLine,
    /// It follows a slot: once its line has left, it writes the line that comes next. It has watched the
    /// order in which lines come, which Start-Gap never changes.
    OneSlot,
}

impl Attack {
    /// All attacks, with their names.
    pub const ALL: [(&'static str, Attack); 2] =
        [("one line", Attack::OneLine), ("one slot", Attack::OneSlot)];
}

/// A memory to wear out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Lines, a power of two.
    pub lines: u64,
    /// Writes between two moves.
    pub interval: u64,
    /// Writes that a slot endures.
    pub endurance: u64,
    /// Seed of the keys.
    pub seed: u64,
}

/// What a memory took until its first slot was worn out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// Writes of the program.
    pub writes: u64,
    /// Writes of the levelling.
    pub copies: u64,
}

impl Lifetime {
    /// The program's writes, of those that a memory takes whose slots wear alike without levelling.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    pub fn of_ideal(&self, region: &Region) -> f64 {
        self.writes as f64 / (region.lines as f64 * region.endurance as f64)
    }
}

/// Two keys and the frontier between them.
#[derive(Clone, Copy, Debug)]
struct TwoKeys {
    old: u64,
    new: u64,
    frontier: u64,
    lines: u64,
    state: u64,
}

impl TwoKeys {
    fn new(lines: u64, seed: u64) -> Self {
        let mut keys = TwoKeys {
            old: 0,
            new: 0,
            frontier: 0,
            lines,
            state: seed,
        };
        keys.old = keys.draw();
        keys.new = keys.draw();
        keys
    }

    /// The next key, by SplitMix64 (Steele et al., OOPSLA 2014). Hardware would draw a random one.
    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ self.state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) & (self.lines - 1)
    }

    /// The line that has the place of this one by the new key now.
    fn partner(&self, line: u64) -> u64 {
        line ^ self.old ^ self.new
    }

    /// The frontier has passed a pair once it has passed its lower line.
    fn slot(&self, line: u64) -> u64 {
        let is_moved = line.min(self.partner(line)) < self.frontier;
        line ^ if is_moved { self.new } else { self.old }
    }

    /// Moves the frontier over a line; the slots of two lines that it exchanges.
    fn step(&mut self) -> Option<[u64; 2]> {
        let (line, partner) = (self.frontier, self.partner(self.frontier));
        let exchanged = (line < partner).then_some([line ^ self.old, line ^ self.new]);
        self.frontier += 1;
        if self.frontier == self.lines {
            self.frontier = 0;
            self.old = self.new;
            self.new = self.draw();
        }
        exchanged
    }
}

/// The present places of all lines.
#[derive(Clone, Copy, Debug)]
enum Places {
    Fixed,
    Gap(StartGap, Option<Randomiser>),
    Keys(TwoKeys),
}

impl Places {
    fn new(levelling: Levelling, region: &Region) -> Self {
        // The interval is counted by the caller: each count is a move.
        let gap = StartGap::new(region.lines, 1);
        match levelling {
            Levelling::None => Places::Fixed,
            Levelling::StartGap => Places::Gap(gap, None),
            Levelling::Randomised => {
                Places::Gap(gap, Some(Randomiser::new(region.lines, region.seed)))
            }
            Levelling::TwoKeys => Places::Keys(TwoKeys::new(region.lines, region.seed)),
        }
    }

    fn slot(&self, line: u64) -> u64 {
        match self {
            Places::Fixed => line,
            Places::Gap(gap, randomiser) => {
                gap.slot(randomiser.map_or(line, |randomiser| randomiser.place(line)))
            }
            Places::Keys(keys) => keys.slot(line),
        }
    }

    /// The slots that a move writes.
    fn step(&mut self) -> [Option<u64>; 2] {
        match self {
            Places::Fixed => [None; 2],
            Places::Gap(gap, _) => match gap.written() {
                Some(Move { to, .. }) => [Some(to), None],
                None => [None; 2],
            },
            Places::Keys(keys) => match keys.step() {
                Some([one, other]) => [Some(one), Some(other)],
                None => [None; 2],
            },
        }
    }
}

/// A program's choice of a line.
#[derive(Clone, Debug)]
struct Program {
    attack: Attack,
    /// Lines in the order in which they come to the slot (`OneSlot`).
    order: Vec<u64>,
    turn: usize,
    /// Moves of the line since its turn came.
    moves: u32,
}

impl Program {
    /// Start-Gap brings the lines to a slot in descending order of their places. The program has watched
    /// one rotation to learn which line has which place. Under two keys it has the places of the first
    /// round, and there is nothing better to know.
    fn new(attack: Attack, places: &Places, lines: u64) -> Self {
        let mut by_place: Vec<(u64, u64)> =
            (0..lines).map(|line| (places.slot(line), line)).collect();
        by_place.sort_unstable();
        Program {
            attack,
            order: by_place.into_iter().rev().map(|(_, line)| line).collect(),
            turn: 0,
            moves: 0,
        }
    }

    /// Its line has moved, which the program notices, as its writes wait for the copy. The first line has
    /// left the slot. Each other one comes to it first, and leaves it by the next move.
    fn moved(&mut self) {
        self.moves += 1;
        if self.attack == Attack::OneSlot && (self.turn == 0 || self.moves == 2) {
            self.turn += 1;
            self.moves = 0;
        }
    }

    fn line(&self) -> u64 {
        match self.attack {
            Attack::OneLine => self.order[0],
            Attack::OneSlot => self.order[self.turn % self.order.len()],
        }
    }
}

/// Wears a region out.
#[must_use]
pub fn lifetime(levelling: Levelling, attack: Attack, region: &Region) -> Lifetime {
    let mut places = Places::new(levelling, region);
    let mut program = Program::new(attack, &places, region.lines);
    let slots = usize::try_from(region.lines + 1).unwrap_or(usize::MAX);
    let mut wear = vec![0_u64; slots];
    let mut lifetime = Lifetime {
        writes: 0,
        copies: 0,
    };
    let mut spend = |slot: u64, count: u64| {
        let worn = &mut wear[usize::try_from(slot).unwrap_or(usize::MAX)];
        let left = region.endurance - *worn;
        *worn += count.min(left);
        (count.min(left), *worn == region.endurance)
    };
    loop {
        let slot = places.slot(program.line());
        let (written, is_over) = spend(slot, region.interval);
        lifetime.writes += written;
        if is_over {
            return lifetime;
        }
        for copied in places.step().into_iter().flatten() {
            lifetime.copies += 1;
            if spend(copied, 1).1 {
                return lifetime;
            }
        }
        if places.slot(program.line()) != slot {
            program.moved();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A slot endures the writes of 24 rounds.
    const REGION: Region = Region {
        lines: 256,
        interval: 100,
        endurance: 24 * 256 * 100,
        seed: 7,
    };

    fn share(levelling: Levelling, attack: Attack) -> f64 {
        lifetime(levelling, attack, &REGION).of_ideal(&REGION)
    }

    #[test]
    fn without_levelling_one_line_wears_its_slot_alone() {
        for attack in [Attack::OneLine, Attack::OneSlot] {
            let none = lifetime(Levelling::None, attack, &REGION);
            assert_eq!((none.writes, none.copies), (REGION.endurance, 0));
        }
    }

    /// The attack that follows a slot undoes Start-Gap, randomised or not. Two keys withstand it.
    #[test]
    fn the_attack_undoes_start_gap_and_two_keys_withstand_it() {
        for levelling in [Levelling::StartGap, Levelling::Randomised] {
            let (line, slot) = (
                share(levelling, Attack::OneLine),
                share(levelling, Attack::OneSlot),
            );
            assert!(line > 0.9, "{levelling:?}: {line}");
            assert!(slot < 0.01, "{levelling:?}: {slot}");
        }
        let slot = share(Levelling::TwoKeys, Attack::OneSlot);
        assert!(slot > 0.3, "{slot}");
        assert!(share(Levelling::TwoKeys, Attack::OneLine) > 0.3);
    }

    proptest! {
        /// Exchanges carry the right contents: each line is found after each step, through several
        /// keys, and two slots a pair are written at most.
        #[test]
        fn lines_are_found_after_each_exchange(bits in 0_u32..7, seed in any::<u64>(), steps in 0_usize..400) {
            let lines = 1_u64 << bits;
            let mut keys = TwoKeys::new(lines, seed);
            let at = |value: u64| usize::try_from(value).expect("small");
            let mut slots = vec![0; at(lines)];
            for line in 0..lines {
                slots[at(keys.slot(line))] = line;
            }
            let mut exchanges = 0;
            for _ in 0..steps {
                if let Some([one, other]) = keys.step() {
                    slots.swap(at(one), at(other));
                    exchanges += 1;
                }
                for line in 0..lines {
                    prop_assert_eq!(slots[at(keys.slot(line))], line);
                }
            }
            prop_assert!(2 * exchanges <= steps + at(lines));
        }
    }
}
