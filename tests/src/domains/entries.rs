//! Entries of machine mode, as QEMU's trace of traps shows them.

use anyhow::Context;

/// QEMU's event for each trap of a hart.
pub(super) const TRAPS: &str = "riscv_trap";

/// Causes, each with 1 for an interrupt: an SBI call; the timer of machine mode, by which the
/// firmware prints the rest of a domain's own lines; an illegal instruction.
const CALL: (u64, u64) = (0, 9);
const TIMER: (u64, u64) = (1, 7);
const ILLEGAL: (u64, u64) = (0, 2);

/// End of the firmware's memory. It tries at its start which CSRs a hart has.
const FIRMWARE_END: u64 = 0x8020_0000;

/// Traps of some harts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries {
    /// SBI calls.
    pub calls: u64,
    /// Interrupts of the hart's own timer.
    pub timers: u64,
    /// The trace's lines of all other traps.
    pub others: Vec<String>,
}

/// The entries of harts from `first` on, whose OS takes no traps of its own.
///
/// # Errors
///
/// A line that does not have the expected form.
pub(super) fn entries(trace: &str, first: u64) -> anyhow::Result<Entries> {
    let mut entries = Entries::default();
    for line in trace.lines().filter(|line| line.contains(TRAPS)) {
        let trap = trap(line).with_context(|| format!("the trace's line {line:?}"))?;
        let [hart, is_interrupt, cause, pc] = trap;
        match (is_interrupt, cause) {
            _ if hart < first => {}
            CALL => entries.calls += 1,
            TIMER => entries.timers += 1,
            ILLEGAL if pc < FIRMWARE_END => {}
            _ => entries.others.push(line.to_owned()),
        }
    }
    Ok(entries)
}

/// Hart, 1 for an interrupt, cause, and address of a line.
fn trap(line: &str) -> Option<[u64; 4]> {
    let field = |name| line.split_once(name)?.1.split(',').next();
    let number = |name| field(name)?.parse().ok();
    let pc = field("epc:0x")?;
    Some([
        number("hart:")?,
        number("async:")?,
        number("cause:")?,
        u64::from_str_radix(pc, 16).ok()?,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_is_no_call_and_other_harts_do_not_count() {
        let line = |hart, is_interrupt, cause, pc| {
            format!(
                "riscv_trap hart:{hart}, async:{is_interrupt}, cause:{cause}, epc:{pc:#x}, tval:0x0, desc=x\n"
            )
        };
        let (firmware, guest) = (0x8000_0022_u64, 0x8820_0000);
        let trace = [
            line(2, 0, 2, firmware),
            line(2, 0, 9, guest),
            line(1, 1, 3, guest),
            line(3, 1, 7, guest),
            line(3, 1, 9, guest),
            line(2, 0, 5, guest),
            line(2, 0, 2, guest),
        ];
        let entries = entries(&trace.concat(), 2).unwrap();
        assert_eq!((entries.calls, entries.timers), (1, 1));
        assert_eq!(entries.others.len(), 3);
        assert!(super::entries("riscv_trap hart:x, async", 0).is_err());
    }
}
