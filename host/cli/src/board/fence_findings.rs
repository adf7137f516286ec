//! Findings about the firmware's memory, and about its fence.

use poorwill_domain::pmp::PlanError;
use poorwill_memory::PhysRange;

use super::fences::{Divided, Fences, Plan, Undivided};
use super::read::Board;
use crate::doctor::{Finding, Health};

const MISSING: Health = Health::Missing;
const LACKING: Health = Health::Lacking;

pub(super) fn range_text(range: &PhysRange) -> String {
    format!("{:#x} to {:#x}", range.start, range.end)
}

pub(super) fn ranges_text(ranges: &[PhysRange]) -> String {
    let texts: Vec<_> = ranges.iter().map(range_text).collect();
    texts.join(", ")
}

pub(super) fn fences(board: &Board) -> Vec<Finding> {
    const WHAT: &str = "firmware";
    if board.machine.has_domains {
        let detail = "the tree describes domains, each with a plan of its own";
        let cure = "run `poorwill domains check` for their fences and PMP entries";
        return vec![Finding::bad("fences", LACKING, detail, cure)];
    }
    // Another finding says what is missing.
    let Some(fences) = &board.fences else {
        return Vec::new();
    };
    let own = range_text(&fences.firmware);
    match &fences.divided {
        Ok(divided) => {
            let mut findings = vec![own_memory(board, fences, divided)];
            findings.push(Finding::good(
                "OS's memory",
                ranges_text(divided.os.ranges()),
            ));
            findings.extend(closed(board, fences, divided));
            findings.extend([16, 8].map(|entries| pmp(divided, entries)));
            findings
        }
        Err(Undivided::Outside) => {
            let cure = "name an address in memory: --firmware-at";
            let detail = format!("{own} is not in memory");
            vec![Finding::bad(WHAT, MISSING, detail, cure)]
        }
        Err(Undivided::Divide(error)) => {
            let cure = "give the machine more memory, or reserve less";
            let detail = format!("{own}; {error}");
            vec![Finding::bad(WHAT, MISSING, detail, cure)]
        }
    }
}

fn own_memory(board: &Board, fences: &Fences, divided: &Divided) -> Finding {
    let ranges = ranges_text(&[fences.firmware, divided.data]);
    let detail = format!("{ranges}; {}", board.assumed.source());
    match fences.linked_for {
        None => Finding::good("firmware", detail),
        Some(address) => {
            let start = fences.firmware.start;
            let detail = format!("{detail}; it is linked for {address:#x}, outside of memory");
            let cure = format!(
                "build it with FIRMWARE_BASE = {start:#x} (`riscv/firmware/firmware.ld`), \
                 or name another address: --firmware-at"
            );
            Finding::bad("firmware", MISSING, detail, &cure)
        }
    }
}

fn closed(board: &Board, fences: &Fences, divided: &Divided) -> Vec<Finding> {
    const WHAT: &str = "closed";
    let mut findings = vec![Finding::good(
        WHAT,
        format!("memory {}", ranges_text(&[fences.firmware, divided.data])),
    )];
    let mut add = |name: &str, ranges: &[PhysRange]| {
        if !ranges.is_empty() {
            let detail = format!("{name} {}", ranges_text(ranges));
            findings.push(Finding::good(WHAT, detail));
        }
    };
    add("registers of machine mode", &board.machine.machine_only);
    add("configuration device", &board.machine.fw_cfg);
    add("with enough entries, PLIC registers", &divided.mediated);
    add("if it holds a vault, flash", divided.vault.as_slice());
    add(
        "but readable, the generation ID",
        divided.readable.as_slice(),
    );
    findings
}

/// The plans for harts with this number of PMP entries.
fn pmp(divided: &Divided, entries: usize) -> Finding {
    let what = match entries {
        16 => "16 PMP entries",
        _ => "8 PMP entries",
    };
    let plain = divided.plan(entries, false);
    let Some(plain) = plain else {
        return Finding::good(what, "no plan");
    };
    let mut detail = plan_text(divided, plain);
    let vault = divided.plan(entries, true);
    if let Some(vault) = vault {
        detail += &format!("; with a vault {}", plan_text(divided, vault));
    }
    let cure = match entries {
        16 => "make FIRMWARE_SIZE a power of two, and FIRMWARE_BASE a multiple of it",
        _ => {
            "if harts have 8: make FIRMWARE_SIZE a power of two, and FIRMWARE_BASE a multiple of it"
        }
    };
    let is_whole = |plan: &Plan| matches!(plan.made, Ok((_, true)));
    match (&plain.made, entries) {
        (Err(_), 16) => Finding::bad(what, MISSING, detail, cure),
        (Err(_), _) => Finding::bad(what, LACKING, detail, cure),
        (Ok(_), _) if is_whole(plain) && vault.is_none_or(is_whole) => Finding::good(what, detail),
        (Ok(_), _) => Finding::bad(what, LACKING, detail, cure),
    }
}

fn plan_text(divided: &Divided, plan: &Plan) -> String {
    match &plan.made {
        Ok((made, has_mediated)) => {
            let count = made.entries().len();
            let registers = match (divided.mediated.is_empty(), has_mediated) {
                (true, _) => "",
                (false, true) => ", PLIC registers closed",
                (false, false) => ", PLIC registers open",
            };
            format!("{count} used{registers}")
        }
        Err(PlanError::Entries { needed, .. }) => format!("too few, {needed} needed"),
        Err(error) => error.to_string(),
    }
}
