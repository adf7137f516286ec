use super::model::{DISALLOWED, NOT_VALID, WRITE_FAULT};
use super::*;
use crate::iommu::register::CQH;

const RAM: u64 = 0x8000_0000;

#[test]
fn a_device_reaches_its_map_alone() {
    for is_wide in [false, true] {
        let model = Model::new(is_wide);
        let (mut iommu, mut pages) = started(&model, 20);
        let ranges = [writable(RAM, 0x20_0000), writable(0x2800_0000, PAGE)];
        let map = iommu.map(&mut pages, ranges.iter().copied()).unwrap();
        iommu
            .set(&mut pages, DeviceId(8), &Context::Mapped(map))
            .unwrap();
        assert_eq!(model.access((8, RAM, true)), Ok(RAM));
        assert_eq!(
            model.access((8, RAM + 0x1f_fff8, true)),
            Ok(RAM + 0x1f_fff8)
        );
        assert_eq!(model.access((8, RAM + 0x20_0000, true)), Err(WRITE_FAULT));
        // The message page of its own hart, and of the next.
        assert_eq!(model.access((8, 0x2800_0000, true)), Ok(0x2800_0000));
        assert_eq!(model.access((8, 0x2800_1000, true)), Err(WRITE_FAULT));
        assert_eq!(model.access((9, RAM, true)), Err(NOT_VALID));
        assert_eq!(model.access((0x400, RAM, true)), Err(DISALLOWED));
    }
}

#[test]
fn a_passed_device_reaches_everything_and_the_others_nothing() {
    let model = Model::new(true);
    let (mut iommu, mut pages) = started(&model, 0);
    iommu
        .set(&mut pages, DeviceId(0x18), &Context::PassThrough)
        .unwrap();
    for address in [0, RAM, TABLES, 1 << 50] {
        assert_eq!(model.access((0x18, address, true)), Ok(address));
        assert_eq!(model.access((0x19, address, true)), Err(NOT_VALID));
    }
}

#[test]
fn a_closed_device_reaches_nothing_even_if_it_was_warm() {
    let model = Model::new(true);
    let (mut iommu, mut pages) = started(&model, 10);
    let map = iommu
        .map(&mut pages, [writable(RAM, 0x20_0000)].into_iter())
        .unwrap();
    for device in [8, 16] {
        iommu
            .set(&mut pages, DeviceId(device), &Context::Mapped(map))
            .unwrap();
        assert_eq!(model.access((device, RAM, true)), Ok(RAM));
    }
    iommu.close(DeviceId(8)).unwrap();
    assert_eq!(model.access((8, RAM, true)), Err(NOT_VALID));
    assert_eq!(model.access((16, RAM, true)), Ok(RAM));
    // Closing again, and closing a device without a directory page, changes nothing.
    iommu.close(DeviceId(8)).unwrap();
    iommu.close(DeviceId(0x1234)).unwrap();
    assert_eq!(model.access((16, RAM, true)), Ok(RAM));
}

#[test]
fn a_new_map_replaces_the_old_one() {
    let model = Model::new(true);
    let (mut iommu, mut pages) = started(&model, 20);
    let old = iommu
        .map(&mut pages, [writable(RAM, PAGE)].into_iter())
        .unwrap();
    let new = iommu
        .map(&mut pages, [writable(RAM + PAGE, PAGE)].into_iter())
        .unwrap();
    let device = DeviceId(8);
    iommu
        .set(&mut pages, device, &Context::Mapped(old))
        .unwrap();
    model.access((8, RAM, true)).unwrap();
    iommu
        .set(&mut pages, device, &Context::Mapped(new))
        .unwrap();
    assert_eq!(model.access((8, RAM, true)), Err(WRITE_FAULT));
    assert_eq!(model.access((8, RAM + PAGE, true)), Ok(RAM + PAGE));
    iommu.set(&mut pages, device, &Context::Closed).unwrap();
    assert_eq!(model.access((8, RAM + PAGE, true)), Err(NOT_VALID));
}

#[test]
fn a_higher_bus_adds_levels_through_off() {
    let model = Model::new(true);
    let (mut iommu, mut pages) = started(&model, 20);
    let map = iommu
        .map(&mut pages, [writable(RAM, PAGE)].into_iter())
        .unwrap();
    iommu
        .set(&mut pages, DeviceId(8), &Context::Mapped(map))
        .unwrap();
    model.access((8, RAM, true)).unwrap();
    assert_eq!(model.access((0x100, RAM, true)), Err(DISALLOWED));
    iommu
        .set(&mut pages, DeviceId(0x100), &Context::Mapped(map))
        .unwrap();
    iommu
        .set(&mut pages, DeviceId(0xff_ffff), &Context::PassThrough)
        .unwrap();
    assert_eq!(model.state.borrow().modes, [2, 0, 3, 0, 4]);
    for device in [8, 0x100, 0xff_ffff] {
        assert_eq!(model.access((device, RAM, true)), Ok(RAM), "{device:#x}");
    }
    assert_eq!(model.access((0x101, RAM, true)), Err(NOT_VALID));
}

