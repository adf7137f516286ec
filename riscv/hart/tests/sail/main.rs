//! The emulation against the Sail model: random loads and stores fault into machine mode. The
//! emulation's result must be that of the instruction without the fault. A fault that it gives back
//! must look to S-mode as if hardware had delegated it.
//!
//! `POORWILL_INSTRUCTIONS` is the number of instructions, `POORWILL_SEED` the first one's seed.
//! Guests are not tested: the model has no H extension.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers are cut on purpose"
)]

mod decode;
mod draw;
mod hart;
mod memory;

use std::collections::BTreeSet;
use std::fmt::Debug;

use poorwill_hart::emulation::{Access, Fault, Operation, OsTrap, cause, redirect};
use softcore_rv64::raw::ExceptionType;

use decode::FORMS;
use draw::{Case, case};
use hart::{Hart, State, Step, device, number};

/// Instructions of a run in `make test-host`: about a second.
const INSTRUCTIONS: u64 = 30_000;

/// The value of an environment variable.
fn number_of(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

/// Counts of the cases' ends.
#[derive(Debug, Default)]
struct Counts {
    served: u64,
    given_back: u64,
    forms: BTreeSet<&'static str>,
}

#[track_caller]
fn same<T: PartialEq + Debug>(seed: u64, case: &Case, what: &str, own: &T, sail: &T) {
    assert!(
        own == sail,
        "{what} differs: POORWILL_SEED={seed} POORWILL_INSTRUCTIONS=1 repeats it\n\
         emulation: {own:x?}\nSail: {sail:x?}\n{case:x?}"
    );
}

/// The state after the instruction, without a fault; `None` for an instruction that the emulation
/// does not serve.
fn without_fault(hart: &mut Hart, case: &Case) -> Option<(State, &'static str)> {
    hart.set(case, true, true);
    let step = hart.step();
    let (name, is_aligned) = hart.last?;
    (step == Step::Retired && is_aligned).then(|| (hart.state(), name))
}

/// The exception of the instruction: its own, or for an instruction that the model does not execute
/// here, a random one.
fn exception(seed: u64, step: Step, hart: &Hart) -> (ExceptionType, u64) {
    // Codes that programs and the OS can cause; a call is machine mode's.
    const CODES: [ExceptionType; 11] = [
        ExceptionType::E_Fetch_Addr_Align(()),
        ExceptionType::E_Fetch_Access_Fault(()),
        ExceptionType::E_Illegal_Instr(()),
        ExceptionType::E_Breakpoint(()),
        ExceptionType::E_Load_Addr_Align(()),
        ExceptionType::E_Load_Access_Fault(()),
        ExceptionType::E_SAMO_Addr_Align(()),
        ExceptionType::E_SAMO_Access_Fault(()),
        ExceptionType::E_U_EnvCall(()),
        ExceptionType::E_Fetch_Page_Fault(()),
        ExceptionType::E_SAMO_Page_Fault(()),
    ];
    match step {
        Step::Exception(exception, value) => (exception, value),
        Step::Other(bits) => (CODES[(seed % 11) as usize], bits.into()),
        // The bus may refuse what PMP allows.
        Step::Retired => {
            let is_store = !hart.stores.is_empty();
            let code = if is_store { CODES[7] } else { CODES[5] };
            (code, seed)
        }
    }
}

/// The access of a fault. No device is above the 56 bits of a physical address, so machine mode
/// serves no access there.
fn access(hart: &Hart, fault: &Fault) -> Option<Access> {
    let access = Access::of(fault, &hart.x(), hart, &hart.memory);
    access.filter(|access| access.address < 1 << 56)
}

/// Serves the fault as the firmware does; returns whether it could.
fn serve(hart: &mut Hart, fault: &Fault) -> bool {
    let Some(access) = access(hart, fault) else {
        return false;
    };
    let mut x = hart.x();
    let loaded = match access.operation {
        Operation::Load => {
            // All bits above those that were loaded are noise.
            device(access.address, access.bytes) | (u64::MAX << (8 * access.bytes - 1) << 1)
        }
        Operation::Store(value) => {
            hart.stores.push((access.address, access.bytes, value));
            u64::MAX
        }
    };
    let length = access.complete(&mut x, loaded);
    hart.leave(&x, fault.pc.wrapping_add(length as u64), fault.status);
    true
}

/// A fault as machine mode has it, and its exception.
fn fault_of(hart: &mut Hart, case: &Case, seed: u64, delegated: bool) -> ExceptionType {
    hart.set(case, false, delegated);
    let step = hart.step();
    let (exception, value) = exception(seed, step, hart);
    hart.rewind(case);
    hart.trap(exception, value);
    exception
}

/// Compares one instruction.
fn compare(hart: &mut Hart, seed: u64, counts: &mut Counts) {
    let case = case(seed);
    let expected = without_fault(hart, &case);
    let exception = fault_of(hart, &case, seed, false);
    let fault = hart.fault();
    same(seed, &case, "cause", &fault.cause, &number(exception));
    for cause in [cause::LOAD_ACCESS, cause::STORE_ACCESS] {
        let access = access(hart, &Fault { cause, ..fault });
        let served = expected.is_some() && cause == fault.cause;
        same(seed, &case, "service", &access.is_some(), &served);
    }
    if OsTrap::of(fault.cause) == OsTrap::Access && serve(hart, &fault) {
        let (state, form) = expected.expect("it is served");
        same(seed, &case, form, &hart.state(), &state);
        counts.served += 1;
        counts.forms.insert(form);
        return;
    }
    let left = redirect(&fault, hart);
    let x = hart.x();
    hart.leave(&x, left.pc, left.status);
    let own = hart.state();
    fault_of(hart, &case, seed, true);
    same(seed, &case, "the exception", &own, &hart.state());
    counts.given_back += 1;
}

#[test]
fn emulation_does_as_the_model() {
    let first = number_of("POORWILL_SEED").unwrap_or(1);
    let instructions = number_of("POORWILL_INSTRUCTIONS").unwrap_or(INSTRUCTIONS);
    let mut hart = Hart::new();
    let mut counts = Counts::default();
    for seed in first..first + instructions {
        compare(&mut hart, seed, &mut counts);
    }
    println!(
        "{instructions} instructions, 0 differences: {} served in {} forms, {} given back",
        counts.served,
        counts.forms.len(),
        counts.given_back
    );
    if instructions >= INSTRUCTIONS {
        assert_eq!(counts.forms.len(), FORMS, "{:?}", counts.forms);
        assert!(counts.served > instructions / 5, "{counts:?}");
    }
}
