//! Measures Stop and Go of machines of the tiny guest.

use anyhow::Context;

use super::inputs::Inputs;
use super::machine::{Bench, Load, Subject};
use super::results::Cuts;
use super::traced::{self, Assumptions, CACHE, Measured};

/// Cuts of each machine.
const CUTS: usize = 2;

/// What is measured.
#[derive(Clone, Debug)]
pub struct CutOptions {
    /// Programs and files.
    pub inputs: Inputs,
    /// The machines.
    pub subjects: Vec<Subject>,
    /// What is assumed of the machines.
    pub assumed: Assumptions,
}

/// The machines of a whole run, or of a quick one: idle ones by harts, a busy one, and idle ones by
/// PCI functions.
#[must_use]
pub fn subjects(is_quick: bool) -> Vec<Subject> {
    let (harts, functions): (&[u32], &[u32]) = match is_quick {
        true => (&[1, 8], &[4]),
        false => (&[1, 2, 4, 8, 16, 32], &[1, 2, 4, 8, 16]),
    };
    let idle = harts.iter().map(|&harts| Subject::new(harts, Load::Idle));
    let functions = functions.iter().map(|&functions| Subject {
        functions,
        ..Subject::new(1, Load::Idle)
    });
    let mut all: Vec<_> = idle.chain(functions).collect();
    all.push(Subject::new(8, Load::Busy));
    all
}

/// Cuts each machine twice. After an error, `results` has the machines before it.
///
/// # Errors
///
/// A machine does not start, is not cut, or does not resume; or there is no such parameter.
pub fn measure(
    options: &CutOptions,
    results: &mut Option<Cuts>,
    tell: &dyn Fn(&str),
) -> anyhow::Result<()> {
    options.assumed.check()?;
    let cuts = results.insert(Cuts {
        machines: Vec::new(),
        assumed: options.assumed.clone(),
    });
    let count = options.subjects.len();
    let seconds: u32 = options
        .subjects
        .iter()
        .map(|subject| subject.seconds())
        .sum();
    tell(&format!(
        "cutting {count} machines {CUTS} times each: about {} minutes",
        seconds.div_ceil(60)
    ));
    for (number, subject) in options.subjects.iter().enumerate() {
        tell(&format!(
            "cut: machine {} of {count}, {subject}: booting",
            number + 1
        ));
        let measured = cut(options, *subject).with_context(|| format!("machine {subject}"))?;
        if let Some(worst) = measured.worst() {
            let (stop, go) = (worst.stop_ns() / 1000, worst.go.settled_ns / 1000);
            tell(&format!("cut: {subject}: Stop {stop} us, Go {go} us"));
        }
        cuts.machines.push(measured);
    }
    Ok(())
}

fn cut(options: &CutOptions, subject: Subject) -> anyhow::Result<Measured> {
    let bench = Bench::begin(&options.inputs, subject, CACHE)?;
    let cuts = (0..CUTS).map(|_| traced::cut(&bench, &options.assumed));
    Ok(Measured {
        subject,
        cuts: cuts.collect::<anyhow::Result<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_run_has_what_the_lines_need() {
        let (all, quick) = (subjects(false), subjects(true));
        assert!(quick.iter().all(|subject| {
            all.iter()
                .any(|other| (other.harts, other.load) == (subject.harts, subject.load))
        }));
        assert_eq!((all.len(), quick.len()), (12, 4));
        let names: Vec<_> = quick.iter().map(Subject::to_string).collect();
        assert_eq!(names, ["idle-1", "idle-8", "idle-1-functions-4", "busy-8"]);
    }
}
