use std::process::ExitStatus;

use thiserror::Error;

use super::report::RecordReport;

/// The regular ends of the run of a machine with a power supply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The power failed, or the machine sleeps; the next power-on resumes it.
    Cut(RecordReport),
    /// The machine was switched off.
    Off,
}

/// Why the next power-on cannot resume the machine.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotCut {
    #[error("the power failed, and the machine was not cut: {0}; the next power-on is a cold boot")]
    Refused(String),
    #[error(
        "the power failed, and the hold-up ran out before machine mode took notice, or it had \
             not armed the line: the next power-on is a cold boot"
    )]
    Unnoticed,
    #[error("QEMU failed ({0})")]
    Qemu(ExitStatus),
}

impl Ending {
    /// Decides from QEMU's exit status, and from the records in the memory file before and after
    /// the run.
    ///
    /// # Errors
    ///
    /// [`NotCut`].
    pub fn of(
        status: ExitStatus,
        before: &[RecordReport],
        after: &[RecordReport],
    ) -> Result<Self, NotCut> {
        let is_gone = match status.code() {
            Some(0) => false,
            Some(poorwill_plugin::CUT) => true,
            _ => return Err(NotCut::Qemu(status)),
        };
        let open = || after.iter().filter(|record| !record.is_over());
        // An unchanged record is from an earlier run.
        let of_run = open().find(|record| !before.contains(record));
        // An earlier cut counts if the power failed again before the machine resumed it.
        let found = of_run.or(open().next().filter(|_| is_gone));
        match found {
            Some(record) if record.is_committed() => Ok(Ending::Cut(record.clone())),
            Some(record) => {
                let reason = record.reason.clone();
                Err(NotCut::Refused(reason.unwrap_or_default()))
            }
            None if is_gone => Err(NotCut::Unnoticed),
            None => Ok(Ending::Off),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::super::report::RecordState;
    use super::*;

    fn record(number: u64, state: RecordState) -> RecordReport {
        let reason = (state == RecordState::Unfinished).then(|| "hart 1 was late".to_owned());
        RecordReport {
            offset: 4096,
            number,
            state,
            reason,
            requested: None,
            harts: None,
            machine_harts: None,
            bytes: None,
            stop_ticks: None,
            after_ticks: None,
        }
    }

    fn ending(
        code: i32,
        before: &[RecordReport],
        after: &[RecordReport],
    ) -> Result<Ending, NotCut> {
        Ending::of(ExitStatus::from_raw(code << 8), before, after)
    }

    #[test]
    fn a_new_cut_is_one_however_the_power_went() {
        let before = [record(1, RecordState::Consumed)];
        for state in [RecordState::Whole, RecordState::Tagged] {
            let after = [record(2, state)];
            for code in [0, poorwill_plugin::CUT] {
                for before in [&before[..], &[]] {
                    let cut = Ok(Ending::Cut(after[0].clone()));
                    assert_eq!(ending(code, before, &after), cut);
                }
            }
        }
    }

    #[test]
    fn a_cut_of_before_is_still_one_where_nothing_has_gone_on() {
        let all = [record(2, RecordState::Whole)];
        let again = ending(poorwill_plugin::CUT, &all, &all);
        assert_eq!(again, Ok(Ending::Cut(all[0].clone())));
        // An unchanged record of another machine is ignored.
        assert_eq!(ending(0, &all, &all), Ok(Ending::Off));
    }

    #[test]
    fn a_stop_that_failed_says_why() {
        let before = [record(1, RecordState::Consumed)];
        let after = [record(2, RecordState::Unfinished)];
        for code in [0, poorwill_plugin::CUT] {
            let error = ending(code, &before, &after).unwrap_err().to_string();
            assert!(error.contains("hart 1 was late"), "{error}");
            assert!(error.contains("cold boot"), "{error}");
        }
    }

    #[test]
    fn a_machine_that_was_switched_off_is_off() {
        let consumed = [record(1, RecordState::Consumed)];
        assert_eq!(ending(0, &[], &[]), Ok(Ending::Off));
        assert_eq!(ending(0, &consumed, &consumed), Ok(Ending::Off));
        let gone_on = ending(0, &[record(1, RecordState::Whole)], &consumed);
        assert_eq!(gone_on, Ok(Ending::Off));
        let unnoticed = ending(poorwill_plugin::CUT, &consumed, &consumed);
        assert_eq!(unnoticed, Err(NotCut::Unnoticed));
        assert!(matches!(ending(1, &[], &consumed), Err(NotCut::Qemu(_))));
    }
}