#[test]
fn a_refused_level_leaves_the_other_devices_their_contexts() {
    let mut model = Model::new(true);
    model.max_levels = 1;
    let (mut iommu, mut pages) = started(&model, 20);
    let passed = Context::PassThrough;
    iommu.set(&mut pages, DeviceId(8), &passed).unwrap();
    let outcome = iommu.set(&mut pages, DeviceId(0x40), &passed);
    assert_eq!(outcome, Err(IommuError::Levels(2)));
    assert_eq!(model.access((8, RAM, true)), Ok(RAM));
    assert_eq!(model.access((0x40, RAM, true)), Err(DISALLOWED));
    iommu.close(DeviceId(8)).unwrap();
    assert_eq!(model.access((8, RAM, true)), Err(NOT_VALID));
}

#[test]
fn a_change_without_an_answer_fails_and_never_claims_success() {
    let model = Model::new(true);
    let (mut iommu, mut pages) = started(&model, 20);
    iommu
        .set(&mut pages, DeviceId(8), &Context::PassThrough)
        .unwrap();
    model.access((8, RAM, true)).unwrap();
    model.is_stuck.set(true);
    let polls = MAX_POLLS;
    assert_eq!(iommu.close(DeviceId(8)), Err(IommuError::Stalled { polls }));
    // It still uses its cached context, as the error says.
    assert_eq!(model.access((8, RAM, true)), Ok(RAM));
    // Each later change fails as well, quickly, and however many there are.
    model.reads.set(0);
    for _ in 0..300 {
        assert_eq!(iommu.close(DeviceId(8)), Err(IommuError::Stalled { polls }));
    }
    assert!(model.reads.get() < 1000);
    // It comes back: the same call closes the device.
    model.is_stuck.set(false);
    let _: u32 = Registers::read(&model, CQH);
    iommu.close(DeviceId(8)).unwrap();
    assert_eq!(model.access((8, RAM, true)), Err(NOT_VALID));
}

#[test]
fn after_a_refused_command_each_change_fails() {
    let model = Model::new(true);
    let (mut iommu, mut pages) = started(&model, 20);
    model.is_picky.set(true);
    for device in 9..400 {
        let outcome = iommu.set(&mut pages, DeviceId(device % 64), &Context::PassThrough);
        assert!(
            matches!(outcome, Err(IommuError::Stopped(_))),
            "{outcome:?}"
        );
    }
}

#[test]
fn many_changes_fit_the_command_queue() {
    let model = Model::new(false);
    let (mut iommu, mut pages) = started(&model, 0);
    for round in 0..300 {
        iommu
            .set(&mut pages, DeviceId(5), &Context::PassThrough)
            .unwrap();
        assert_eq!(model.access((5, RAM, true)), Ok(RAM), "{round}");
        iommu.close(DeviceId(5)).unwrap();
        assert_eq!(model.access((5, RAM, true)), Err(NOT_VALID), "{round}");
    }
}

/// While a context changes, no device reaches more than before and after.
#[test]
fn no_step_of_a_change_opens_more() {
    for (is_wide, is_late) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut model = Model::new(is_wide);
        model.is_late = is_late;
        let (mut iommu, mut pages) = started(&model, 40);
        let old = iommu
            .map(&mut pages, [writable(RAM, PAGE)].into_iter())
            .unwrap();
        let new = iommu
            .map(&mut pages, [read_only(RAM + PAGE, PAGE)].into_iter())
            .unwrap();
        let device = DeviceId(8);
        iommu
            .set(&mut pages, device, &Context::Mapped(old))
            .unwrap();
        iommu
            .set(&mut pages, DeviceId(9), &Context::PassThrough)
            .unwrap();
        let pages_of_ram = (0..4).map(|page| RAM + page * PAGE);
        let all: Vec<Request> = pages_of_ram
            .flat_map(|address| [(8, address, false), (8, address, true)])
            .chain([
                (10, RAM, false),
                (0x100, RAM, false),
                (0x100, RAM + PAGE, false),
            ])
            .collect();
        // The old map is cached.
        model.access((8, RAM, true)).unwrap();
        model.state.borrow_mut().probes = all;
        iommu
            .set(&mut pages, device, &Context::Mapped(new))
            .unwrap();
        let next = iommu
            .map(&mut pages, [writable(RAM, PAGE)].into_iter())
            .unwrap();
        iommu
            .set(&mut pages, DeviceId(0x100), &Context::Mapped(next))
            .unwrap();
        iommu.close(device).unwrap();
        let reached = model.state.borrow().reached.clone();
        let expected: [Request; 4] = [
            (8, RAM, false),
            (8, RAM, true),
            (8, RAM + PAGE, false),
            (0x100, RAM, false),
        ];
        assert_eq!(reached, expected.into());
        model.state.borrow_mut().probes.clear();
        assert_eq!(model.access((8, RAM + PAGE, false)), Err(NOT_VALID));
    }
}

#[test]
fn an_id_is_a_functions_routing_id() {
    let function = Function {
        bus: 1,
        device: 2,
        function: 3,
    };
    assert_eq!(DeviceId::from(function), DeviceId(0x113));
}
