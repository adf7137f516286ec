//! One namespace behind two controllers, and two that merely look alike.

use super::model::{Fault, with_disk};
use super::{queue_memory, start};
use crate::nvme::fake::{Disk, Space};
use crate::nvme::{Identifiers, NvmeError, SharedNamespace};

const NAME: &str = "nqn.2014-08.org.nvmexpress:two-ports";

/// What a controller says of its namespace 1, after `change`.
fn said_by(
    controller: u16,
    change: impl FnOnce(&mut Disk, &mut Space, &mut u32),
) -> Option<SharedNamespace> {
    let mut space = Space::new(1, 9, 8);
    space.is_shared = true;
    space.identifiers.nguid = [7; 16];
    let mut disk = Disk::new(Vec::new());
    disk.subsystem = (NAME, controller);
    let mut version = 0x0001_0400;
    change(&mut disk, &mut space, &mut version);
    disk.namespaces.push(space);
    let model = with_disk(disk);
    model.with(|state| state.core.registers.version = version);
    let mut memory = queue_memory();
    let mut controller = start(&model, &mut memory).unwrap();
    controller.shared_namespace(1).unwrap()
}

/// Whether two controllers reach one namespace. Both are changed alike, then the second.
fn is_one(
    both: impl Fn(&mut Disk, &mut Space, &mut u32),
    second: impl FnOnce(&mut Disk, &mut Space),
) -> bool {
    let first = said_by(0, &both);
    let other = said_by(1, |disk, space, version| {
        both(disk, space, version);
        second(disk, space);
    });
    first.zip(other).is_some_and(|(first, other)| {
        assert_eq!(first.is_same(&other), other.is_same(&first));
        first.is_same(&other)
    })
}

#[test]
fn a_shared_namespace_is_one_through_two_controllers() {
    assert!(is_one(|_, _, _| {}, |_, _| {}));
    let with = |identifiers: Identifiers| {
        is_one(
            move |_, space, _| space.identifiers = identifiers,
            |_, _| {},
        )
    };
    let none = Identifiers::default();
    assert!(with(Identifiers {
        eui64: [3; 8],
        ..none
    }));
    assert!(with(Identifiers {
        uuid: [4; 16],
        ..none
    }));
    assert!(with(none), "its number identifies it");
    // Some controllers list an identifier that they do not describe.
    let listed_alone = |_: &mut Disk, space: &mut Space, _: &mut u32| {
        space.describes_identifiers = false;
        space.identifiers = Identifiers {
            eui64: [3; 8],
            ..Identifiers::default()
        };
    };
    assert!(is_one(listed_alone, |_, _| {}));
    assert!(
        !is_one(listed_alone, |_, space| space.identifiers.eui64 = [4; 8]),
        "another one is listed"
    );
}

#[test]
fn namespaces_that_look_alike_are_two() {
    let same = |_: &mut Disk, _: &mut Space, _: &mut u32| {};
    assert!(
        !is_one(|_, space, _| space.is_shared = false, |_, _| {}),
        "the same identifiers, not shared"
    );
    assert!(
        !is_one(same, |_, space| space.is_shared = false),
        "shared by one of them only"
    );
    assert!(
        !is_one(same, |disk, _| disk.subsystem.0 =
            "nqn.2014-08.org.nvmexpress:other"),
        "of another subsystem"
    );
    assert!(
        !is_one(|disk, _, _| disk.subsystem.0 = "", |_, _| {}),
        "of subsystems without a name"
    );
    assert!(
        !is_one(same, |disk, _| disk.subsystem.1 = 0),
        "of two subsystems of one name, each with a controller 0"
    );
    for change in [
        (|identifiers| identifiers.nguid = [8; 16]) as fn(&mut Identifiers),
        |identifiers| identifiers.eui64 = [1; 8],
        |identifiers| identifiers.uuid = [1; 16],
    ] {
        assert!(!is_one(same, |_, space| change(&mut space.identifiers)));
    }
}

#[test]
fn another_number_is_another_namespace() {
    let first = said_by(0, |_, _, _| {}).unwrap();
    let second = SharedNamespace {
        controller: 1,
        id: 2,
        ..first
    };
    assert!(!first.is_same(&second));
}

#[test]
fn a_controller_before_version_1_3_has_no_uuid() {
    let uuid = |version_found: u32| {
        let said = said_by(0, |_, space, version| {
            *version = version_found;
            space.identifiers.uuid = [4; 16];
        });
        said.unwrap().identifiers.uuid
    };
    assert_eq!(uuid(0x0001_0201), [0; 16]);
    assert_eq!(uuid(0x0001_0300), [4; 16]);
}

#[test]
fn a_stopped_controller_is_not_asked() {
    let model = with_disk(Disk::new(vec![Space::new(1, 9, 8)]));
    let mut memory = queue_memory();
    let mut controller = start(&model, &mut memory).unwrap();
    assert_eq!(controller.shared_namespace(1), Ok(None));
    assert_eq!(
        controller.shared_namespace(2),
        Err(NvmeError::NoNamespace(2))
    );
    model.with(|state| state.hooks.fault = Fault::Stall(0));
    let mut page = [poorwill_memory::Page::ZERO];
    crate::Medium::read(&mut controller.medium(1).unwrap(), 0, &mut page).unwrap_err();
    assert_eq!(controller.shared_namespace(1), Err(NvmeError::Stopped));
}
