//! Triggers on one instruction, over models of harts.

use std::cell::RefCell;

use poorwill_hart::trigger::{NoTrigger, Register, TriggerAccess, Triggers, clear, set};

const ADDRESS: u64 = 0xffff_ffff_8075_9fde;

const TYPE: u64 = 0xf << 60;
const MATCH: u64 = 2 << 60;
const MATCH_6: u64 = 6 << 60;
const COUNT: u64 = 3 << 60;
const DISABLED: u64 = 15 << 60;
const DEBUGGER: u64 = 1 << 59;

/// S-mode, before an execution: all other bits are zero.
const FIRES: u64 = 1 << 4 | 1 << 2;

/// One trigger: `tdata1` to `tdata3`, the types that it takes, and bits that it does not keep.
#[derive(Clone, Debug)]
struct Trigger {
    data: [u64; 3],
    kinds: Vec<u64>,
    lost: u64,
}

impl Trigger {
    fn new(data1: u64, kinds: &[u64]) -> Self {
        Trigger {
            data: [data1, 0, 7],
            kinds: kinds.to_vec(),
            lost: 0,
        }
    }

    fn fires_at(&self) -> Option<u64> {
        (self.data[0] & !TYPE & !DEBUGGER == FIRES).then_some(self.data[1])
    }
}

/// A hart whose `tselect` keeps the numbers of its triggers.
#[derive(Debug, Default)]
struct Hart {
    triggers: RefCell<Vec<Trigger>>,
    selected: RefCell<usize>,
    has_no_context: bool,
}

impl Hart {
    fn of(triggers: Vec<Trigger>) -> Self {
        Hart {
            triggers: RefCell::new(triggers),
            ..Hart::default()
        }
    }

    fn fires_at(&self) -> Vec<u64> {
        let triggers = self.triggers.borrow();
        triggers.iter().filter_map(Trigger::fires_at).collect()
    }
}

impl TriggerAccess for Hart {
    fn read(&self, register: Register) -> Option<u64> {
        let triggers = self.triggers.borrow();
        let selected = *self.selected.borrow();
        let trigger = triggers.get(selected)?;
        Some(match register {
            Register::Select => selected as u64,
            Register::Data1 => trigger.data[0],
            Register::Data2 => trigger.data[1],
            Register::Data3 if self.has_no_context => return None,
            Register::Data3 => trigger.data[2],
        })
    }

    fn write(&self, register: Register, value: u64) -> bool {
        let mut triggers = self.triggers.borrow_mut();
        let count = triggers.len();
        let number = poorwill_memory::to_usize(value);
        let Some(trigger) = triggers.get_mut(*self.selected.borrow()) else {
            return false;
        };
        match register {
            Register::Select if number < count => {
                *self.selected.borrow_mut() = number;
            }
            Register::Data3 if self.has_no_context => return false,
            Register::Data1 if trigger.kinds.contains(&(value & TYPE)) => {
                trigger.data[0] = value & !trigger.lost;
            }
            Register::Data2 => {
                assert_eq!(
                    trigger.fires_at(),
                    None,
                    "an address changes while it is off"
                );
                trigger.data[1] = value;
            }
            Register::Data3 => trigger.data[2] = value,
            // QEMU ignores other writes.
            Register::Select | Register::Data1 => {}
        }
        true
    }
}

#[test]
fn each_kind_of_match_serves() {
    for kinds in [
        &[MATCH][..],
        &[MATCH_6],
        &[MATCH, MATCH_6],
        &[MATCH, DISABLED, COUNT],
    ] {
        let hart = Hart::of(vec![Trigger::new(kinds[0], kinds)]);
        assert_eq!(set(&hart, ADDRESS), Some(0), "{kinds:x?}");
        assert_eq!(hart.fires_at(), [ADDRESS]);
        assert_eq!(hart.triggers.borrow()[0].data[2], 0, "in each context");
        assert_eq!(set(&hart, 4), Some(0), "another address");
        assert_eq!(hart.fires_at(), [4]);
        clear(&hart, 0);
        assert_eq!(hart.fires_at(), []);
    }
}

#[test]
fn a_hart_without_contexts_has_no_third_register() {
    let hart = Hart {
        has_no_context: true,
        ..Hart::of(vec![Trigger::new(DISABLED, &[MATCH, DISABLED])])
    };
    assert_eq!(set(&hart, ADDRESS), Some(0));
}

#[test]
fn a_trigger_for_other_events_or_of_a_debugger_is_left_alone() {
    let owned = Trigger::new(MATCH | DEBUGGER | FIRES, &[MATCH]);
    let counts = Trigger::new(COUNT | 1, &[COUNT]);
    let none = Trigger::new(0, &[MATCH]);
    let hart = Hart::of(vec![
        owned.clone(),
        counts,
        none,
        Trigger::new(MATCH, &[MATCH]),
    ]);
    assert_eq!(set(&hart, ADDRESS), Some(3));
    assert_eq!(hart.triggers.borrow()[0].data, owned.data);
    assert_eq!(hart.fires_at(), [0, ADDRESS], "the debugger's and ours");
}

#[test]
fn a_trigger_that_does_not_keep_its_bits_is_off() {
    for lost in [1 << 4, 1 << 2] {
        let mut trigger = Trigger::new(MATCH, &[MATCH, MATCH_6]);
        trigger.lost = lost;
        let hart = Hart::of(vec![trigger]);
        assert_eq!(set(&hart, ADDRESS), None);
        assert_eq!(hart.triggers.borrow()[0].data[0] & !TYPE, 0);
    }
}

#[test]
fn a_hart_without_triggers_has_none() {
    assert_eq!(set(&Hart::default(), ADDRESS), None);
    clear(&Hart::default(), 0);
}

#[test]
fn the_search_has_an_end() {
    let many = vec![Trigger::new(0, &[]); 1000];
    assert_eq!(set(&Hart::of(many), ADDRESS), None);
}

#[test]
fn a_hart_fires_at_the_address_while_it_is_armed() {
    let triggers = Triggers::<2>::new();
    let harts = [0, 1].map(|_| Hart::of(vec![Trigger::new(MATCH, &[MATCH])]));
    assert_eq!(triggers.arm(0, &harts[0]), Ok(false), "no address");
    assert!(!triggers.fires(0, 0) && !triggers.disarm(0, &harts[0]));
    triggers.set_address(ADDRESS);
    assert!(!triggers.fires(0, ADDRESS));
    assert_eq!(triggers.arm(0, &harts[0]), Ok(true));
    assert!(triggers.fires(0, ADDRESS) && !triggers.fires(0, ADDRESS + 2));
    assert!(!triggers.fires(1, ADDRESS), "another hart");
    assert_eq!(harts[0].fires_at(), [ADDRESS]);
    assert!(triggers.disarm(0, &harts[0]) && !triggers.disarm(0, &harts[0]));
    assert!(!triggers.fires(0, ADDRESS));
    assert_eq!(harts[0].fires_at(), []);
    assert_eq!(triggers.arm(1, &Hart::default()), Err(NoTrigger));
    assert!(!triggers.fires(1, ADDRESS));
}
