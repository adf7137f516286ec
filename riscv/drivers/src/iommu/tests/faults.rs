use super::*;

const RAM: u64 = 0x8000_0000;

#[test]
fn a_fault_names_device_cause_access_and_address() {
    let model = Model::new(true);
    let (mut iommu, mut pages) = started(&model, 10);
    let map = iommu
        .map(&mut pages, [read_only(RAM, PAGE)].into_iter())
        .unwrap();
    iommu
        .set(&mut pages, DeviceId(8), &Context::Mapped(map))
        .unwrap();
    let cases = [
        ((8, RAM, true), FaultCause::Outside, Access::Write),
        ((8, RAM + PAGE, false), FaultCause::Outside, Access::Read),
        ((9, RAM, true), FaultCause::Closed, Access::Write),
        (
            (0x12_3456, RAM, false),
            FaultCause::Disallowed,
            Access::Read,
        ),
    ];
    for (request, ..) in cases {
        model.access(request).unwrap_err();
    }
    let mut faults = Vec::new();
    let drained = iommu.drain_faults(128, |fault| faults.push(fault));
    let expected: Vec<Fault> = cases
        .map(|((device, address, _), cause, access)| Fault {
            device: DeviceId(device),
            cause,
            access,
            address,
        })
        .into();
    assert_eq!(faults, expected);
    let four = Drained {
        records: 4,
        ..Drained::default()
    };
    assert_eq!(drained, four);
    assert_eq!(iommu.drain_faults(128, |_| panic!()), Drained::default());
}

#[test]
fn a_drain_takes_as_many_as_it_may_in_order() {
    let model = Model::new(true);
    let (mut iommu, _) = started(&model, 0);
    let mut next = 0;
    let mut seen = 0;
    // More than the queue holds in total, so that both indices wrap.
    for _ in 0..100 {
        for _ in 0..3 {
            model.access((1, next * PAGE, false)).unwrap_err();
            next += 1;
        }
        let drained = iommu.drain_faults(2, |fault| {
            assert_eq!(fault.address, seen * PAGE);
            seen += 1;
        });
        assert_eq!((drained.records, drained.has_more), (2, true));
        let drained = iommu.drain_faults(2, |_| seen += 1);
        assert_eq!((drained.records, drained.has_more), (1, false));
    }
    assert_eq!((next, seen, iommu.overflows()), (300, 300, 0));
}

#[test]
fn after_an_overflow_records_come_again_and_each_is_counted() {
    let model = Model::new(true);
    let (mut iommu, _) = started(&model, 0);
    for round in 1..4 {
        for _ in 0..200 {
            model.access((1, RAM, false)).unwrap_err();
        }
        let drained = iommu.drain_faults(1, |_| {});
        assert!(drained.has_overflowed && drained.has_more);
        assert_eq!(iommu.overflows(), round);
        // There is room for one record.
        model.access((7, RAM, false)).unwrap_err();
        let mut last = None;
        let drained = iommu.drain_faults(128, |fault| last = Some(fault.device));
        assert_eq!((drained.records, drained.has_overflowed), (127, false));
        assert_eq!(last, Some(DeviceId(7)));
    }
    assert_eq!(iommu.overflows(), 3);
    assert_eq!(model.state.borrow().lost, 3 * (200 - 127));
}

#[test]
fn a_record_that_could_not_be_written_is_told_and_recording_goes_on() {
    let model = Model::new(true);
    let (mut iommu, _) = started(&model, 0);
    model.state.borrow_mut().fault_queue.errors = 1 << 8;
    model.access((1, RAM, false)).unwrap_err();
    let drained = iommu.drain_faults(8, |_| panic!());
    assert!(drained.has_failed && drained.records == 0);
    model.access((1, RAM, false)).unwrap_err();
    assert_eq!(iommu.drain_faults(8, |_| {}).records, 1);
}

#[test]
fn other_causes_keep_their_numbers() {
    let other = FaultCause::Other(257);
    assert_eq!(other.to_string(), "IOMMU cause 257");
    let words = [
        (FaultCause::Off, "the IOMMU is off"),
        (FaultCause::Closed, "its context is closed"),
        (FaultCause::Outside, "the address is outside its map"),
    ];
    for (cause, text) in words {
        assert_eq!(cause.to_string(), text);
    }
}
