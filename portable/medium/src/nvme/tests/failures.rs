//! Devices that fail while transfers are under way.

use super::model::{Fault, Model};
use super::{Pages, queue_memory, simple, start};
use crate::nvme::{FLUSH_TIMEOUT_MS, NvmeError, NvmeMedium, Stop, TRANSFER_TIMEOUT_MS};
use crate::wait::Wait;
use crate::{Direction, Medium, MediumError};
use poorwill_memory::Page;

type Tested<'c, 'a> = NvmeMedium<'c, 'a, &'a Model, &'a Model>;

/// Polls until a tag or an error comes.
fn wait(medium: &mut Tested<'_, '_>) -> Result<u32, MediumError> {
    for _ in 0..100_000 {
        if let Some(tag) = medium.poll()? {
            return Ok(tag);
        }
    }
    panic!("neither an answer nor a time-out");
}

/// Starts eight transfers on a device with a fault; the first error.
fn provoke(fault: Fault, check: impl FnOnce(&mut Tested<'_, '_>, &Model, MediumError)) {
    let model = simple(64);
    let pages = Pages::new(64);
    let mut memory = queue_memory();
    {
        let mut controller = start(&model, &mut memory).unwrap();
        model.with(|state| state.hooks.fault = fault);
        let mut medium = controller.medium(1).unwrap();
        for tag in 0..8 {
            let page = pages.at(tag as usize);
            medium
                .start(Direction::Write, u64::from(tag) * 4096, &[page], tag)
                .unwrap();
        }
        let error = (0..=8).find_map(|_| wait(&mut medium).err()).unwrap();
        check(&mut medium, &model, error);
        assert_eq!(controller.medium(1).err(), Some(NvmeError::Stopped));
        controller.stop(Stop::PowerOff).unwrap();
    }
    assert_eq!(model.registers(), (0, [0; 5], 0));
}

#[test]
fn a_stall_ends_in_a_time_out_and_a_quiet_device() {
    for first in [0, 3, 7] {
        provoke(Fault::Stall(first), |medium, model, error| {
            assert_eq!(error, MediumError::TimedOut(TRANSFER_TIMEOUT_MS));
            medium.quiesce();
            assert_eq!(model.with(|state| state.core.status & 1), 0);
            assert_eq!(medium.poll(), Err(MediumError::Stopped));
            assert_eq!(medium.flush(), Err(MediumError::Stopped));
            assert_eq!(medium.read(0, &mut [Page::ZERO]), Err(MediumError::Stopped));
        });
    }
}

#[test]
fn a_lost_phase_tag_is_a_time_out() {
    provoke(Fault::StalePhase(2), |medium, _, error| {
        assert_eq!(error, MediumError::TimedOut(TRANSFER_TIMEOUT_MS));
        medium.quiesce();
    });
}

#[test]
fn answers_to_what_was_not_asked_are_protocol_errors() {
    for number in [0, 5] {
        for fault in [
            Fault::WrongId(number),
            Fault::WrongQueue(number),
            Fault::Twice(number),
        ] {
            provoke(fault, |medium, model, error| {
                assert_eq!(error, MediumError::Protocol, "{fault:?}");
                medium.quiesce();
                assert_eq!(model.with(|state| state.core.status & 1), 0, "{fault:?}");
            });
        }
    }
}

#[test]
fn a_device_that_does_not_stop_is_cut_off() {
    let model = simple(8);
    let pages = Pages::new(1);
    let mut memory = queue_memory();
    let mut controller = start(&model, &mut memory).unwrap();
    model.with(|state| state.hooks.fault = Fault::NeverStops);
    let mut medium = controller.medium(1).unwrap();
    medium.start(Direction::Read, 0, &[pages.at(0)], 1).unwrap();
    assert_eq!(
        controller.stop(Stop::PowerOff),
        Err(NvmeError::WillNotStop(7_500))
    );
    assert!(model.with(|state| state.core.is_cut));
}

#[test]
fn a_device_that_answers_is_let_finish_and_used_on() {
    let model = simple(64);
    let pages = Pages::new(8);
    let mut memory = queue_memory();
    let mut controller = start(&model, &mut memory).unwrap();
    let mut medium = controller.medium(1).unwrap();
    for tag in 0..8 {
        let page = [pages.at(tag as usize)];
        medium.start(Direction::Read, 0, &page, tag).unwrap();
    }
    medium.quiesce();
    assert_eq!(
        model.with(|state| state.core.status & 1),
        1,
        "still enabled"
    );
    assert_eq!(medium.poll(), Ok(None), "what was under way is forgotten");
    medium.read(0, &mut [Page::ZERO]).unwrap();
}

