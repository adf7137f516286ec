//! The machine's state: records of any bytes are read in order, or refused.
#![cfg_attr(fuzzing, no_main)]

use poorwill_fuzz::Input;
use poorwill_fuzz::image::{Forged, here, workspace};
use poorwill_image::{Record, StateReader, StateWriter, Workspace, open};
use poorwill_memory::Page;
use zerocopy::IntoBytes;

poorwill_fuzz::target!(max_len = 9000, run);

fn run(bytes: &[u8]) {
    let mut image = Forged::new(&mut Input::new(&[]), 1, bytes);
    let mut room = workspace(1);
    let workspace = Workspace::new(&mut room, 1).expect("enough room");
    let opened = open(&mut image.slot, image.committed, &here(1), workspace);
    let opened = opened.expect("an image with any state opens");
    let reader = opened.state();
    check(reader.clone(), bytes);
    assert!(reader.clone().count() <= bytes.len() / 16 + 1);
}

/// Writes again what is read: that must be the input, but for padding.
fn check(reader: StateReader<'_>, bytes: &[u8]) {
    let mut pages = vec![Page::ZERO; bytes.len() / 4096 + 1];
    let mut writer = StateWriter::new(&mut pages);
    let mut used = 0;
    let mut ended = false;
    for record in reader {
        assert!(!ended, "a record behind an error");
        let Ok(record) = record else {
            ended = true;
            continue;
        };
        interpret(&record);
        let begin = used + 16;
        assert_eq!(record.payload, &bytes[begin..begin + record.payload.len()]);
        writer
            .record(record.tag, record.version, record.payload)
            .expect("there was room for it before");
        used = begin + record.payload.len().next_multiple_of(8);
    }
    assert!(ended || used == bytes.len(), "bytes are left over");
    assert_eq!(writer.finish(), used as u64);
    for (number, (written, read)) in pages.as_bytes().iter().zip(&bytes[..used]).enumerate() {
        assert!(written == read || *written == 0, "byte {number}");
    }
}

/// A record as the firmware's readers take it.
fn interpret(record: &Record<'_>) {
    let length = record.payload.len();
    assert_eq!(record.words().is_ok(), length.is_multiple_of(8));
    assert_eq!(record.read::<[u64; 6]>().is_ok(), length == 48);
    assert_eq!(record.read::<[u32; 3]>().is_ok(), length == 12);
}
