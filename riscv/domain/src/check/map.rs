//! Addresses of two domains.

use poorwill_devicetree::Span;
use poorwill_memory::PhysRange;

use super::scene::{Scene, pairs};
use super::unfenced::Unfenced;

/// Names each range that two domains may access, even if both may only read it.
pub(super) fn overlaps(scene: &Scene<'_>, tell: &mut dyn FnMut(Unfenced)) {
    for (domain, other) in pairs(&scene.partition.domains) {
        let mut before: Option<PhysRange> = None;
        let mut report = |range: PhysRange| {
            tell(Unfenced::Overlap {
                domain: domain.name,
                other: other.name,
                start: range.start,
                end: range.end,
            });
        };
        let theirs = other.spans();
        let theirs = || (theirs.iter()).flat_map(|span| scene.kept.open_parts(*span));
        for span in scene.kept.spans(domain) {
            for range in theirs().filter_map(|their| common(&span, &their)) {
                match &mut before {
                    Some(before) if before.end == range.start => before.end = range.end,
                    _ => before.replace(range).into_iter().for_each(&mut report),
                }
            }
        }
        before.into_iter().for_each(report);
    }
}

fn common(one: &Span, other: &Span) -> Option<PhysRange> {
    let start = one.range.start.max(other.range.start);
    let end = one.range.end.min(other.range.end);
    (start < end).then_some(PhysRange { start, end })
}
