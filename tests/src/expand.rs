//! Expands the plan's rows to trials.

use std::collections::BTreeSet;

use anyhow::{Context, bail, ensure};
use poorwill_machine::size::Bytes;
use poorwill_machine::{Interrupts, Part};

use crate::plan::{DiskKind, End, Guest, MachineKind, Plan, PowerOn, Row, Step};

/// A test: a row with one of its machines.
#[derive(Clone, Debug)]
pub struct Trial {
    /// `ROW/MACHINE/HARTS/MEMORY`.
    pub name: String,
    /// Its interrupt controllers.
    pub interrupts: Interrupts,
    /// The kind of machine.
    pub kind: MachineKind,
    /// Number of harts.
    pub harts: u32,
    /// RAM.
    pub memory: Bytes,
    /// Whether only `make test-long` runs it.
    pub is_long: bool,
    /// Kinds of its disks, in order.
    pub disks: Vec<DiskKind>,
    /// Its steps, in order.
    pub steps: Vec<Step>,
    /// The row with its other settings.
    pub row: Row,
}

/// All trials of the plan.
///
/// # Errors
///
/// A row contains an unknown name, or a contradiction.
pub fn expand(plan: &Plan) -> anyhow::Result<Vec<Trial>> {
    let mut trials = Vec::new();
    let mut names = BTreeSet::new();
    for row in &plan.rows {
        let steps = steps(row).with_context(|| format!("row {}", row.name))?;
        let mut unnamed: BTreeSet<&String> = row.often.iter().flatten().collect();
        for machine in &row.machines {
            for &harts in &row.harts {
                for memory in &row.memory {
                    let place = format!("{machine}/{harts}/{memory}");
                    let name = format!("{}/{place}", row.name);
                    ensure!(names.insert(name.clone()), "two rows make a trial {name}");
                    let is_named = unnamed.remove(&place);
                    let one = trial(plan, row, &name, machine, harts, memory, &steps);
                    trials.push(Trial {
                        is_long: row.often.is_some() && !is_named,
                        ..one.with_context(|| format!("trial {name}"))?
                    });
                }
            }
        }
        ensure!(
            unnamed.is_empty(),
            "row {}: `often` has {unnamed:?}, which is not one of its trials",
            row.name
        );
    }
    Ok(trials)
}

fn trial(
    plan: &Plan,
    row: &Row,
    name: &str,
    machine: &str,
    harts: u32,
    memory: &str,
    steps: &[Step],
) -> anyhow::Result<Trial> {
    let kind = plan
        .machines
        .get(machine)
        .with_context(|| format!("no machine {machine}"))?;
    let has_domains = row.page || !row.domains.is_empty();
    ensure!(
        kind.sockets == has_domains,
        "domains are for machines with `sockets`, and those for domains"
    );
    check_parts(kind, row, harts)?;
    let disk = |name: &String| {
        plan.disks
            .get(name)
            .cloned()
            .with_context(|| format!("no disk {name}"))
    };
    Ok(Trial {
        name: name.to_owned(),
        interrupts: if kind.aia {
            Interrupts::Aia
        } else {
            Interrupts::Plic
        },
        kind: kind.clone(),
        harts,
        memory: memory.parse()?,
        is_long: false,
        disks: row.disks.iter().map(disk).collect::<anyhow::Result<_>>()?,
        steps: steps.to_vec(),
        row: row.clone(),
    })
}

/// Checks that the machine's board has what the row and the kind of machine need.
fn check_parts(kind: &MachineKind, row: &Row, harts: u32) -> anyhow::Result<()> {
    let needs = [
        (kind.aia, Part::Aia),
        (kind.sockets, Part::Domains),
        (kind.hold_up_us.is_some(), Part::PowerSupply),
        (row.plugin || row.lasting_memory, Part::PowerSupply),
        (row.loader || row.edk2 || row.vault, Part::Flash),
        (!row.disks.is_empty(), Part::Disks),
    ];
    let needed = needs.iter().filter(|(is_needed, _)| *is_needed);
    for (_, part) in needed {
        if let Some(reason) = kind.board.lacks(*part) {
            bail!("{part:?} on {}: {reason}", kind.board.name());
        }
    }
    let most = kind.board.most_harts();
    ensure!(harts <= most, "the board has at most {most} harts");
    Ok(())
}

