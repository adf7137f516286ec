use super::target::{Limit, Target, Value, value};
use crate::domains::Domains;
use crate::domains::figures::{ANSWER, FIRST_FRAME};
use crate::mean::Mean;

/// Jumpstart's own bounds (docs/domains.md): it compares its wakes with a cold boot.
pub(super) fn targets(domains: &Domains) -> [Target; 3] {
    let of = |what: &str, limit, ratio: Option<Mean>| {
        let value = |ratio: Mean| Value {
            interval: Some(ratio.interval),
            ..value("two domains", ratio.mean, limit)
        };
        Target {
            what: what.into(),
            limit,
            values: ratio.map(value).into_iter().collect(),
        }
    };
    [
        of(
            "The machine's cold boot / its wake from powered RAM, to the critical guest's first frame",
            Limit::AtLeast(40.0),
            domains.gain(FIRST_FRAME),
        ),
        of(
            "The machine's cold boot / its wake from powered RAM, to redis's first answer",
            Limit::AtLeast(23.0),
            domains.gain(ANSWER),
        ),
        of(
            "Linux's wake from powered RAM in a domain / alone, to redis's first answer",
            Limit::AtMost(1.1),
            domains.beside(),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;
    use crate::domains::figures::sample;

    #[test]
    fn domains_are_judged_by_their_means() {
        let met = targets(&sample()).map(|target| target.verdict());
        assert_eq!(met, [Verdict::Met; 3]);
        let slow = Domains {
            alone_ms: vec![100.0],
            ..sample()
        };
        let [_, _, beside] = targets(&slow);
        assert_eq!(beside.verdict(), Verdict::Missed);
        assert_eq!(targets(&Domains::default())[0].verdict(), Verdict::Missed);
    }
}
