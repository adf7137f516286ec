#![allow(clippy::cast_possible_truncation, reason = "halves are cut on purpose")]

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::*;

/// The OS's memory: 64 KiB.
const OWN: u64 = 0x8000_0000;
const LENGTH: usize = 64 << 10;
/// Where the firmware's copy is, outside of it.
const PLACE: u64 = 0x9000_0000;

/// What the device was asked, and how it ends that.
#[derive(Debug, Default)]
struct Device {
    place: RequestWords,
    /// Requests that were started, by where they lay and what was there.
    started: Vec<(u64, RequestWords)>,
    /// What it leaves in the control word; `None`: it does not end.
    result: Option<u32>,
    /// The item that is selected, and how far it was read: item `n` has `n` bytes.
    selected: (u16, u32),
}

impl Device {
    fn advance(&mut self, bytes: u32) {
        let (item, offset) = self.selected;
        self.selected.1 = offset.saturating_add(bytes).min(item.into());
    }
}

type Shared = Arc<Mutex<Device>>;

#[derive(Debug)]
struct Model(Shared);

impl Registers<u64> for Model {
    fn read(&self, offset: u64) -> u64 {
        panic!("a load from {offset:#x}: the mediator makes none");
    }

    fn write(&self, offset: u64, value: u64) {
        assert_eq!(offset, register::DMA_HIGH);
        let mut device = self.0.lock().unwrap();
        let words = device.place;
        device.started.push((value.swap_bytes(), words));
        let [control, length, ..] = words;
        if control & 8 != 0 {
            device.selected = ((control >> 16) as u16, 0);
        }
        if control & 0x16 != 0 {
            device.advance(length);
        }
        if let Some(result) = device.result {
            device.place[0] = result;
        }
    }
}

impl Registers<u16> for Model {
    fn read(&self, offset: u64) -> u16 {
        panic!("a load from {offset:#x}: the mediator makes none");
    }

    fn write(&self, offset: u64, value: u16) {
        assert_eq!(offset, register::SELECTOR);
        self.0.lock().unwrap().selected = (value.swap_bytes(), 0);
    }
}

#[derive(Debug)]
struct Place(Shared);

impl RequestPlace for Place {
    fn address(&self) -> u64 {
        PLACE
    }

    fn put(&mut self, words: RequestWords) {
        self.0.lock().unwrap().place = words;
    }

    fn control(&self) -> u32 {
        self.0.lock().unwrap().place[0]
    }
}

#[derive(Clone, Debug)]
struct Memory(Rc<RefCell<Vec<u8>>>);

impl Memory {
    fn new() -> Self {
        Memory(Rc::new(RefCell::new(vec![0xee; LENGTH])))
    }

    fn offset(&self, address: u64, length: u64) -> Option<usize> {
        let offset = usize::try_from(address.checked_sub(OWN)?).ok()?;
        let end = offset.checked_add(usize::try_from(length).ok()?)?;
        (end <= LENGTH).then_some(offset)
    }

    fn request(&self, address: u64, control: u32, length: u32, data: u64) {
        let offset = self.offset(address, 16).expect("the OS's own memory");
        let words = [control, length, (data >> 32) as u32, data as u32];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        self.0.borrow_mut()[offset..][..16].copy_from_slice(&bytes);
    }

    fn control(&self, address: u64) -> u32 {
        let offset = self.offset(address, 4).unwrap();
        u32::from_be_bytes(self.0.borrow()[offset..][..4].try_into().unwrap())
    }
}

impl CallerMemory for Memory {
    fn owns(&self, address: u64, length: u64) -> bool {
        self.offset(address, length).is_some()
    }

    fn read(&self, address: u64) -> Option<[u8; 16]> {
        let offset = self.offset(address, 16)?;
        Some(self.0.borrow()[offset..][..16].try_into().unwrap())
    }

    fn write(&self, address: u64, word: [u8; 4]) {
        if let Some(offset) = self.offset(address, 4) {
            self.0.borrow_mut()[offset..][..4].copy_from_slice(&word);
        }
    }
}

const READ: u32 = 1 << 1;
const SKIP: u32 = 1 << 2;
const SELECT: u32 = 1 << 3 | 0x19 << 16;
const WRITE: u32 = 1 << 4;

fn device() -> (Shared, FwCfg<Model, Place>) {
    let shared = Shared::default();
    shared.lock().unwrap().result = Some(0);
    let device = FwCfg::new(Model(shared.clone()), Place(shared.clone()));
    (shared, device)
}

fn store(device: &mut FwCfg<Model, Place>, offset: u64, bytes: u64, value: u64, memory: &Memory) {
    let ruling = device.rule(offset, bytes, RegisterAccess::Store(value), memory);
    assert_eq!(ruling, Ruling::Done);
}

