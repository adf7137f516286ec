//! The plan for a weak hart, whose lower mode runs translated code of the OS.

use arrayvec::ArrayVec;
use poorwill_memory::PhysRange;

use super::Pmp;
use super::entry::{Access, Entry, MAX_ENTRIES};
use super::plan::{Draft, PlanError, PmpPlan};
use super::ranges::{MAX_PLANNED, Ranges, TooManyRanges};

/// What translated code reaches beside the OS's memory. All other addresses are closed.
#[derive(Clone, Copy, Debug)]
pub struct TranslatedCode {
    /// The OS's text, a claim of the OS: where this is the OS's memory, translated code only reads it.
    pub text: PhysRange,
    /// The page that it reads and writes.
    pub page: PhysRange,
    /// It reads and executes this naturally aligned power of two, which is not the OS's memory.
    pub code: PhysRange,
    /// It reads the double word here.
    pub mtime: u64,
}

/// Ascending ranges with their access.
type Pieces = ArrayVec<(PhysRange, Access), MAX_PLANNED>;

impl TranslatedCode {
    /// The OS's memory with its text, and the page. With `joins`, the code's addresses are added: an
    /// earlier entry decides about these.
    fn pieces(&self, memory: &Ranges, joins: bool) -> Result<Pieces, TooManyRanges> {
        let mut pieces = Pieces::new();
        for PhysRange { start, end } in memory.iter() {
            let first = self.text.start.clamp(start, end);
            let last = self.text.end.clamp(first, end);
            for (start, end, access) in [
                (start, first, Access::ReadWrite),
                (first, last, Access::Read),
                (last, end, Access::ReadWrite),
            ] {
                let piece = (PhysRange { start, end }, access);
                pieces.try_push(piece).map_err(|_| TooManyRanges)?;
            }
        }
        let code = joins.then_some(self.code);
        for range in code.into_iter().chain([self.page]) {
            let piece = (range, Access::ReadWrite);
            pieces.try_push(piece).map_err(|_| TooManyRanges)?;
        }
        pieces.retain(|(range, _)| range.length() > 0);
        pieces.sort_unstable_by_key(|(range, _)| range.start);
        join(&mut pieces);
        Ok(pieces)
    }

    fn draft(&self, pieces: &Pieces, by_tops: bool) -> Draft {
        let mut draft = Draft::default();
        let time = PhysRange::new(self.mtime, MTIME_BYTES);
        draft.push(Entry::napot(self.code, Access::ReadExecute));
        draft.push(Entry::napot(time, Access::Read));
        for (range, access) in pieces {
            match by_tops {
                true => draft.top(*range, *access),
                false => draft.cover_range(*range, *access),
            }
        }
        draft
    }
}

const MTIME_BYTES: u64 = size_of::<u64>() as u64;

/// Joins ranges that touch and have the same access.
fn join(pieces: &mut Pieces) {
    let mut count = 0;
    for place in 0..pieces.len() {
        let (range, access) = pieces[place];
        match pieces[..count].last_mut() {
            Some((last, of_last)) if last.end == range.start && *of_last == access => {
                last.end = range.end;
            }
            _ => {
                pieces[count] = (range, access);
                count += 1;
            }
        }
    }
    pieces.truncate(count);
}

impl PmpPlan {
    /// The plan for a weak hart, whose lower mode runs translated code of an OS with this memory.
    ///
    /// # Errors
    ///
    /// [`PlanError`].
    pub fn of_translated_code(
        memory: impl Iterator<Item = PhysRange>,
        reach: &TranslatedCode,
        pmp: Pmp,
    ) -> Result<Self, PlanError> {
        let memory = Ranges::union(memory)?;
        let mut best = Draft::default();
        for joins in [false, true] {
            let pieces = reach.pieces(&memory, joins)?;
            for by_tops in [false, true] {
                let draft = reach.draft(&pieces, by_tops);
                if best.needed == 0 || draft.needed < best.needed {
                    best = draft;
                }
            }
        }
        if best.needed > MAX_ENTRIES {
            return Err(PlanError::Entries {
                needed: best.needed,
                there: pmp.entries,
            });
        }
        let plan = PmpPlan {
            entries: best.entries,
            // The double word is the smallest range.
            unit_bits: MTIME_BYTES.ilog2(),
        };
        plan.fits(pmp)?;
        Ok(plan)
    }
}
