//! The answers of all extensions to invalid calls, beyond `sbi-testing`'s suite.

use crate::{
    arch::fence_i,
    check,
    machine::Machine,
    mmio,
    verdict::{check_error, check_success},
    workers,
};
use sbi_rt::{HartMask, raw::sbi_call_1, raw::sbi_call_2, raw::sbi_call_3, raw::sbi_call_4};
use sbi_spec::{
    base, binary::Error::*, binary::SbiRet, dbcn, hsm, legacy, rfnc, spi, srst, susp, time,
};

/// The extensions that there are.
pub(super) const EXTENSIONS: [usize; 8] = [
    base::EID_BASE,
    time::EID_TIME,
    spi::EID_SPI,
    rfnc::EID_RFNC,
    hsm::EID_HSM,
    srst::EID_SRST,
    dbcn::EID_DBCN,
    susp::EID_SUSP,
];

pub(super) fn run(machine: &Machine, hart: usize) {
    probes();
    unknown_numbers();
    hart_masks(machine);
    hart_start(machine, hart);
    hart_suspend(machine);
    reset();
    own_code_changes();
    workers::check_all(machine, hart);
}

/// A call with up to three arguments, none of which can hurt this kernel.
fn call(extension: usize, function: usize, arguments: [usize; 3]) -> SbiRet {
    let [a, b, c] = arguments;
    // SAFETY: only calls that write no memory of ours are made with it.
    unsafe { sbi_call_3(extension, function, a, b, c) }
}

fn probes() {
    let version = sbi_rt::get_spec_version();
    check!(
        version.major() >= 2,
        "SBI {version} is at least 2.0, which SUSP and DBCN need"
    );
    let wanted = [
        ("TIME", time::EID_TIME),
        ("sPI", spi::EID_SPI),
        ("RFNC", rfnc::EID_RFNC),
        ("HSM", hsm::EID_HSM),
        ("SRST", srst::EID_SRST),
        ("DBCN", dbcn::EID_DBCN),
        ("SUSP", susp::EID_SUSP),
        ("legacy", legacy::LEGACY_SET_TIMER),
    ];
    for (name, extension) in wanted {
        let answer = call(base::EID_BASE, base::PROBE_EXTENSION, [extension, 0, 0]);
        check!(
            answer.into_result().is_ok_and(|found| found != 0),
            "{name} is there"
        );
    }
    let answer = call(base::EID_BASE, base::PROBE_EXTENSION, [0x0bad_cafe, 0, 0]);
    check!(
        answer.into_result() == Ok(0),
        "an unknown extension is not there"
    );
}

fn unknown_numbers() {
    check_error(
        "unknown extension",
        call(0x0bad_cafe, 0, [0; 3]),
        &[NotSupported],
    );
    check_error(
        "all ones as extension",
        call(usize::MAX, 0, [0; 3]),
        &[NotSupported],
    );
    for extension in EXTENSIONS {
        for function in [0x77, usize::MAX] {
            let answer = call(extension, function, [0; 3]);
            check_error("unknown function", answer, &[NotSupported]);
        }
    }
}

fn hart_masks(machine: &Machine) {
    let beyond = machine.harts.iter().max().map_or(0, |last| last + 1);
    let masks = [
        ("a hart beyond the last", (1, beyond)),
        ("all 64 harts", (usize::MAX, 0)),
        ("a base of all ones but one", (1, usize::MAX - 1)),
        ("a base that wraps", (0b100, usize::MAX - 1)),
    ];
    for (what, (mask, first)) in masks {
        check_error(
            what,
            call(spi::EID_SPI, spi::SEND_IPI, [mask, first, 0]),
            &[InvalidParam],
        );
        for function in [rfnc::REMOTE_FENCE_I, rfnc::REMOTE_SFENCE_VMA] {
            check_error(what, fence(function, mask, first, 0, 0), &[InvalidParam]);
        }
    }
    let everywhere = usize::MAX;
    for function in [
        rfnc::REMOTE_FENCE_I,
        rfnc::REMOTE_SFENCE_VMA,
        rfnc::REMOTE_SFENCE_VMA_ASID,
    ] {
        check_success(
            "a fence everywhere",
            fence(function, 0, everywhere, 0, usize::MAX),
        );
        check_success(
            "a fence of one page",
            fence(function, 1, machine.harts[0], 0x1000, 0x1000),
        );
    }
}

/// A remote fence.
pub(super) fn fence(
    function: usize,
    mask: usize,
    first: usize,
    start: usize,
    size: usize,
) -> SbiRet {
    // SAFETY: a fence changes no memory.
    unsafe { sbi_call_4(rfnc::EID_RFNC, function, mask, first, start, size) }
}