#[test]
fn a_bad_block_names_itself_and_spares_the_rest() {
    let model = simple(64);
    let pages = Pages::new(8);
    let mut memory = queue_memory();
    let mut controller = start(&model, &mut memory).unwrap();
    model.with(|state| state.hooks.disk.bad_block = Some((8 * 5 + 3, 0x281)));
    let mut medium = controller.medium(1).unwrap();
    let error = MediumError::Device {
        direction: Direction::Read,
        offset: 5 * 4096,
        status: 0x281,
    };

    for tag in 0..8 {
        medium
            .start(
                Direction::Read,
                u64::from(tag) * 4096,
                &[pages.at(tag as usize)],
                tag,
            )
            .unwrap();
    }
    let answers: Vec<_> = (0..8).map(|_| wait(&mut medium)).collect();
    let mut tags: Vec<u32> = answers.iter().filter_map(|answer| answer.ok()).collect();
    tags.sort_unstable();
    assert_eq!(tags, [0, 1, 2, 3, 4, 6, 7]);
    assert!(answers.contains(&Err(error)));

    medium.quiesce();
    let mut into = vec![Page::ZERO; 8];
    let error = MediumError::Device {
        direction: Direction::Read,
        offset: 0,
        status: 0x281,
    };
    assert_eq!(medium.read(0, &mut into), Err(error));
    medium.read(6 * 4096, &mut into).unwrap();
}

#[test]
fn a_failed_read_returns_when_the_device_has_let_go() {
    for seed in 1..20 {
        let model = simple(64);
        model.with(|state| {
            state.hooks.disk.exponent = 1;
            state.hooks.disk.bad_block = Some((0, 0x281));
            state.hooks.random = seed;
        });
        let mut memory = queue_memory();
        let mut controller = start(&model, &mut memory).unwrap();
        let mut medium = controller.medium(1).unwrap();
        let mut into = vec![Page::ZERO; 64];
        assert!(medium.read(0, &mut into).is_err());
        assert!(model.with(|state| state.core.pending.is_empty()));
    }
}

#[test]
fn finished_transfers_keep_their_place_until_asked_for() {
    let model = simple(64);
    let pages = Pages::new(1);
    let mut memory = queue_memory();
    let mut controller = start(&model, &mut memory).unwrap();
    let mut medium = controller.medium(1).unwrap();
    let mut under_way = 0;
    for _ in 0..100 {
        if medium.start(Direction::Write, 0, &[pages.at(0)], 0).is_ok() {
            under_way += 1;
        }
        // Takes completions, also those that nobody has asked for.
        let _ = medium.flush();
    }
    assert_eq!(under_way, medium.depth());
    for _ in 0..under_way {
        assert_eq!(wait(&mut medium), Ok(0));
    }
    assert_eq!(medium.poll(), Ok(None));
}

#[test]
fn each_long_wait_is_told_once() {
    let words = |told: &[(Wait, u64)]| -> Vec<_> {
        let words = |&(wait, limit): &(Wait, u64)| (wait.to_string(), limit);
        told.iter().map(words).collect()
    };
    for (fault, told) in [
        (
            Fault::NeverReady,
            vec![(Wait::Ready, 7_500), (Wait::Stop, 7_500)],
        ),
        (Fault::AdminStall(6), vec![(Wait::Admin(6), 60_000)]),
        (Fault::Slow(1_000), vec![]),
        (Fault::Slow(2_500), vec![(Wait::Admin(6), 60_000)]),
    ] {
        let model = simple(64);
        model.with(|state| state.hooks.fault = fault);
        let mut memory = queue_memory();
        _ = start(&model, &mut memory);
        let all = model.with(|state| state.hooks.told.clone());
        assert_eq!(&all[..told.len()], words(&told), "{fault:?}");
        // Only the slow one goes on to further commands.
        assert!(
            all.len() == told.len() || matches!(fault, Fault::Slow(2_500)),
            "{all:?}"
        );
    }
    for flushes in [false, true] {
        let model = simple(64);
        let mut memory = queue_memory();
        let mut controller = start(&model, &mut memory).unwrap();
        model.with(|state| state.hooks.fault = Fault::Stall(0));
        let mut medium = controller.medium(1).unwrap();
        let (outcome, limit) = match flushes {
            false => (medium.read(0, &mut [Page::ZERO]), TRANSFER_TIMEOUT_MS),
            true => (medium.flush(), FLUSH_TIMEOUT_MS),
        };
        assert!(outcome.is_err());
        let told = model.with(|state| state.hooks.told.clone());
        assert_eq!(told, words(&[(Wait::Transfer, u64::from(limit))]));
    }
}

