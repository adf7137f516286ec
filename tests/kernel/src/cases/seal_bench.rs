//! A sleep, its wake, and the cipher alone over the same memory, for `poorwill bench seal`.
//!
//! On the command line: `fill_mib=N` MiB of memory filled page by page, to be saved and loaded. The
//! cipher then runs over N pieces of 1 MiB.

use core::sync::atomic::{AtomicU64, Ordering};

use poorwill_image::{CipherWork, PIECE_PAGES, Salt, SealingKey};
use poorwill_memory::{MemoryMap, OsMemory, PhysRange};

use crate::{
    arch::{
        self,
        sleep::{self, Context, Outcome},
    },
    check,
    machine::Machine,
    memory::{Memory, PAGE},
    read_csr, say, workers,
};

/// The number of the only sleep, for the rule that memory is filled by.
const SLEEP: usize = 1;

pub(super) fn run(machine: &Machine, hart: usize) {
    let mib = machine.number("fill_mib", 64);
    let memory = Memory::new(machine, mib);
    memory.fill(SLEEP);
    match sleep::suspend(0, &mut Context::default()) {
        Outcome::Returned(answer) => {
            check!(false, "SUSP returned {:?}", answer.into_result());
            return;
        }
        Outcome::Woke(_) => say!("woke"),
    }
    let wrong = memory.verify(SLEEP);
    check!(wrong == 0, "{wrong} pages are not as they were");
    let map = MemoryMap::new(&[largest(&memory)], &[]).expect("one range of memory");
    // SAFETY: memory under test is mapped where it is, holds no Rust object,
    // and `memory` is not used any more.
    let os = unsafe { OsMemory::new(map) };
    measure(machine, hart, &os, mib as u64);
}

/// The largest stretch of the memory under test.
fn largest(memory: &Memory) -> PhysRange {
    let range = memory.ranges().iter().max_by_key(|range| range.len());
    let range = range.expect("some memory is free");
    PhysRange::new(range.start as u64, range.len() as u64)
}

/// Opens `pieces` pieces of memory on all harts, as fast as that goes.
fn measure(machine: &Machine, hart: usize, os: &OsMemory, pieces: u64) {
    let first = os.ranges()[0];
    let room = os.pages() / PIECE_PAGES;
    check!(pieces <= room, "{pieces} pieces fit into {first:x?}");
    let work = CipherWork::new(&SealingKey::new([7; 32]), 1, Salt([5; 8]));
    let (next, sum) = (AtomicU64::new(0), AtomicU64::new(0));
    let job = || loop {
        let piece = next.fetch_add(1, Ordering::Relaxed);
        if piece >= pieces {
            return;
        }
        let pages = (piece * PIECE_PAGES..).map_while(|index| os.at(index));
        let tag = work.open_piece(piece, os, pages);
        // Taken note of, so that no part of the work can be left out.
        sum.fetch_add(u64::from(tag.to_bytes()[0]), Ordering::Relaxed);
    };
    let (mut ticks, mut instructions) = (0, 0);
    workers::with_all(machine, hart, &job, |run| {
        let (time, count) = (arch::time(), read_csr!("instret"));
        run();
        ticks = arch::time() - time;
        instructions = read_csr!("instret") - count;
    });
    check!(
        next.load(Ordering::Relaxed) >= pieces,
        "every piece was taken"
    );
    say!(
        "cipher pieces={pieces} page_bytes={PAGE} us={} instructions={instructions} sum={}",
        ticks * 1_000_000 / machine.timebase,
        sum.load(Ordering::Relaxed)
    );
}
