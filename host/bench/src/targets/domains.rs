use super::target::{Limit, Target, Value, value};
use crate::domains::Domains;
use crate::domains::figures::{ANSWER, FIRST_FRAME, of};
use crate::mean::Mean;
use crate::spread::median;

/// Jumpstart's own bounds (docs/domains.md): it compares its wakes with a cold boot.
pub(super) fn targets(domains: &Domains) -> [Target; 8] {
    let Domains {
        cold_boots,
        wakes,
        persist_wakes,
        alone_persist_wakes,
        linux_ms,
        alone_ms,
        ..
    } = domains;
    let persist_frames = of(persist_wakes, FIRST_FRAME);
    [
        target(
            "The machine's cold boot / its wake from powered RAM, to the critical guest's first frame",
            Limit::AtLeast(40.0),
            [&of(cold_boots, FIRST_FRAME), &of(wakes, FIRST_FRAME)],
        ),
        target(
            "The machine's cold boot / its wake from powered RAM, to redis's first answer",
            Limit::AtLeast(23.0),
            [&of(cold_boots, ANSWER), &of(wakes, ANSWER)],
        ),
        target(
            "Linux's wake from powered RAM in a domain / alone, to redis's first answer",
            Limit::AtMost(1.1),
            [linux_ms, alone_ms],
        ),
        target(
            "Redis's first answer at the machine's cold boot / the first frame in a wake with the power off",
            Limit::AtLeast(45.0),
            [&of(cold_boots, ANSWER), &persist_frames],
        ),
        target(
            "The first frame in a wake with the power off / at the machine's cold boot",
            Limit::AtMost(1.5),
            [&persist_frames, &of(cold_boots, FIRST_FRAME)],
        ),
        target(
            "The first frame / redis's first answer, in a wake with the power off",
            Limit::AtMost(0.35),
            [&persist_frames, &of(persist_wakes, ANSWER)],
        ),
        target(
            "The first frame / redis's first answer, likewise, without QEMU's own start",
            Limit::AtMost(0.35),
            [
                &of(persist_wakes, |start| {
                    Some(start.first_frame_ms? - start.began_ms?)
                }),
                &of(persist_wakes, |start| {
                    Some(start.answer_ms - start.began_ms?)
                }),
            ],
        ),
        target(
            "Linux's wake with the power off in a domain / alone, to redis's first answer",
            Limit::AtMost(1.25),
            [&of(persist_wakes, ANSWER), &of(alone_persist_wakes, ANSWER)],
        ),
    ]
}

/// A ratio of means, which has an interval. The ratio of medians is beside it.
fn target(what: &str, limit: Limit, [one, other]: [&[f64]; 2]) -> Target {
    let medians = median(one.to_vec()) / median(other.to_vec());
    let of_means = |ratio: Mean| Value {
        interval: Some(ratio.interval),
        ..value(
            &format!("two domains (of medians {medians:.2})"),
            ratio.mean,
            limit,
        )
    };
    Target {
        what: what.into(),
        limit,
        values: Mean::ratio(one, other).map(of_means).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;
    use crate::domains::figures::sample;

    #[test]
    fn domains_are_judged_by_their_means() {
        let all = targets(&sample());
        assert_eq!(all.each_ref().map(Target::verdict), [Verdict::Met; 8]);
        let frame = &all[0].values[0];
        assert!((frame.value - 80.0).abs() < 1e-9);
        assert_eq!(frame.interval, Some([60.0, 340.0 / 3.0]));
        assert_eq!(frame.case, "two domains (of medians 80.00)");
        let ratios = all.each_ref().map(|target| target.values[0].value);
        for (ratio, wanted) in ratios
            .into_iter()
            .zip([80.0, 100.0, 1.0, 70.0, 0.9375, 0.3, 0.125, 1.0])
        {
            assert!((ratio - wanted).abs() < 1e-9, "{ratio}, {wanted}");
        }
        let slow = Domains {
            alone_ms: vec![100.0],
            ..sample()
        };
        assert_eq!(targets(&slow)[2].verdict(), Verdict::Missed);
        assert_eq!(targets(&Domains::default())[0].verdict(), Verdict::Missed);
    }
}