#[test]
fn waiting_calls_end_when_the_device_stalls() {
    for kind in 0..3 {
        let model = simple(64);
        let mut memory = queue_memory();
        let mut controller = start(&model, &mut memory).unwrap();
        model.with(|state| state.hooks.fault = Fault::Stall(0));
        let mut medium = controller.medium(1).unwrap();
        let mut pages = vec![Page::ZERO; 64];
        let (outcome, limit) = match kind {
            0 => (medium.read(0, &mut pages), TRANSFER_TIMEOUT_MS),
            1 => (medium.write(0, &pages), TRANSFER_TIMEOUT_MS),
            _ => (medium.flush(), FLUSH_TIMEOUT_MS),
        };
        assert_eq!(outcome, Err(MediumError::TimedOut(limit)));
        // The pages are the caller's again, so the device must have stopped.
        assert_eq!(model.with(|state| state.core.status & 1), 0);
        assert_eq!(medium.write(0, &pages), Err(MediumError::Stopped));
    }
}

#[test]
fn a_flush_may_be_slow_and_may_fail() {
    let model = simple(8);
    let mut memory = queue_memory();
    let mut controller = start(&model, &mut memory).unwrap();
    model.with(|state| state.hooks.fault = Fault::Slow(50_000));
    let mut medium = controller.medium(1).unwrap();
    medium.flush().unwrap();
    model.with(|state| {
        state.hooks.fault = Fault::None;
        state.hooks.disk.flush_status = 0x286;
    });
    assert_eq!(medium.flush(), Err(MediumError::Flush(0x286)));
    assert_eq!(medium.start_flush(1), Ok(true));
    let told = loop {
        match medium.poll() {
            Ok(None) => {}
            other => break other,
        }
    };
    assert_eq!(told, Err(MediumError::Flush(0x286)));
}

#[test]
fn without_a_cache_nothing_is_flushed() {
    let model = simple(8);
    model.with(|state| state.hooks.disk.has_cache = false);
    let mut memory = queue_memory();
    let mut controller = start(&model, &mut memory).unwrap();
    let mut medium = controller.medium(1).unwrap();
    medium.flush().unwrap();
    assert_eq!(medium.start_flush(1), Ok(false));
    assert_eq!(model.with(|state| state.hooks.disk.flushed.len()), 0);
}

#[test]
fn small_transfers_are_many_and_large_ones_few() {
    for (exponent, depth) in [(0, 8), (3, 32), (5, 32), (7, 32), (8, 16), (9, 8)] {
        let model = simple(8);
        model.with(|state| state.hooks.disk.exponent = exponent);
        let mut memory = queue_memory();
        let mut controller = start(&model, &mut memory).unwrap();
        assert_eq!(controller.medium(1).unwrap().depth(), depth, "2^{exponent}");
    }
}

#[test]
fn callers_faults_are_refused() {
    let model = simple(600);
    model.with(|state| state.hooks.disk.exponent = 0);
    let pages = Pages::new(513);
    let mut memory = queue_memory();
    let mut controller = start(&model, &mut memory).unwrap();
    let mut medium = controller.medium(1).unwrap();
    let some: Vec<_> = (0..513).map(|index| pages.at(index)).collect();
    assert_eq!((medium.max_pages(), medium.depth()), (512, 8));

    assert_eq!(
        medium.start(Direction::Read, 0, &[], 0),
        Err(MediumError::TooMany)
    );
    assert_eq!(
        medium.start(Direction::Read, 0, &some, 0),
        Err(MediumError::TooMany)
    );
    let beyond = MediumError::OutOfRange {
        offset: 599 * 4096,
        end: 601 * 4096,
    };
    assert_eq!(
        medium.start(Direction::Read, 599 * 4096, &some[..2], 0),
        Err(beyond)
    );
    let beyond = MediumError::OutOfRange {
        offset: u64::MAX - 511,
        end: u64::MAX,
    };
    assert_eq!(medium.read(u64::MAX - 511, &mut [Page::ZERO]), Err(beyond));
    assert_eq!(
        medium.read(100, &mut [Page::ZERO]),
        Err(MediumError::Misaligned(100))
    );
    assert_eq!(medium.poll(), Ok(None));

    for tag in 0..8 {
        medium.start(Direction::Read, 0, &some[..512], tag).unwrap();
    }
    assert_eq!(
        medium.start(Direction::Read, 0, &some[..1], 99),
        Err(MediumError::TooMany)
    );
    assert_eq!(medium.read(0, &mut [Page::ZERO]), Err(MediumError::TooMany));
    wait(&mut medium).unwrap();
    medium.start(Direction::Read, 0, &some[..1], 99).unwrap();
    medium.quiesce();
}
