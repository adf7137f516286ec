//! Device trees: any blob is read or refused, and one that is handed on is as
//! good as before.
#![cfg_attr(fuzzing, no_main)]
#![allow(
    clippy::cast_possible_truncation,
    reason = "numbers are drawn below small limits"
)]

use poorwill_devicetree::{
    FixupError, Fixups, GenerationId, Machine, SpareSource, board_harts, fixup, open,
    without_driver,
};
use poorwill_domain::pmp::Pmp;
use poorwill_domain::{ALL_DEVICES, Fence, Loaded, closed};
use poorwill_memory::PhysRange;

poorwill_fuzz::target!(max_len = 16384, run);

const FIXUPS: Fixups<'_> = Fixups {
    firmware: &[PhysRange {
        start: 0x8000_0000,
        end: 0x801c_0000,
    }],
    flash: &[PhysRange {
        start: 0x2200_0000,
        end: 0x2400_0000,
    }],
    seed: [0x5a; 32],
    generation_id: Some(GenerationId {
        address: 0x801b_f000,
        source: SpareSource {
            controller: 8,
            source: 96,
        },
    }),
    report: &[b'r'; 128],
    log: &[b'l'; 512],
    cut: Some(&[b'c'; 128]),
    domain: None,
    limits: None,
};

/// As the firmware gives it.
const ROOM: usize = 4096;

fn run(blob: &[u8]) {
    let before = Machine::read(blob);
    let mut buffer = blob.to_vec();
    buffer.resize(blob.len() + ROOM, 0);
    let handed = fixup(&mut buffer, &FIXUPS);
    if let Some(tree) = open(blob) {
        assert!(board_harts(&tree).count() >= before.as_ref().map_or(0, |found| found.harts.len()));
        without_driver(&tree, &mut |_, node| {
            assert!(node.name().len() < blob.len())
        });
    }
    let Ok(before) = before else { return };
    protect(&before);
    // Without room it is refused.
    let tight = fixup(&mut blob.to_vec(), &FIXUPS);
    if let Ok(placed) = handed {
        assert_eq!(
            buffer[placed.report..][..FIXUPS.report.len()],
            *FIXUPS.report
        );
        assert_eq!(buffer[placed.log..][..FIXUPS.log.len()], *FIXUPS.log);
        let cut = placed.cut.zip(FIXUPS.cut).expect("it was asked for");
        assert_eq!(buffer[cut.0..][..cut.1.len()], *cut.1);
        let after = Machine::read(&buffer[..total_size(&buffer)]);
        compare(&before, &after.expect("what is handed on can be read"));
        assert_eq!(tight, Err(FixupError::NoRoom(blob.len())));
    } else {
        assert!(tight.is_err());
    }
}

/// Divides the machine's memory, and plans its protection: no range of the firmware is open.
fn protect(machine: &Machine) {
    let firmware = FIXUPS.firmware[0];
    let next = PhysRange::new(firmware.end, 32 << 20);
    let loaded = Loaded {
        firmware,
        taken: [next, PhysRange::new(next.start, 0)],
    };
    let Ok(data) = loaded.data_range(machine, 2 << 20) else {
        return;
    };
    let Ok(os) = loaded.os_memory(machine, &machine.memory, data) else {
        return;
    };
    let is_own = |range: &PhysRange| range.overlaps(&firmware) || range.overlaps(&data);
    assert!(!os.ranges().iter().any(is_own));
    let fence = Fence {
        readable: None,
        memory: os.ranges(),
        devices: &[ALL_DEVICES],
        registers: &[],
    };
    let pmp = Pmp {
        entries: 16,
        granularity_bits: 12,
    };
    let closed = closed(machine, [firmware, data].into_iter());
    if let Ok((plan, _)) = fence.plan(closed, machine.mediated_plic_registers(), pmp) {
        assert!(plan.entries().len() <= pmp.entries);
    }
}

fn total_size(blob: &[u8]) -> usize {
    let bytes = [blob[4], blob[5], blob[6], blob[7]];
    u32::from_be_bytes(bytes) as usize
}

/// Another stage sees the same machine.
fn compare(before: &Machine, after: &Machine) {
    assert_eq!(before.harts.len(), after.harts.len());
    for (before, after) in before.harts.iter().zip(&after.harts) {
        assert_eq!((before.id, before.extensions), (after.id, after.extensions));
    }
    assert_eq!(before.memory, after.memory);
    assert_eq!(before.timebase_hz, after.timebase_hz);
    let identity = |machine: &Machine| machine.identity(&machine.memory);
    let (before, after) = (identity(before), identity(after));
    assert_eq!(before.memory, after.memory);
    assert_eq!(before.harts, after.harts);
    assert_eq!(before.isa, after.isa);
}
