//! Transfers by a device that behaves.

use proptest::prelude::*;

use super::model::{Model, with_disk};
use super::{Pages, queue_memory, simple, start};
use crate::contract::{self, MEDIUM_PAGES, operations};
use crate::nvme::fake::{Disk, Space};
use crate::{Direction, Medium};

fn model(block_shift: u32, exponent: u8, queue: u64, stride: u64, seed: u64) -> Model {
    let mut other = Space::new(1, 9, 4);
    other.bytes.fill(0xa5);
    let mut disk = Disk::new(vec![other, Space::new(2, block_shift, MEDIUM_PAGES)]);
    disk.exponent = exponent;
    let model = with_disk(disk);
    model.with(|state| {
        state.core.registers.capabilities =
            state.core.registers.capabilities & !0xffff | queue | stride << 32;
        state.hooks.random = seed;
    });
    model
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever is written is read again, by any device that keeps to the
    /// specification: any order, any sizes of blocks, queues and transfers.
    #[test]
    fn transfers_equal_a_plain_buffer(
        operations in operations(),
        block_shift in 9u32..=12,
        exponent in 0u8..9,
        queue in prop_oneof![1u64..70, Just(2047), Just(65535)],
        stride in 0u64..3,
        sgl_support in 0u8..4,
        seed in 1u64..,
    ) {
        let model = model(block_shift, exponent, queue, stride, seed);
        model.with(|state| state.hooks.disk.sgl_support = sgl_support);
        let mut memory = queue_memory();
        let mut controller = start(&model, &mut memory).unwrap();
        let expected = contract::run(controller.medium(2).unwrap(), block_shift, operations);
        model.with(|state| {
            assert!(state.hooks.disk.namespaces[1].bytes == expected);
            assert!(state.hooks.disk.namespaces[0].bytes.iter().all(|&byte| byte == 0xa5));
        });
    }
}

/// As many descriptors as there are runs, where that is at most one for eight pages.
#[test]
fn long_runs_are_told_as_such() {
    let descriptors = |places: &[usize]| {
        let model = simple(256);
        model.with(|state| state.hooks.disk.exponent = 0);
        let pages = Pages::new(512);
        let mut memory = queue_memory();
        let mut controller = start(&model, &mut memory).unwrap();
        let mut medium = controller.medium(1).unwrap();
        let chosen: Vec<_> = places.iter().map(|&place| pages.at(place)).collect();
        for (value, &place) in (1..).zip(places) {
            pages.fill(place, value);
        }
        medium.start(Direction::Write, 0, &chosen, 0).unwrap();
        while medium.poll().unwrap().is_none() {}
        model.with(|state| {
            for (written, &place) in state.hooks.disk.namespaces[0]
                .bytes
                .chunks(4096)
                .zip(places)
            {
                assert!(written == pages.bytes(place), "page {place}");
            }
            state.hooks.disk.descriptors.clone()
        })
    };
    let every = |step: usize, count: usize| (0..count).map(|page| page * step).collect::<Vec<_>>();
    let runs = |pages: usize, count: usize| {
        let run = |run: usize| (0..pages).map(move |page| run * (pages + 1) + page);
        (0..count).flat_map(run).collect::<Vec<_>>()
    };
    assert_eq!(descriptors(&every(1, 256)), [1]);
    assert_eq!(descriptors(&every(1, 8)), [1]);
    assert_eq!(descriptors(&every(1, 7)), [0]);
    assert_eq!(descriptors(&every(2, 64)), [0]);
    assert_eq!(descriptors(&runs(8, 32)), [32]);
    assert_eq!(descriptors(&runs(7, 32)), [0]);
    let backwards: Vec<_> = every(1, 64).into_iter().rev().collect();
    assert_eq!(descriptors(&backwards), [0]);
}

#[test]
fn registers_are_written_seldom() {
    let model = simple(4096);
    let pages = Pages::new(1024);
    let mut memory = queue_memory();
    let mut controller = start(&model, &mut memory).unwrap();
    let mut medium = controller.medium(1).unwrap();
    let all: Vec<_> = (0..1024).map(|index| pages.at(index)).collect();
    let mut commands = 0;
    for _ in 0..32 {
        for extent in all.chunks(128) {
            medium.start(Direction::Write, 0, extent, 0).unwrap();
            commands += 1;
        }
        for _ in all.chunks(128) {
            while medium.poll().unwrap().is_none() {}
        }
    }
    let [tail, head] = model.with(|state| state.hooks.doorbells);
    assert_eq!((commands, tail), (256, 256));
    assert!(head <= 8, "{head} writes of the head doorbell");
}

#[test]
fn started_and_awaited_transfers_mix() {
    let model = simple(64);
    let mut memory = queue_memory();
    let mut controller = start(&model, &mut memory).unwrap();
    contract::started_and_awaited_transfers_mix(controller.medium(1).unwrap());
}

#[test]
fn what_does_not_fit_is_refused() {
    let model = simple(160);
    let mut memory = queue_memory();
    let mut controller = start(&model, &mut memory).unwrap();
    contract::what_does_not_fit_is_refused(controller.medium(1).unwrap());
}