fn steps(row: &Row) -> anyhow::Result<Vec<Step>> {
    let power_on = |end, times| Step::PowerOn(Box::new(PowerOn::ending(end, times)));
    let steps = match (row.sleeps, row.steps.as_slice()) {
        (Some(0), []) => vec![power_on(End::Success, 1)],
        (Some(times), []) => vec![power_on(End::Sleep, times), power_on(End::Success, 1)],
        (None, [_, ..]) => row.steps.clone(),
        _ => bail!("give either sleeps or steps"),
    };
    ensure!(
        !row.prepared || begins_asleep(&steps),
        "`prepared` is for rows that begin with a sleep"
    );
    let is_lost = |step: &Step| match step {
        Step::PowerOn(on) => on.instead.is_some() && row.guest_of(on) != Guest::Kernel,
        _ => false,
    };
    ensure!(
        !steps.iter().any(is_lost),
        "`instead` is for the test kernel"
    );
    Ok(steps)
}

/// Whether the first step of a trial leaves a sleeping machine, with which other trials can begin.
fn begins_asleep(steps: &[Step]) -> bool {
    let alike = |on: &PowerOn| on.power_on == End::Sleep && on.times == 1;
    matches!(steps, [Step::PowerOn(on), _, ..] if alike(on))
}

/// Distributes `cuts` power cuts, if given, among all steps of these trials that cut the power at
/// random. Sets their `seed`, if given.
pub fn ask_for_cuts<'t>(
    trials: impl Iterator<Item = &'t mut Trial>,
    cuts: Option<u32>,
    seed: Option<u64>,
) {
    let mut asked: Vec<_> = trials
        .flat_map(|trial| &mut trial.steps)
        .filter_map(|step| match step {
            Step::Cuts { cuts, seed } => Some((cuts, seed)),
            _ => None,
        })
        .collect();
    let mut places = u32::try_from(asked.len()).unwrap_or(u32::MAX);
    let mut left = cuts;
    for (of_step, seed_of_step) in &mut asked {
        if let Some(left) = &mut left {
            **of_step = left.div_ceil(places);
            *left -= **of_step;
            places -= 1;
        }
        **seed_of_step = seed.or(**seed_of_step);
    }
}

