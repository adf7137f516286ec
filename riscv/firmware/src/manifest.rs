//! The manifest in the firmware's file. Before an update, tools read from it which images the
//! firmware would wake.

use poorwill_devicetree::{IDENTITY_RULE, MAX_HARTS, PLACEMENT_RULE};
use poorwill_image::PIECE_PAGES;
use poorwill_manifest::{
    CUT_SECTION, CutRecord, DataRange, Formats, MANIFEST_BYTES, MemoryLayout, Parts, SectionVersion,
};
use poorwill_memory::{PAGE_BYTES, PhysRange};
use poorwill_sleep::PARTITIONS_SECTIONS;
use poorwill_sleep::cut::ToldStatus;

use crate::cut;
use crate::domain::kept::OfDomain;
use crate::entry::stack;
use crate::executor::EXECUTOR_BYTES;
use crate::hart::memory;
use poorwill_state::{Keep, Section, joined, sleeper, total};

/// No code in the firmware reads it; the linker script keeps it in the file.
#[unsafe(link_section = ".manifest")]
#[used]
static MANIFEST: [u8; MANIFEST_BYTES] = Parts {
    release: [
        number(env!("CARGO_PKG_VERSION_MAJOR")) as u16,
        number(env!("CARGO_PKG_VERSION_MINOR")) as u16,
        number(env!("CARGO_PKG_VERSION_PATCH")) as u16,
    ],
    formats: Formats::BUILT,
    layout: MemoryLayout {
        loaded: PhysRange {
            start: number(env!("FIRMWARE_BASE")),
            end: number(env!("FIRMWARE_BASE")) + number(env!("FIRMWARE_SIZE")),
        },
        placement_rule: PLACEMENT_RULE,
        identity_rule: IDENTITY_RULE,
        data: DATA,
        cut: CUT,
        executor_pages: EXECUTOR_BYTES / PAGE_BYTES,
    },
    sections: &SECTIONS,
}
.encode();

/// The state sections that a wake reads.
const SECTIONS: [SectionVersion; total(ALL)] = {
    let sections = joined::<{ total(ALL) }>(ALL);
    let mut versions = [SectionVersion {
        owner: 0,
        version: 0,
    }; total(ALL)];
    let mut at = 0;
    while at < sections.len() {
        let (owner, version) = sections[at];
        versions[at] = SectionVersion { owner, version };
        at += 1;
    }
    versions
};

/// The sections of the sleeping hart, of the machine, of its domain, and of the disk.
const ALL: &[&[Section]] = &[
    &sleeper::SECTIONS,
    <cut::Machine as Keep>::SECTIONS,
    <OfDomain as Keep>::SECTIONS,
    &PARTITIONS_SECTIONS,
];

const fn number(digits: &str) -> u64 {
    match u64::from_str_radix(digits, 10) {
        Ok(number) => number,
        Err(_) => panic!("a version consists of numbers"),
    }
}

/// The size of the second range (platform/mod.rs). The terms that grow with memory are those of an
/// image's workspace: its page map, and the digests of its pieces.
const DATA: DataRange = DataRange {
    fixed_pages: memory::pages_needed(0) + stack::pages_needed(0) as u64,
    hart_pages: (stack::pages_needed(1) - stack::pages_needed(0)) as u64,
    pages_per_page: [MAP_TERM, DIGEST_TERM, 0, 0],
};

/// The additional size for cuts.
const CUT: CutRecord = CutRecord {
    fixed_bytes: cut::BYTES.0 as u64,
    hart_bytes: cut::BYTES.1 as u64,
};

/// Checks that the record's pages follow this rule, and that `kept` has the section that marks an
/// image of a machine with a power-fail line.
const _: () = {
    let mut harts = 1;
    while harts <= MAX_HARTS {
        let taken = cut::pages_with(harts) as u64;
        assert!(
            CUT.pages(harts as u64) == taken,
            "the pages for cuts follow another rule"
        );
        harts += 1;
    }
    assert!(
        ToldStatus::SECTION.0 == CUT_SECTION,
        "the section of the cut status has another name"
    );
};

/// Pages of memory that one page of the page map covers.
const MAP_TERM: u64 = 8 * PAGE_BYTES;

/// Pages of memory whose digests fill a page.
const DIGEST_TERM: u64 = PIECE_PAGES * PAGE_BYTES / DIGEST_BYTES;

/// Bytes of a piece's digest.
const DIGEST_BYTES: u64 = 16;

/// Checks the rule against the pages that the firmware takes, for memory of 4 KiB to 16 TiB.
const _: () = {
    let mut shift = 0;
    while shift <= 32 {
        let mut pages = (1 << shift) - 1;
        while pages <= (1 << shift) + 1 {
            let rule = DATA.pages(pages, 3);
            let taken = memory::pages_needed(pages) + stack::pages_needed(3) as u64;
            assert!(rule == taken, "the second range follows another rule");
            pages += 1;
        }
        shift += 1;
    }
};
