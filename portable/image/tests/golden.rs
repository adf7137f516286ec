//! Images of this format, plain and sealed, kept as text: a change of the format shows here, and
//! has to raise the format's version and make the golden images anew.

mod common;

use std::fmt::Write as _;
use std::path::PathBuf;

use common::{Free, MIB, Machine};
use poorwill_image::{FORMAT_VERSION, Header};
use poorwill_medium::fake::FakeMedium;
use poorwill_memory::{FreeContents, Page, Run, to_usize};
use zerocopy::IntoBytes;

/// Bytes in a line of the text.
const LINE: usize = 32;

fn machine() -> Machine {
    let mut machine = Machine::filled(&[2, 3, 644], |index| index % 3 == 1 && index < 9);
    let run = Run {
        first: 9,
        pages: 600,
    };
    machine.free = Some(Free(vec![run], FreeContents::Anything));
    machine.fill_table(612..648);
    machine
}

/// Both kinds, with their names.
fn machines() -> [(&'static str, Machine); 2] {
    [("plain", machine()), ("sealed", machine().sealing())]
}

fn path(kind: &str) -> PathBuf {
    let name = format!("tests/golden/format-{FORMAT_VERSION}-{kind}.txt");
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Offset and contents of each line that is not all zeros.
fn to_text(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (line, bytes) in bytes.chunks(LINE).enumerate() {
        if bytes.iter().any(|byte| *byte != 0) {
            write!(text, "{:08x} ", line * LINE).unwrap();
            bytes
                .iter()
                .for_each(|byte| write!(text, "{byte:02x}").unwrap());
            text.push('\n');
        }
    }
    text
}

fn fill_from_text(bytes: &mut [u8], text: &str) {
    for line in text.lines() {
        let (offset, contents) = line.split_once(' ').unwrap();
        let offset = usize::from_str_radix(offset, 16).unwrap();
        for (place, byte) in contents.as_bytes().chunks(2).enumerate() {
            let byte = str::from_utf8(byte).unwrap();
            bytes[offset + place] = u8::from_str_radix(byte, 16).unwrap();
        }
    }
}

#[test]
fn images_are_written_as_ever() {
    for (kind, mut machine) in machines() {
        let mut medium = FakeMedium::new(2 * MIB);
        let saved = machine.save(&mut medium).unwrap();
        let text = to_text(&medium.bytes()[..to_usize(saved.image_bytes())]);
        if std::env::var_os("POORWILL_BLESS").is_some() {
            std::fs::write(path(kind), &text).unwrap();
        }
        assert_eq!(
            text,
            std::fs::read_to_string(path(kind)).unwrap(),
            "the format of {kind} images has changed: raise its version"
        );
    }
}

#[test]
fn images_of_old_are_read() {
    for (kind, mut machine) in machines() {
        let mut medium = FakeMedium::new(2 * MIB);
        let text = std::fs::read_to_string(path(kind)).unwrap();
        medium.edit(|bytes| fill_from_text(bytes, &text));
        let mut page = Page::ZERO;
        page.as_mut_bytes().copy_from_slice(&medium.bytes()[..4096]);
        let committed = Header::parse(&page).unwrap().checksum;

        let wanted = machine.memory.contents();
        machine.fill(99, |_| true);
        machine.load(&mut medium, committed).unwrap().unwrap();
        assert!(machine.memory.contents() == wanted);
    }
}
