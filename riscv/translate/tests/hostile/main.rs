//! Hostile page tables: an access has the result that the specification gives, and the walk reads
//! nothing but the OS's memory. MPRV is machine mode's alone.
#![allow(
    clippy::cast_possible_truncation,
    reason = "fields are cut out intentionally"
)]

#[path = "../common/mod.rs"]
mod common;
mod stale;
mod tables;

use poorwill_hart::emulation::status;
use poorwill_translate::fake::FakeHost;
use poorwill_translate::{Host, Mode, Stop, VirtualHart};
use proptest::prelude::*;

use common::walk::{self, Access, Fault};
use common::wall::{PAGE, put, word};
use common::{i, s};
use tables::{CODE, CODE_PAGE, Case, case};

const HANDLER: u64 = 0x10;
const VALUE: u64 = 0xfedc_ba98_7654_3210;

/// What an instruction does.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// Cause and value.
    Exception(u64, u64),
    /// The hart is given back.
    GivenBack,
    Done,
}

/// A hart at an access of eight bytes, or at the address itself.
fn hart(case: &Case, wall: &FakeHost) -> VirtualHart {
    let code = match case.access {
        Access::Load => i("ld", 10, 11, 0),
        Access::Fetch | Access::Store => s("sd", 11, 12, 0),
    };
    put(wall, CODE_PAGE, code.into());
    let mut hart = VirtualHart::new();
    hart.features = case.hart.features;
    hart.mode = case.hart.mode;
    let bit = |is_set, bit| if is_set { bit } else { 0 };
    hart.csrs.satp = case.hart.satp;
    hart.csrs.sstatus = bit(case.hart.sum, status::SUM) | bit(case.hart.mxr, status::MXR);
    hart.csrs.stvec = HANDLER;
    let is_fetch = case.access == Access::Fetch;
    hart.pc = if is_fetch { case.address } else { CODE };
    (hart.x[11], hart.x[12]) = (case.address, VALUE);
    hart
}

/// Runs one instruction.
fn outcome(hart: &mut VirtualHart, wall: &FakeHost) -> Outcome {
    let before = (hart.x, hart.pc, hart.csrs);
    match hart.run(wall, 1) {
        Stop::Turn if hart.counts.exceptions > 0 => {
            assert_eq!((hart.mode, hart.pc), (Mode::Supervisor, HANDLER));
            assert_eq!((hart.x, hart.csrs.sepc), (before.0, before.1));
            Outcome::Exception(hart.csrs.scause, hart.csrs.stval)
        }
        Stop::Unknown => {
            assert_eq!((hart.x, hart.pc, hart.csrs), before);
            Outcome::GivenBack
        }
        Stop::Turn => Outcome::Done,
        other => panic!("{other:?}"),
    }
}

/// Translates by the specification, and sets A and D.
fn translate(
    hart: &walk::Hart,
    wall: &FakeHost,
    address: u64,
    access: Access,
) -> Result<u64, Outcome> {
    let is_memory = |at: u64| wall.is_memory(at & !(PAGE - 1));
    let read = |at: u64| is_memory(at).then(|| word(wall, at));
    let found = walk::translate(hart, address, access, read);
    let found = found.map_err(|fault| Outcome::Exception(access.cause(fault), address))?;
    if let Some((at, entry)) = found.update {
        put(wall, at, entry);
    }
    Ok(found.physical)
}

