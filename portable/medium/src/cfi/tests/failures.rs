//! Chips that refuse, fail or stall: each has its own error, the bank reads as
//! memory afterwards, and works again when the chip does.

use embedded_storage_async::nor_flash::{NorFlash, NorFlashError, NorFlashErrorKind, ReadNorFlash};

use super::model::{Bank, Fault};
use super::*;

/// What erasing, then writing at byte 4096 gives when one chip has `fault`.
fn with_fault(fault: Fault, has_locks: bool) -> [Result<(), CfiError>; 2] {
    let mut first = None;
    for bad_chip in 0..2 {
        let bank = Bank::with_locks(4, 2, SMALL, has_locks);
        let mut part = whole(&bank);
        bank.with(|state| state.chips[bad_chip].fault = fault);
        let erased = now(part.erase(4096, 8192));
        let written = now(part.write(4096, &[0x12; 4]));
        if let Some(error) = written.err().or(erased.err()) {
            assert_eq!(part.failure(), Some(error));
            assert_eq!(error.kind(), NorFlashErrorKind::Other);
        }
        let stalls = [
            Fault::EraseStalls,
            Fault::ProgramStalls,
            Fault::UnlockStalls,
        ];
        if !stalls.contains(&fault) {
            assert!(bank.is_at_rest(), "{fault:?}");
        }
        // The chip is well again, and has finished.
        bank.with(|state| {
            let chip = &mut state.chips[bad_chip];
            chip.fault = Fault::None;
            chip.busy_until = 0;
        });
        let mut part = whole(&bank);
        now(part.erase(4096, 8192)).unwrap();
        now(part.write(4096, &[0x12; 4])).unwrap();
        let mut back = [0; 4];
        now(part.read(4096, &mut back)).unwrap();
        assert_eq!(back, [0x12; 4]);
        assert!(bank.is_at_rest());
        let results = [erased, written];
        assert_eq!(*first.get_or_insert(results), results, "either chip");
    }
    first.unwrap()
}

#[test]
fn failures_have_names() {
    let at = 4096;
    let failed = |error| [Err(error), Ok(())];
    assert_eq!(with_fault(Fault::None, false), [Ok(()), Ok(())]);
    assert_eq!(
        with_fault(Fault::Erase(0x20), false),
        failed(CfiError::EraseFailed(at))
    );
    assert_eq!(
        with_fault(Fault::Erase(0x22), false),
        failed(CfiError::Protected(at))
    );
    assert_eq!(
        with_fault(Fault::Erase(0x28), false),
        failed(CfiError::Voltage(at))
    );
    assert_eq!(
        with_fault(Fault::Erase(0x30), false),
        failed(CfiError::Sequence(at))
    );
    let failed = |error| [Ok(()), Err(error)];
    assert_eq!(
        with_fault(Fault::Program(0x10), false),
        failed(CfiError::ProgramFailed(at))
    );
    assert_eq!(
        with_fault(Fault::Program(0x12), false),
        failed(CfiError::Protected(at))
    );
    assert_eq!(
        with_fault(Fault::Program(0x18), false),
        failed(CfiError::Voltage(at))
    );
    assert_eq!(
        with_fault(Fault::StaysLocked, true),
        [Err(CfiError::Protected(at)); 2]
    );
}

#[test]
fn locks_that_cannot_be_opened_protect() {
    let bank = Bank::new(4, 2, SMALL);
    let mut part = whole(&bank);
    bank.with(|state| {
        for chip in &mut state.chips {
            chip.locked = vec![true; 8];
        }
    });
    assert_eq!(now(part.erase(0, 4096)), Err(CfiError::Protected(0)));
    assert_eq!(now(part.write(8, &[0; 4])), Err(CfiError::Protected(8)));
    assert!(bank.is_at_rest());
    bank.with(|state| assert_eq!(state.chips[0].unlocks, 0));
}

#[test]
fn stalls_end() {
    let timed_out = |milliseconds| {
        Err(CfiError::TimedOut {
            offset: 4096,
            milliseconds,
        })
    };
    assert_eq!(with_fault(Fault::EraseStalls, false)[0], timed_out(16_384));
    assert_eq!(
        with_fault(Fault::ProgramStalls, false),
        [Ok(()), timed_out(10)]
    );
    assert_eq!(with_fault(Fault::UnlockStalls, true)[0], timed_out(100));
    let bank = Bank::new(4, 2, SMALL);
    let mut part = whole(&bank);
    bank.with(|state| state.chips[0].fault = Fault::EraseStalls);
    let begin = bank.with(|state| state.now);
    now(part.erase(0, 4096)).unwrap_err();
    let waited = bank.with(|state| state.now) - begin;
    assert!((16_384..16_400).contains(&waited), "{waited} ms");
}

#[test]
fn a_slow_chip_is_waited_for() {
    let bank = Bank::new(4, 2, SMALL);
    bank.with(|state| state.duration = 9);
    let mut part = whole(&bank);
    now(part.erase(0, 4096)).unwrap();
    now(part.write(0, &[0; 64])).unwrap();
    assert_eq!(bank.bytes()[..64], [0; 64]);
}