/// Keeps only the trials with power-ons that soak, and repeats these for `wakes` wakes.
pub fn soak_wakes(trials: &mut Vec<Trial>, wakes: u32) {
    trials.retain_mut(|trial| {
        let mut soaks = false;
        for step in &mut trial.steps {
            if let Step::PowerOn(on) = step
                && let Some(part) = on.soaks
            {
                let times = (wakes / part).max(1);
                let mut rounds = on.events.iter_mut().filter(|event| event.rounds > 0);
                let own = rounds
                    .next()
                    .map_or(&mut on.times, |event| &mut event.rounds);
                *own = times;
                soaks = true;
            }
        }
        trial.is_long &= !soaks;
        soaks
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_plan;

    #[test]
    fn the_plan_is_sound() {
        let trials = expand(&load_plan().unwrap()).unwrap();
        assert!(
            trials.iter().any(|trial| trial.name == "linux/aia/2/512M"),
            "no linux/aia/2/512M"
        );
        for trial in &trials {
            let last = trial.steps.last().unwrap();
            assert!(
                matches!(last, Step::PowerOn(_) | Step::Cuts { .. }),
                "{} ends with damage that no later step checks",
                trial.name
            );
        }
    }

    #[test]
    fn cuts_are_spread() {
        let mut trials = expand(&load_plan().unwrap()).unwrap();
        ask_for_cuts(trials.iter_mut(), Some(301), Some(7));
        let all: Vec<_> = trials
            .iter()
            .flat_map(|trial| &trial.steps)
            .filter_map(|step| match step {
                Step::Cuts { cuts, seed } => Some((*cuts, *seed)),
                _ => None,
            })
            .collect();
        assert_eq!(all.iter().map(|(cuts, _)| cuts).sum::<u32>(), 301);
        let fair = 301 / u32::try_from(all.len()).unwrap();
        assert!(
            all.iter()
                .all(|&(cuts, seed)| cuts >= fair && seed == Some(7))
        );
    }

    #[test]
    fn wakes_are_soaked_on_both_interrupt_controllers() {
        let mut trials = expand(&load_plan().unwrap()).unwrap();
        soak_wakes(&mut trials, 200);
        for interrupts in [Interrupts::Aia, Interrupts::Plic] {
            let of_these = trials.iter().filter(|trial| trial.interrupts == interrupts);
            let ends: Vec<_> = of_these
                .flat_map(|trial| &trial.steps)
                .filter_map(|step| match step {
                    Step::PowerOn(on) if on.times == 200 => Some(on.power_on),
                    _ => None,
                })
                .collect();
            assert!(ends.contains(&End::Cut), "{interrupts:?}: {ends:?}");
            assert!(ends.contains(&End::Success), "{interrupts:?}: {ends:?}");
        }
    }

    #[test]
    fn a_board_has_what_its_rows_need() {
        let complaint = |aia: bool, harts: u32, more: &str| {
            let text = format!(
                "[machines.m]\nboard = 'sifive_u'\naia = {aia}\n[disks.d]\n[[rows]]\nname = 'r'\n\
                 machines = ['m']\nharts = [{harts}]\nmemory = ['1G']\nguest = 'kernel'\n\
                 sleeps = 0\n{more}"
            );
            let plan: Plan = toml::from_str(&text).unwrap();
            expand(&plan).err().map(|error| format!("{error:#}"))
        };
        assert_eq!(complaint(false, 4, ""), None);
        let refused = [
            (true, 1, "", "Aia on sifive_u: its interrupt controller"),
            (false, 5, "", "at most 4 harts"),
            (false, 1, "disks = ['d']", "Disks on sifive_u"),
            (false, 1, "vault = true", "Flash on sifive_u"),
            (false, 1, "plugin = true", "PowerSupply on sifive_u"),
        ];
        for (aia, harts, more, reason) in refused {
            let found = complaint(aia, harts, more).unwrap_or_default();
            assert!(found.contains(reason), "{more}: {found:?}");
        }
    }

    #[test]
    fn contradictions_are_found() {
        let text = |rows: &str| format!("[machines.m]\naia = true\n[disks]\n{rows}");
        let row = "[[rows]]\nname = 'r'\nharts = [1]\nmemory = ['1G']\nguest = 'kernel'\n";
        let complaint = |rows: &str| {
            let plan: Plan = toml::from_str(&text(rows)).unwrap();
            format!("{:#}", expand(&plan).unwrap_err())
        };
        assert!(complaint(&format!("{row}machines = ['m']")).contains("sleeps or steps"));
        assert!(complaint(&format!("{row}machines = ['x']\nsleeps = 1")).contains("no machine x"));
        let many = row.replace("[1]", "[513]") + "machines = ['m']\nsleeps = 1";
        assert!(complaint(&many).contains("at most 512 harts"));
        let domains =
            format!("{row}machines = ['m']\nsleeps = 1\ndomains = [{{ hostile = 'idle' }}]");
        assert!(complaint(&domains).contains("machines with `sockets`"));
        let instead = "steps = [{ power_on = 'off', guest = 'u-boot', instead = 'case=alive' }]";
        let lost = format!("{row}machines = ['m']\n{instead}");
        assert!(complaint(&lost).contains("for the test kernel"));
        let early = "prepared = true\nsteps = [{ power_on = 'success' }]";
        let early = format!("{row}machines = ['m']\n{early}");
        assert!(complaint(&early).contains("begin with a sleep"));
        let twice = format!("{row}machines = ['m']\nsleeps = 1\n");
        assert!(complaint(&format!("{twice}{twice}")).contains("two rows"));
        let typo = toml::from_str::<Plan>(&text(&format!("{row}machines = ['m']\nsleep = 1")));
        assert!(typo.unwrap_err().to_string().contains("sleep"));
    }
}