fn hart_start(machine: &Machine, hart: usize) {
    let start = |hart, address| call(hsm::EID_HSM, hsm::HART_START, [hart, address, 0]);
    let entry = workers::entry_address();
    let beyond = machine.harts.iter().max().map_or(0, |last| last + 1);
    check_error(
        "start a hart beyond the last",
        start(beyond, entry),
        &[InvalidParam],
    );
    check_error("start hart -1", start(usize::MAX, entry), &[InvalidParam]);
    check_error(
        "start the running hart",
        start(hart, entry),
        &[AlreadyAvailable],
    );
    // SAFETY: this call only asks.
    let state = unsafe { sbi_call_1(hsm::EID_HSM, hsm::HART_GET_STATUS, beyond) };
    check_error(
        "the state of a hart beyond the last",
        state,
        &[InvalidParam],
    );
    check!(
        workers::state(hart) == Some(hsm::hart_state::STARTED),
        "this hart is started"
    );
    let Some(other) = workers::others(machine, hart).next() else {
        return;
    };
    for (what, address) in bad_code_addresses(machine) {
        check_error(what, start(other, address), &[InvalidAddress]);
    }
    if workers::start(machine, other) {
        check_error(
            "start a started hart",
            start(other, entry),
            &[AlreadyAvailable],
        );
        check!(workers::stop(machine, other), "hart {other} stops");
    }
}

/// Addresses that S-mode cannot run at, with what they are.
pub(super) fn bad_code_addresses(machine: &Machine) -> [(&'static str, usize); 6] {
    [
        ("an address in the firmware", machine.firmware_address()),
        ("an address in MMIO", machine.uart),
        ("the first address beyond memory", machine.ram.end),
        ("an address far beyond memory", usize::MAX - 1),
        ("address zero", 0),
        ("an odd address", workers::entry_address() + 1),
    ]
}

fn hart_suspend(machine: &Machine) {
    let suspend = |kind, address| call(hsm::EID_HSM, hsm::HART_SUSPEND, [kind, address, 0]);
    const NON_RETENTIVE: usize = 0x8000_0000;
    for (what, address) in bad_code_addresses(machine) {
        check_error(what, suspend(NON_RETENTIVE, address), &[InvalidAddress]);
    }
    for kind in [1, 0x0fff_ffff, 0x8000_0001, 0x8fff_ffff] {
        let answer = suspend(kind, workers::entry_address());
        check_error("a reserved suspend type", answer, &[InvalidParam]);
    }
    for kind in [0x1000_0000, 0x9000_0000] {
        let answer = suspend(kind, workers::entry_address());
        check_error(
            "a platform's suspend type",
            answer,
            &[InvalidParam, NotSupported],
        );
    }
}

fn reset() {
    // SAFETY: these must be refused; if not, the machine is gone, and the
    // exit status tells.
    let reset =
        |kind, reason| unsafe { sbi_call_2(srst::EID_SRST, srst::SYSTEM_RESET, kind, reason) };
    check_error("a reserved reset type", reset(3, 0), &[InvalidParam]);
    check_error(
        "a reserved reset type",
        reset(0xefff_ffff, 0),
        &[InvalidParam],
    );
    check_error(
        "a vendor's reset type",
        reset(0xf000_0000, 0),
        &[InvalidParam, NotSupported],
    );
    check_error("a reserved reset reason", reset(0, 2), &[InvalidParam]);
    check_error(
        "a reserved reset reason",
        reset(0, 0xdfff_ffff),
        &[InvalidParam],
    );
}

/// `remote_fence_i` reaches this hart itself.
fn own_code_changes() {
    static CODE: [core::sync::atomic::AtomicU32; 2] =
        [const { core::sync::atomic::AtomicU32::new(0) }; 2];
    let address = CODE.as_ptr().addr();
    // `addi a0, a0, n; ret`, written twice.
    for n in [1_u32, 2] {
        mmio::write32(address, n << 20 | 0x0005_0513);
        mmio::write32(address + 4, 0x0000_8067);
        if n == 1 {
            fence_i();
        } else {
            check_success(
                "fence.i on this hart",
                sbi_rt::remote_fence_i(HartMask::from_mask_base(0, usize::MAX)),
            );
        }
        // SAFETY: the two instructions above keep to the C calling convention.
        let run: extern "C" fn(u32) -> u32 = unsafe { core::mem::transmute(address) };
        check!(run(40) == 40 + n, "code written and fenced runs as written");
    }
}
