//! Taking a controller over and giving it back.

use super::model::{Fault, with_disk};
use super::{queue_memory, simple, start};
use crate::Medium;
use crate::nvme::fake::{Disk, Space};
use crate::nvme::{ADMIN_TIMEOUT_MS, Namespace, NvmeError, QueueMemory, Stop};

#[test]
fn queue_memory_is_small_and_in_pages() {
    assert!(size_of::<QueueMemory>() < 200 * 1024);
    assert_eq!(align_of::<QueueMemory>(), 4096);
}

#[test]
fn lists_namespaces_and_refuses_strange_formats() {
    let mut with_metadata = Space::new(5, 9, 8);
    with_metadata.metadata = 8;
    let spaces = vec![
        Space::new(1, 9, 8),
        Space::new(3, 12, 16),
        with_metadata,
        Space::new(7, 13, 8),
    ];
    let model = with_disk(Disk::new(spaces));
    let mut memory = queue_memory();
    let mut controller = start(&model, &mut memory).unwrap();

    let ids: Vec<u32> = controller
        .namespaces()
        .iter()
        .map(|space| space.id)
        .collect();
    assert_eq!(ids, [1, 3, 5, 7]);
    let second = Namespace {
        id: 3,
        blocks: 16,
        block_bytes: 4096,
        metadata_bytes: 0,
    };
    assert_eq!(controller.namespaces()[1], second);
    assert!(!controller.has_more_namespaces());

    assert_eq!(controller.medium(1).unwrap().capacity(), 8 * 4096);
    assert_eq!(controller.medium(3).unwrap().capacity(), 16 * 4096);
    assert_eq!(controller.medium(2).err(), Some(NvmeError::NoNamespace(2)));
    assert_eq!(controller.medium(5).err(), Some(NvmeError::Format(5)));
    assert_eq!(controller.medium(7).err(), Some(NvmeError::Format(7)));
}

#[test]
fn a_namespace_of_another_command_set_is_unusable() {
    // CAP.CSS, bit 6: namespaces may be of other sets than NVM.
    const SETS: u64 = 1 << 43;
    const ZONED: u8 = 2;
    let mut zoned = Space::new(1, 9, 8);
    zoned.command_set = ZONED;
    let model = with_disk(Disk::new(vec![zoned, Space::new(2, 9, 8)]));
    let mut memory = queue_memory();
    model.with(|state| state.core.registers.capabilities |= SETS);
    let mut controller = start(&model, &mut memory).unwrap();
    assert_eq!(controller.medium(1).err(), Some(NvmeError::Format(1)));
    assert_eq!(controller.medium(2).unwrap().capacity(), 8 * 4096);
    drop(controller);
    // Without the descriptors a namespace counts as NVM's.
    model.with(|state| state.core.registers.version = 0x0001_0200);
    let mut controller = start(&model, &mut memory).unwrap();
    assert!(controller.medium(1).is_ok());
    drop(controller);
    model.with(|state| state.core.registers.capabilities &= !SETS);
    let mut controller = start(&model, &mut memory).unwrap();
    assert!(controller.medium(1).is_ok());
}

#[test]
fn lists_namespaces_of_a_version_without_a_list() {
    let model = with_disk(Disk::new(vec![Space::new(1, 9, 8), Space::new(3, 9, 8)]));
    model.with(|state| state.core.registers.version = 0x0001_0000);
    let mut memory = queue_memory();
    let controller = start(&model, &mut memory).unwrap();
    let blocks: Vec<u64> = controller
        .namespaces()
        .iter()
        .map(|space| space.blocks)
        .collect();
    assert_eq!(
        blocks,
        [64, 0, 64],
        "number 2 is not there, and said to be of no use"
    );
}

#[test]
fn says_when_there_are_more_namespaces_than_it_lists() {
    let spaces = |count| (1..=count).map(|id| Space::new(id, 9, 1)).collect();
    for (count, more) in [(64, false), (65, true), (70, true)] {
        let model = with_disk(Disk::new(spaces(count)));
        let mut memory = queue_memory();
        let controller = start(&model, &mut memory).unwrap();
        assert_eq!(controller.namespaces().len(), 64);
        assert_eq!(controller.has_more_namespaces(), more, "{count}");
    }
}

#[test]
fn refuses_a_list_of_namespaces_that_goes_back() {
    for listed in [vec![2, 1], vec![1, 1]] {
        let model = simple(8);
        model.with(|state| state.hooks.disk.listed = Some(listed));
        assert_eq!(
            start(&model, &mut queue_memory()).err(),
            Some(NvmeError::Protocol)
        );
    }
}

#[test]
fn gives_a_controller_back_as_it_found_it() {
    const ENABLED: u32 = 0x0046_0001;
    const SHUT_DOWN: u32 = ENABLED | 1 << 14;
    const ADMIN: [u32; 5] = [0x001f_001f, 0x8123_4000, 0, 0x8123_5000, 1];
    // Configuration, status, and what is left of the configuration.
    let states = [
        (0, 0, 0),
        (0x0046_0000, 0, 0x0046_0000),
        (ENABLED, 0b1, 0x0046_0000),
        (ENABLED, 0b11, 0x0046_0000),
        (ENABLED, 0b10, 0x0046_0000),
        (SHUT_DOWN, 0b1001, 0x0046_0000),
        (SHUT_DOWN, 0b1000, 0x0046_0000),
    ];
    for (configuration, status, left) in states {
        for how in [Stop::Handover, Stop::PowerOff] {
            let model = simple(8);
            model.with(|state| {
                state.core.registers.configuration = configuration;
                state.core.status = status;
                state.core.registers.admin = ADMIN;
                state.core.registers.masked = 0xf0;
            });
            let mut memory = queue_memory();
            start(&model, &mut memory).unwrap().stop(how).unwrap();
            let registers = model.registers();
            assert_eq!(registers, (left, ADMIN, 0xf0));
            assert_eq!(model.with(|state| state.core.status & 1), 0);
        }
    }
}