/// Asks by a store of 64 bits; returns what the control word is then.
fn ask(device: &mut FwCfg<Model, Place>, memory: &Memory, at: u64) -> u32 {
    store(device, 0x10, 8, at.swap_bytes(), memory);
    memory.control(at)
}

#[test]
fn a_request_is_made_from_a_copy() {
    let (shared, mut device) = device();
    let memory = Memory::new();
    let at = OWN + 0x104;
    memory.request(at, READ | SELECT, 0x1000, OWN + 0xf000);
    assert_eq!(ask(&mut device, &memory, at), 0);
    // By halves, the upper one first.
    memory.request(at, WRITE, 0, u64::MAX);
    store(&mut device, 0x10, 4, 0, &memory);
    store(
        &mut device,
        0x14,
        4,
        u64::from((at as u32).swap_bytes()),
        &memory,
    );
    assert_eq!(memory.control(at), control::ERROR, "no byte, but nobody's");
    memory.request(at, SELECT | SKIP, 5, u64::MAX);
    store(
        &mut device,
        0x14,
        4,
        u64::from((at as u32).swap_bytes()),
        &memory,
    );
    assert_eq!(memory.control(at), 0, "no data, no address");
    let started = &shared.lock().unwrap().started;
    assert_eq!(
        *started,
        [
            (PLACE, [READ | SELECT, 0x1000, 0, OWN as u32 + 0xf000]),
            (PLACE, [SELECT | SKIP, 5, u32::MAX, u32::MAX]),
        ]
    );
}

#[test]
fn what_is_not_the_oss_memory_is_refused() {
    let (shared, mut device) = device();
    let memory = Memory::new();
    let end = OWN + LENGTH as u64;
    for control in [READ, WRITE, READ | WRITE | SELECT] {
        for (length, data) in [
            (1, OWN - 1),
            (1, end),
            (17, end - 16),
            (u32::MAX, OWN),
            (16, PLACE),
            (16, 0),
            (16, u64::MAX - 7),
        ] {
            memory.request(OWN, control, length, data);
            let left = ask(&mut device, &memory, OWN);
            assert_eq!(left, control::ERROR, "{length} at {data:#x}");
        }
    }
    let before = memory.0.borrow().clone();
    for at in [OWN - 1, OWN - 16, end - 15, PLACE, u64::MAX - 3] {
        store(&mut device, 0x10, 8, at.swap_bytes(), &memory);
    }
    assert_eq!(*memory.0.borrow(), before, "requests that are nobody's");
    // An upper half counts once.
    memory.request(OWN, SELECT, 0, 0);
    store(&mut device, 0x10, 4, 1, &memory);
    store(
        &mut device,
        0x14,
        4,
        u64::from((OWN as u32).swap_bytes()),
        &memory,
    );
    assert!(shared.lock().unwrap().started.is_empty());
    store(
        &mut device,
        0x14,
        4,
        u64::from((OWN as u32).swap_bytes()),
        &memory,
    );
    assert_eq!(shared.lock().unwrap().started.len(), 1);
}

#[test]
fn the_device_may_refuse_or_not_end() {
    let (shared, mut device) = device();
    let memory = Memory::new();
    shared.lock().unwrap().result = Some(control::ERROR);
    memory.request(OWN, SELECT, 0, 0);
    assert_eq!(ask(&mut device, &memory, OWN), control::ERROR);
    shared.lock().unwrap().result = None;
    for _ in 0..2 {
        memory.request(OWN, SELECT, 0, 0);
        assert_eq!(ask(&mut device, &memory, OWN), control::ERROR);
    }
    assert_eq!(shared.lock().unwrap().started.len(), 2, "one is under way");
    shared.lock().unwrap().place[0] = 0;
    shared.lock().unwrap().result = Some(0);
    memory.request(OWN, SELECT, 0, 0);
    assert_eq!(ask(&mut device, &memory, OWN), 0, "it has ended since");
}

#[test]
fn other_registers_are_the_devices() {
    let (shared, mut device) = device();
    let memory = Memory::new();
    for bytes in [1, 2, 4, 8] {
        for offset in (0..0x1000).step_by(usize::try_from(bytes).unwrap()) {
            let load = device.rule(offset, bytes, RegisterAccess::Load, &memory);
            assert_eq!(load, Ruling::Pass);
            let is_request = (0x10..0x18).contains(&offset);
            let store = device.rule(offset, bytes, RegisterAccess::Store(0), &memory);
            let expected = match bytes {
                4 | 8 if is_request => Ruling::Done,
                _ if is_request => Ruling::Fault,
                _ => Ruling::Pass,
            };
            assert_eq!(store, expected, "{bytes} at {offset:#x}");
        }
    }
    assert!(shared.lock().unwrap().started.is_empty());
}