/// The result of the case's access, and its effects on `wall`.
fn expected(case: &Case, wall: &FakeHost) -> Result<Option<u64>, Outcome> {
    let hart = &case.hart;
    let is_memory = |at: u64| wall.is_memory(at & !(PAGE - 1));
    if !is_memory(translate(hart, wall, CODE, Access::Fetch)?) {
        return Err(Outcome::GivenBack);
    }
    let mut places = Vec::new();
    for byte in 0..8 {
        let address = case.address.wrapping_add(byte);
        let place = match byte == 0 || address.is_multiple_of(PAGE) {
            true => translate(hart, wall, address, case.access)?,
            false => places[places.len() - 1] + 1,
        };
        places.push(place);
    }
    let value = |byte: usize| VALUE >> (8 * byte) & 0xff;
    if places.iter().all(|place| is_memory(*place)) {
        if case.access == Access::Load {
            let bytes = places.iter().rev().map(|place| wall.load(*place, 1));
            return Ok(Some(bytes.fold(0, |value, byte| value << 8 | byte)));
        }
        let bytes = places.iter().enumerate();
        bytes.for_each(|(byte, place)| wall.store(*place, 1, value(byte)));
        return Ok(None);
    }
    if !case.address.is_multiple_of(8) {
        return Err(Outcome::GivenBack);
    }
    let cause = case.access.cause(Fault::Access);
    let refused = Outcome::Exception(cause, case.address);
    match case.access {
        Access::Load => wall.load_device(places[0], 8).map(Some).ok_or(refused),
        _ => wall
            .store_device(places[0], 8, VALUE)
            .map(|()| None)
            .ok_or(refused),
    }
}

fn check(case: &Case) {
    let (wall, model) = (case.wall(), case.wall());
    let mut own = hart(case, &wall);
    put(&model, CODE_PAGE, word(&wall, CODE_PAGE));
    if case.access == Access::Fetch {
        check_fetch(case, &wall, &model);
        return;
    }
    let (wanted, loaded) = match expected(case, &model) {
        Ok(loaded) => (Outcome::Done, loaded),
        Err(outcome) => (outcome, None),
    };
    let outcome = outcome(&mut own, &wall);
    assert_eq!(outcome, wanted, "{case:x?}");
    if let Some(loaded) = loaded {
        assert_eq!(own.x[10], loaded, "{case:x?}");
    }
    assert!(wall.words() == model.words(), "memory differs: {case:x?}");
    assert_eq!(wall.stored, model.stored, "{case:x?}");
}

/// The instruction at the address is arbitrary: only its fetch is compared.
fn check_fetch(case: &Case, wall: &FakeHost, model: &FakeHost) {
    let mut own = hart(case, wall);
    let fetched = translate(&case.hart, model, case.address, Access::Fetch);
    let is_memory = |at: u64| wall.is_memory(at & !(PAGE - 1));
    // Its second half may be in another page.
    let is_last = case.address % PAGE > PAGE - 4;
    let _ = own.run(wall, 1);
    let (cause, value) = (own.csrs.scause, own.csrs.stval);
    let has_fault = own.counts.exceptions > 0 && [1, 12].contains(&cause);
    match fetched {
        Err(Outcome::Exception(wanted, address)) => {
            assert!(has_fault, "{case:x?}");
            assert_eq!(
                (cause, value, own.csrs.sepc),
                (wanted, address, address),
                "{case:x?}"
            );
        }
        Ok(physical) if is_memory(physical) => {
            assert!(!has_fault || is_last && value != case.address, "{case:x?}");
        }
        Ok(_) => assert_eq!((own.counts, own.pc), (Default::default(), case.address)),
        Err(other) => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn an_access_has_the_specifications_result(case in case()) {
        check(&case);
    }
}

/// The draw reaches what it is for.
#[test]
fn cases_have_all_outcomes() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut count = std::collections::BTreeMap::new();
    for _ in 0..1500 {
        let case = case().new_tree(&mut runner).expect("a case").current();
        if case.access == Access::Fetch {
            continue;
        }
        let wall = case.wall();
        let outcome = match expected(&case, &wall) {
            Ok(None) if wall.stored.borrow().is_empty() => "a store to memory".to_owned(),
            Ok(None) => "a store to a device".to_owned(),
            Ok(Some(_)) => "a load".to_owned(),
            Err(Outcome::Exception(cause, _)) => format!("cause {cause}"),
            Err(other) => format!("{other:?}"),
        };
        *count.entry(outcome).or_insert(0) += 1;
    }
    println!("{count:?}");
    for outcome in [
        "a store to memory",
        "a store to a device",
        "a load",
        "cause 5",
        "cause 7",
        "cause 13",
        "cause 15",
        "GivenBack",
    ] {
        assert!(
            count.get(outcome).is_some_and(|count| *count > 2),
            "{outcome}: {count:?}"
        );
    }
}