#[test]
fn lets_a_shutdown_end_before_it_starts_anew() {
    let model = simple(8);
    model.with(|state| {
        (state.core.registers.configuration, state.core.status) = (0x0046_4001, 0b0101);
        state.hooks.shut_down_at = 3_000;
    });
    let mut memory = queue_memory();
    start(&model, &mut memory)
        .unwrap()
        .stop(Stop::Handover)
        .unwrap();
    assert_eq!(model.registers().0, 0x0046_0000);
}

#[test]
fn a_dropped_controller_is_stopped() {
    let model = simple(8);
    let mut memory = queue_memory();
    drop(start(&model, &mut memory).unwrap());
    assert_eq!(model.registers(), (0, [0; 5], 0));
    assert_eq!(model.with(|state| state.core.status), 0);
}

#[test]
fn a_controller_starts_again_and_again() {
    let model = simple(8);
    let mut memory = queue_memory();
    for _ in 0..3 {
        let mut controller = start(&model, &mut memory).unwrap();
        controller.medium(1).unwrap().flush().unwrap();
        controller.stop(Stop::Handover).unwrap();
    }
    assert_eq!(
        model.with(|state| state.hooks.disk.flushed.clone()),
        [1, 1, 1]
    );
}

#[test]
fn waits_as_long_for_a_shutdown_as_the_device_asks() {
    for (asked, limit) in [(0, 5_000), (20_000_000, 20_000), (u32::MAX, 60_000)] {
        let model = simple(8);
        model.with(|state| {
            state.hooks.fault = Fault::NeverShutsDown;
            state.hooks.disk.shutdown = asked;
        });
        let mut memory = queue_memory();
        let controller = start(&model, &mut memory).unwrap();
        assert_eq!(
            controller.stop(Stop::PowerOff),
            Err(NvmeError::WillNotShutDown(limit))
        );
        assert_eq!(model.registers().0, 0, "stopped all the same");
    }
}

#[test]
fn refuses_what_it_cannot_drive() {
    let cases = [
        (0x0000_0020_0f01_0000, 0x4000, "queues of two entries"),
        (0x0000_0000_0f01_07ff, 0x4000, "the NVM command set"),
        (0x0001_0020_0f01_07ff, 0x4000, "pages of 4 KiB"),
    ];
    for (capabilities, length, what) in cases {
        let model = simple(8);
        model.with(|state| {
            (state.core.registers.capabilities, state.core.length) = (capabilities, length)
        });
        assert_eq!(
            start(&model, &mut queue_memory()).err(),
            Some(NvmeError::Unsupported(what))
        );
    }
}

#[test]
fn refuses_registers_that_end_before_the_doorbells() {
    for (stride, length, needed) in [
        (0, 0xfff, 0x1000),
        (0, 0x100f, 0x1010),
        (15, 0x4000, 0x8_1000),
    ] {
        let model = simple(8);
        model.with(|state| {
            state.core.registers.capabilities |= stride << 32;
            state.core.length = length;
        });
        let error = NvmeError::Registers {
            needed,
            given: length,
        };
        assert_eq!(start(&model, &mut queue_memory()).err(), Some(error));
    }
}

#[test]
fn every_start_that_fails_says_why_and_ends() {
    let refused = |opcode| NvmeError::Command { opcode, status: 2 };
    let silent = |opcode| NvmeError::TimedOut {
        opcode,
        milliseconds: ADMIN_TIMEOUT_MS,
    };
    let cases = [
        (Fault::Absent, NvmeError::Absent),
        (Fault::NeverReady, NvmeError::NotReady(7_500)),
        (Fault::FailsWhenEnabled, NvmeError::Fatal),
        (Fault::AdminWrongId, NvmeError::Protocol),
        (Fault::AdminStall(6), silent(6)),
        (Fault::AdminStall(9), silent(9)),
        (Fault::AdminStall(1), silent(1)),
        (Fault::AdminRefuse(6), refused(6)),
        (Fault::AdminRefuse(5), refused(5)),
        (Fault::AdminRefuse(1), refused(1)),
    ];
    for (fault, error) in cases {
        let model = simple(8);
        model.with(|state| {
            state.hooks.fault = fault;
            state.core.is_absent = fault == Fault::Absent;
        });
        assert_eq!(
            start(&model, &mut queue_memory()).err(),
            Some(error),
            "{fault:?}"
        );
        assert_eq!(model.registers(), (0, [0; 5], 0), "{fault:?} leaves traces");
        assert!(!model.with(|state| state.core.is_cut));
    }
}

#[test]
fn cuts_off_a_controller_that_does_not_stop() {
    let model = simple(8);
    model.with(|state| {
        state.hooks.fault = Fault::NeverStops;
        (state.core.registers.configuration, state.core.status) = (0x0046_0001, 1);
    });
    assert_eq!(
        start(&model, &mut queue_memory()).err(),
        Some(NvmeError::WillNotStop(7_500))
    );
    assert!(model.with(|state| state.core.is_cut));
}
