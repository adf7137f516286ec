//! The machine's state: sections of any bytes are found, or the state is refused.
#![cfg_attr(fuzzing, no_main)]

use poorwill_fuzz::Input;
use poorwill_fuzz::image::{Forged, here, workspace};
use poorwill_image::{
    MAX_STATE_SECTIONS, StateError, StateSection, StateSections, StateWriter, Workspace, open,
};
use poorwill_memory::Page;
use zerocopy::IntoBytes;

poorwill_fuzz::target!(max_len = 9000, run);

fn run(bytes: &[u8]) {
    let mut image = Forged::new(&mut Input::new(&[]), 1, bytes);
    let mut room = workspace(1);
    let workspace = Workspace::new(&mut room, 1).expect("enough room");
    let opened = open(&mut image.slot, image.committed, &here(1), workspace);
    let opened = opened.expect("an image with any state opens");
    match opened.state() {
        Ok(sections) => check(&sections, bytes),
        Err(StateError::Malformed(at)) => assert!(at < bytes.len(), "beyond the end"),
        Err(StateError::TooMany) => assert!(bytes.len() >= 16 * MAX_STATE_SECTIONS),
        Err(StateError::Twice { .. }) => assert!(bytes.len() >= 32),
        Err(error) => panic!("reading fails as writing does: {error}"),
    }
}

/// Writes again what is read: that must be the input, but for padding.
fn check(sections: &StateSections<'_>, bytes: &[u8]) {
    let mut pages = vec![Page::ZERO; bytes.len() / 4096 + 1];
    let mut writer = StateWriter::new(&mut pages);
    let mut used = 0;
    for section in sections.left() {
        interpret(section);
        let begin = used + 16;
        assert_eq!(
            section.payload,
            &bytes[begin..begin + section.payload.len()]
        );
        let StateSection {
            owner,
            number,
            version,
            payload,
        } = *section;
        writer
            .section(owner, number, version, payload)
            .expect("there was room for it before");
        used = begin + payload.len().next_multiple_of(8);
    }
    assert_eq!(used, bytes.len(), "bytes are left over");
    assert_eq!(writer.finish(), used as u64);
    for (number, (written, read)) in pages.as_bytes().iter().zip(bytes).enumerate() {
        assert!(written == read || *written == 0, "byte {number}");
    }
}

/// A section as the firmware's readers take it.
fn interpret(section: &StateSection<'_>) {
    let (length, version) = (section.payload.len(), section.version);
    assert_eq!(
        section.read::<[u64]>(version).is_ok(),
        length.is_multiple_of(8)
    );
    assert_eq!(section.read::<[u64; 6]>(version).is_ok(), length == 48);
    assert_eq!(section.read::<[u32; 3]>(version).is_ok(), length == 12);
    assert!(section.read::<[u8]>(version.wrapping_add(1)).is_err());
}
