//! The Sail model (`softcore-rv64`) as an oracle for integer operations, branches and jumps.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use poorwill_isa::{FORMS, Form, Format, Operation};
use poorwill_translate::fake::{FakeHost, RAM};
use poorwill_translate::{Stop, VirtualHart};
use softcore_rv64::prelude::bv;
use softcore_rv64::raw::{Config, regidx};
use softcore_rv64::{Core, Privilege, config, new_core};

const DRAWS: usize = 300;
const CODE: u64 = RAM + 0x800;

/// Number of operations in the oracle's reach.
const COMPARED: usize = 65;

fn core() -> Core {
    let mut all: Config = config::U74;
    all.extensions.Zbs.supported = true;
    all.extensions.Zicond.supported = true;
    let mut core = new_core(all);
    core.reset();
    core.set_mode(Privilege::Supervisor);
    core
}

/// Operations on registers alone.
fn is_compared(form: &Form) -> bool {
    let is_integer = [0x13, 0x17, 0x1b, 0x33, 0x37, 0x3b].contains(&(form.value & 0x7f));
    let is_jump =
        form.format == Format::B || [Operation::Jal, Operation::Jalr].contains(&form.operation);
    is_integer || is_jump
}

/// Often a value at an edge.
fn value() -> u64 {
    const EDGES: [u64; 8] = [
        0,
        1,
        u64::MAX,
        1 << 63,
        (1 << 63) - 1,
        1 << 31,
        (1 << 31) - 1,
        u32::MAX as u64,
    ];
    match fastrand::u8(0..4) {
        0 => fastrand::choice(EDGES).unwrap(),
        1 => fastrand::u64(0..64),
        _ => fastrand::u64(..),
    }
}

/// Hides the oracle's panics.
fn quiet() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !(info.location()).is_some_and(|place| place.file().contains("softcore-")) {
            before(info);
        }
    }));
}

#[test]
fn operations_have_the_models_results() {
    quiet();
    let host = FakeHost::new(1);
    let mut compared = BTreeSet::new();
    for form in FORMS.iter().filter(|form| is_compared(form)) {
        for _ in 0..DRAWS {
            let bits = fastrand::u32(..) & !form.mask | form.value;
            let mut model = core();
            let mut own = VirtualHart::new();
            own.pc = CODE;
            host.put_code(CODE, &[bits]);
            model.PC = bv(CODE);
            model.nextPC = bv(CODE + 4);
            for number in 1..32 {
                let value = value();
                own.x[usize::from(number)] = value;
                model.set(regidx::new(number), value);
            }
            let decoded = model.decode_instr(bits);
            // It panics at operations that it lacks: Zbb, and those on 128 bits.
            let executed = catch_unwind(AssertUnwindSafe(|| model.execute(decoded)));
            let Ok(executed) = executed else { continue };
            assert!(!executed.trapped(), "{}", form.mnemonic);
            assert_eq!(own.run(&host, 1), Stop::Turn, "{}", form.mnemonic);
            for number in 0..32 {
                let theirs = model.get(regidx::new(number));
                let ours = own.x[usize::from(number)];
                assert_eq!(ours, theirs, "{} {bits:#x} x{number}", form.mnemonic);
            }
            assert_eq!(own.pc, model.nextPC.bits(), "{} {bits:#x}", form.mnemonic);
            assert_eq!(own.counts.instructions, 1);
            compared.insert(form.mnemonic);
        }
    }
    assert_eq!(compared.len(), COMPARED, "{compared:?}");
}
