//! Device trees: any blob is read or refused, and one that is handed on is as
//! good as before.
#![cfg_attr(fuzzing, no_main)]
#![allow(
    clippy::cast_possible_truncation,
    reason = "numbers are drawn below small limits"
)]

use poorwill_devicetree::{FixupError, Fixups, GenerationId, Machine, SpareSource, fixup};
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
    let Ok(before) = before else { return };
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
