//! The driver against a modelled bank of chips.
#![allow(clippy::cast_possible_truncation, reason = "numbers here are small")]

mod failures;
mod mode;
mod model;
mod operations;
mod takeover;

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

use self::model::{Bank, Regions};
use super::{Cfi, CfiError, Part};

/// (bank's width, chips' width)
const ARRANGEMENTS: [(u8, u8); 6] = [(1, 1), (2, 1), (2, 2), (4, 1), (4, 2), (4, 4)];

/// Eight blocks of 1 KiB in each chip.
const SMALL: Regions<'static> = &[(8, 1024)];

/// The driver's futures never wait.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waited"),
    }
}

type TestPart<'a, const UNIT: usize> = Part<&'a Bank, &'a Bank, UNIT>;

/// All of the bank, in erase units of 4 KiB.
fn whole(bank: &Bank) -> TestPart<'_, 4096> {
    let cfi = Cfi::start(bank, bank).unwrap();
    let bytes = cfi.geometry().bytes;
    Part::new(cfi, 0..bytes).unwrap()
}

fn refused(bank: &Bank) -> CfiError {
    Cfi::start(bank, bank).map(|_| ()).unwrap_err()
}
