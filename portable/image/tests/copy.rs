//! Copies of images, for other machines of the same kind.

mod common;

use common::{MIB, Machine, committed, key};
use poorwill_image::{
    CopyError, CopyRequest, OpenError, PIECE_PAGES, Salt, SaveError, Saved, Seal, SealError,
    SealingKey, Workspace, copy,
};
use poorwill_medium::fake::FakeMedium;
use poorwill_memory::{Page, to_usize};

const PAGES: u64 = 600;

fn machine() -> Machine {
    Machine::filled(&[400, 200], |index| !index.is_multiple_of(5))
}

fn copied(
    from: &mut FakeMedium,
    to: &mut FakeMedium,
    header_checksum: u64,
    keys: [Option<&SealingKey>; 2],
) -> Result<Saved, CopyError> {
    let mut pages = vec![Page::ZERO; to_usize(Workspace::pages_needed(PAGES))];
    let workspace = Workspace::new(&mut pages, PAGES).unwrap();
    let committed = committed(header_checksum);
    let request = CopyRequest {
        committed,
        key: keys[0],
        generation: committed.generation,
        seal: keys[1].map(|key| Seal {
            key,
            salt: Salt([9; 8]),
        }),
    };
    let mut scratch = vec![Page::ZERO; to_usize(PIECE_PAGES)];
    copy(from, to, &request, workspace, &mut scratch, &mut |_| ())
}

#[test]
fn a_copy_wakes_as_its_image_does() {
    let (one, other) = (key(1), key(2));
    let keys = [None, Some(&one), Some(&other)];
    for (old, new) in keys.iter().flat_map(|old| keys.map(|new| (*old, new))) {
        let mut machine = machine();
        machine.key = old.cloned();
        let contents = machine.memory.contents();
        let mut from = FakeMedium::new(4 * MIB);
        let saved = machine.save(&mut from).unwrap();
        let mut to = FakeMedium::new(4 * MIB);
        let copy = copied(&mut from, &mut to, saved.header_checksum(), [old, new]).unwrap();
        assert_eq!(copy.image_bytes(), saved.image_bytes());
        assert_eq!(copy.saved_pages(), saved.saved_pages());
        to.restart();
        machine.key = new.cloned();
        machine.fill(77, |_| true);
        let loaded = machine.load(&mut to, copy.header_checksum()).unwrap();
        loaded.unwrap();
        assert!(machine.memory.contents() == contents);
    }
}

#[test]
fn what_is_damaged_is_not_copied() {
    for sealed in [None, Some(key(1))] {
        let mut machine = machine();
        machine.key = sealed.clone();
        let mut from = FakeMedium::new(4 * MIB);
        let saved = machine.save(&mut from).unwrap();
        let key = sealed.as_ref();
        let mut refused = 0;
        // The header, some sections, and in the data each piece.
        let used = |from: &FakeMedium, page: u64| {
            let start = to_usize(page * 4096);
            from.bytes()[start..start + 4096]
                .iter()
                .any(|byte| *byte != 0)
        };
        for page in (0..8).chain((256..saved.image_bytes() / 4096).step_by(100)) {
            if !used(&from, page) {
                continue;
            }
            from.flip(page * 4096 + 40, 3);
            let mut to = FakeMedium::new(4 * MIB);
            let result = copied(&mut from, &mut to, saved.header_checksum(), [key, None]);
            assert!(result.is_err(), "page {page}");
            refused += 1;
            from.flip(page * 4096 + 40, 3);
        }
        assert!(refused > 6, "{refused}");
    }
}

#[test]
fn a_copy_takes_the_key_and_the_room() {
    let mut machine = machine().sealing();
    let mut from = FakeMedium::new(4 * MIB);
    let checksum = machine.save(&mut from).unwrap().header_checksum();
    let mut to = FakeMedium::new(4 * MIB);
    let seal = |error| Err(CopyError::Open(OpenError::Seal(error)));
    let result = copied(&mut from, &mut to, checksum, [None, None]);
    assert_eq!(result, seal(SealError::NoKey));
    let result = copied(&mut from, &mut to, checksum, [Some(&key(8)), None]);
    assert_eq!(result, seal(SealError::OtherKey));
    let mut small = FakeMedium::new(MIB);
    let result = copied(&mut from, &mut small, checksum, [Some(&key(7)), None]);
    assert!(matches!(
        result,
        Err(CopyError::Save(SaveError::TooSmall { .. }))
    ));
}