/// What an OS does to the device.
#[derive(Clone, Debug)]
enum Step {
    Select(u16),
    Read(u64),
    Ask { control: u32, length: u32 },
    High(u32),
    Other(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let width = prop_oneof![Just(1_u64), Just(2), Just(4), Just(8)];
    let kind = prop_oneof![Just(0_u32), Just(READ), Just(SKIP), Just(READ | SKIP)];
    let item = prop_oneof![Just(None), (0_u32..0x40).prop_map(Some)];
    let control = (kind, item)
        .prop_map(|(kind, item)| kind | item.map_or(0, |item| control::SELECT | item << 16));
    prop_oneof![
        (0_u16..0x40).prop_map(Step::Select),
        width.clone().prop_map(Step::Read),
        (control, prop_oneof![0_u32..0x50, Just(u32::MAX)])
            .prop_map(|(control, length)| Step::Ask { control, length }),
        any::<u32>().prop_map(Step::High),
        // A store to the data register, which changes nothing.
        width.prop_map(Step::Other),
    ]
}

/// Makes a step as the device sees it.
fn make(
    step: &Step,
    device: &mut FwCfg<Model, Place>,
    shared: &Shared,
    memory: &Memory,
) -> Result<(), TestCaseError> {
    match *step {
        Step::Select(item) => {
            let access = RegisterAccess::Store(item.swap_bytes().into());
            prop_assert_eq!(device.rule(8, 2, access, memory), Ruling::Pass);
            shared.lock().unwrap().selected = (item, 0);
        }
        Step::Read(bytes) => {
            let ruling = device.rule(0, bytes, RegisterAccess::Load, memory);
            prop_assert_eq!(ruling, Ruling::Pass);
            shared.lock().unwrap().advance(bytes as u32);
        }
        Step::Ask { control, length } => {
            let moves_data = control & READ != 0;
            let length = if moves_data { length.min(0x50) } else { length };
            memory.request(OWN, control, length, OWN + 0x1000);
            prop_assert_eq!(ask(device, memory, OWN), 0);
        }
        Step::High(high) => store(device, 0x10, 4, u64::from(high.swap_bytes()), memory),
        Step::Other(bytes) => {
            let ruling = device.rule(0, bytes, RegisterAccess::Store(7), memory);
            prop_assert_eq!(ruling, Ruling::Pass);
        }
    }
    Ok(())
}

proptest! {
    /// What an OS has selected, how far it has read it, and its half of an address are put
    /// back on a device that has just been powered.
    #[test]
    fn what_is_selected_is_put_back(steps in proptest::collection::vec(step(), 0..20)) {
        let (shared, mut old) = device();
        let memory = Memory::new();
        for step in &steps {
            make(step, &mut old, &shared, &memory)?;
        }
        let state = old.capture().expect("nothing is in the way");
        let left = shared.lock().unwrap().selected;
        let (powered, mut new) = device();
        prop_assert!(new.put_back(&state));
        prop_assert_eq!(powered.lock().unwrap().selected, left);
        prop_assert_eq!(new.capture(), Some(state));
        // The half of an address counts as it would have.
        memory.request(OWN, SELECT, 0, 0);
        let low = u64::from((OWN as u32).swap_bytes());
        for (device, shared) in [(&mut old, &shared), (&mut new, &powered)] {
            shared.lock().unwrap().started.clear();
            store(device, 0x14, 4, low, &memory);
        }
        let [old, new] = [shared, powered].map(|shared| shared.lock().unwrap().started.len());
        prop_assert_eq!(old, new);
    }
}

#[test]
fn a_device_that_was_written_to_or_does_not_end_is_not_captured() {
    let memory = Memory::new();
    let (shared, mut device) = device();
    memory.request(OWN, WRITE | SELECT, 4, OWN + 0x1000);
    assert_eq!(ask(&mut device, &memory, OWN), 0);
    assert_eq!(device.capture(), None);

    let (shared, mut device) = {
        drop(shared);
        self::device()
    };
    shared.lock().unwrap().result = None;
    memory.request(OWN, SELECT, 0, 0);
    ask(&mut device, &memory, OWN);
    assert_eq!(device.capture(), None);
    assert!(!device.put_back(&FwCfgState {
        offset: 3,
        ..FwCfgState::default()
    }));
}

#[test]
fn a_previous_stage_leaves_nothing_selected() {
    let (shared, mut device) = device();
    shared.lock().unwrap().selected = (0x19, 7);
    device.start();
    assert_eq!(shared.lock().unwrap().selected, (0, 0));
    assert_eq!(device.capture(), Some(FwCfgState::default()));
}
