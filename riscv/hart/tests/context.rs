//! A hart's context: captured from a model, carried as sections, put back.

use std::cell::RefCell;
use std::collections::BTreeMap;

use poorwill_hart::{
    CaptureError, Csr, CsrAccess, FileWords, FloatRegisters, HartAccess, HartContext, Misfit,
    Section, SectionError, VectorRegisters,
};
use proptest::prelude::*;

const FS_DIRTY: u64 = 3 << 13;
const VS_CLEAN: u64 = 2 << 9;

/// What was done to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    File,
    Csr(Csr),
    Float,
    Vector,
    Deadline,
}

/// A hart.
#[derive(Debug)]
struct Model {
    csrs: RefCell<BTreeMap<u16, u64>>,
    float: RefCell<Option<FloatRegisters>>,
    vector: RefCell<Option<VectorRegisters>>,
    /// Where it is longer than any that can be kept.
    vlenb: Option<u64>,
    file: RefCell<Option<FileWords>>,
    deadline: RefCell<Option<u64>>,
    steps: RefCell<Vec<Step>>,
}

impl Model {
    /// One that holds `seed` in various forms, with both units on.
    fn new(seed: u64, vlenb: u64, file_words: usize) -> Self {
        let value = |number: u16| seed.wrapping_mul(u64::from(number));
        let mut csrs: BTreeMap<_, _> = (Csr::ALL.iter())
            // Without Smstateen.
            .filter(|csr| !(0x10c..0x110).contains(&csr.number()))
            .map(|csr| (csr.number(), value(csr.number())))
            .collect();
        csrs.insert(Csr::Sstatus.number(), FS_DIRTY | VS_CLEAN);
        let mut vector = VectorRegisters::new(vlenb).expect("a length");
        vector.vl = seed;
        vector.vtype = seed >> 3;
        let used = 32 * usize::try_from(vlenb).expect("a length");
        vector.v[..used].fill(seed.to_le_bytes()[0]);
        Model {
            csrs: RefCell::new(csrs),
            float: RefCell::new(Some([seed; 33])),
            vector: RefCell::new(Some(vector)),
            vlenb: None,
            file: RefCell::new(Some((0..file_words as u64).map(|n| n ^ seed).collect())),
            deadline: RefCell::new(Some(seed)),
            steps: RefCell::default(),
        }
    }

    /// One as after a power-on.
    fn fresh(vlenb: u64, file_words: usize) -> Self {
        let model = Model::new(0, vlenb, file_words);
        model
            .csrs
            .borrow_mut()
            .values_mut()
            .for_each(|csr| *csr = 0);
        model
    }

    fn set_status(&self, status: u64) {
        (self.csrs.borrow_mut()).insert(Csr::Sstatus.number(), status);
    }

    fn step(&self, step: Step) {
        self.steps.borrow_mut().push(step);
    }
}

impl CsrAccess for Model {
    fn read_csr(&self, csr: Csr) -> Option<u64> {
        self.csrs.borrow().get(&csr.number()).copied()
    }

    fn write_csr(&self, csr: Csr, value: u64) {
        self.step(Step::Csr(csr));
        if let Some(own) = self.csrs.borrow_mut().get_mut(&csr.number()) {
            *own = value;
        }
    }
}

impl HartAccess for Model {
    fn has_float(&self) -> bool {
        self.float.borrow().is_some()
    }

    fn read_float(&self) -> Option<FloatRegisters> {
        *self.float.borrow()
    }

    fn write_float(&self, registers: &FloatRegisters) {
        self.step(Step::Float);
        *self.float.borrow_mut() = Some(*registers);
    }

    fn vector_bytes(&self) -> Option<u64> {
        let own = self.vector.borrow().as_ref().map(|vector| vector.vlenb);
        self.vlenb.or(own)
    }

    fn read_vector(&self, into: &mut VectorRegisters) {
        *into = self.vector.borrow().clone().expect("it has the unit");
    }

    fn write_vector(&self, registers: &VectorRegisters) {
        self.step(Step::Vector);
        *self.vector.borrow_mut() = Some(registers.clone());
    }

    fn file_words(&self) -> Option<usize> {
        self.file.borrow().as_ref().map(|words| words.len())
    }

    fn read_file(&self) -> FileWords {
        self.file.borrow().clone().expect("it has a file")
    }

    fn write_file(&self, words: &[u64]) {
        self.step(Step::File);
        *self.file.borrow_mut() = Some(words.iter().copied().collect());
    }

    fn deadline(&self) -> Option<u64> {
        *self.deadline.borrow()
    }

    fn set_deadline(&self, deadline: u64) {
        self.step(Step::Deadline);
        *self.deadline.borrow_mut() = Some(deadline);
    }
}

/// Through an image, in which the timer has its place elsewhere.
fn carried(context: &HartContext) -> HartContext {
    let mut read = HartContext {
        deadline: context.deadline,
        ..HartContext::default()
    };
    for section in context.sections() {
        assert_eq!(read.read(section), Ok(true));
    }
    read
}

#[test]
fn what_a_hart_held_is_back_on_another() {
    let hart = Model::new(0x5eed, 16, 10);
    let context = HartContext::capture(&hart).expect("it can be captured");
    let read = carried(&context);
    assert_eq!(read, context);

    let woken = Model::fresh(16, 10);
    assert_eq!(read.check(&woken), Ok(()));
    read.restore(&woken);
    for csr in Csr::ALL.iter().filter(|csr| **csr != Csr::Fcsr) {
        assert_eq!(woken.read_csr(*csr), hart.read_csr(*csr), "{}", csr.name());
    }
    assert_eq!(woken.float, hart.float);
    assert_eq!(woken.vector, hart.vector);
    assert_eq!(woken.file, hart.file);
    assert_eq!(woken.deadline, hart.deadline);
}

#[test]
fn it_is_put_back_in_order() {
    let context = HartContext::capture(&Model::new(0x5eed, 16, 10)).expect("captured");
    let woken = Model::fresh(16, 10);
    context.restore(&woken);
    let steps = woken.steps.borrow();
    // The file is reached through siselect. What sstatus says of the units comes after them.
    assert_eq!(steps[..3], [Step::File, Step::Float, Step::Vector]);
    let ends = [Step::Csr(Csr::Sstatus), Step::Deadline];
    assert_eq!(steps[steps.len() - 2..], ends);
    let csrs = &steps[3..steps.len() - 2];
    let all = (Csr::ALL.iter().copied())
        // The registers come with fcsr.
        .filter(|csr| !matches!(csr, Csr::Sstatus | Csr::Fcsr))
        .filter(|csr| woken.read_csr(*csr).is_some());
    assert_eq!(csrs, all.map(Step::Csr).collect::<Vec<_>>());
}

#[test]
fn what_is_as_it_was_is_not_touched() {
    let hart = Model::new(0x5eed, 16, 10);
    let context = HartContext::capture(&hart).expect("captured");
    hart.csrs.borrow_mut().insert(Csr::Sepc.number(), 4);
    context.restore(&hart);
    let csrs: Vec<_> = (hart.steps.borrow().iter().copied())
        .filter(|step| matches!(step, Step::Csr(_)))
        .collect();
    assert_eq!(csrs, [Step::Csr(Csr::Sepc)]);
}

#[test]
fn a_unit_that_the_hart_lacks_has_no_section() {
    let hart = Model::new(1, 16, 4);
    let tags = |hart: &Model| -> Vec<u32> {
        let context = HartContext::capture(hart).expect("captured");
        context.sections().map(|section| section.tag).collect()
    };
    let [csrs, float, vector, file] = [b"CSRS", b"FLOT", b"VECT", b"IMSI"].map(tag);
    // Off does not destroy what a unit holds.
    for status in [FS_DIRTY | VS_CLEAN, FS_DIRTY, VS_CLEAN, 0] {
        hart.set_status(status);
        assert_eq!(tags(&hart), [csrs, float, vector, file]);
    }
    *hart.file.borrow_mut() = None;
    assert_eq!(tags(&hart), [csrs, float, vector]);
    // VS and FS may be on where there are no registers, in a hypervisor's trap and emulate.
    hart.set_status(FS_DIRTY | VS_CLEAN);
    *hart.vector.borrow_mut() = None;
    assert_eq!(tags(&hart), [csrs, float]);
    *hart.float.borrow_mut() = None;
    assert_eq!(tags(&hart), [csrs]);
}

/// Zfinx has `fcsr`, and no registers of its own.
#[test]
fn fcsr_is_kept_where_there_are_no_registers() {
    let hart = Model::new(3, 16, 4);
    *hart.float.borrow_mut() = None;
    let context = HartContext::capture(&hart).expect("captured");
    let woken = Model::fresh(16, 4);
    *woken.float.borrow_mut() = None;
    carried(&context).restore(&woken);
    assert_eq!(woken.read_csr(Csr::Fcsr), hart.read_csr(Csr::Fcsr));
}

#[test]
fn sections_have_the_bytes_of_every_version_before() {
    let hart = Model::new(2, 4, 3);
    hart.csrs
        .borrow_mut()
        .retain(|number, _| (0x100..=0x104).contains(number));
    let context = HartContext::capture(&hart).expect("captured");
    let sections: Vec<_> = context.sections().collect();
    let words =
        |words: &[u64]| -> Vec<u8> { words.iter().flat_map(|word| word.to_le_bytes()).collect() };
    let versions: Vec<_> = sections.iter().map(|section| section.version).collect();
    // The CSRs' has gained some; its layout is the first version's.
    assert_eq!(versions, [2, 1, 1, 1]);
    let csrs = words(&[0x100, FS_DIRTY | VS_CLEAN, 0x104, 2 * 0x104]);
    assert_eq!(sections[0].bytes, csrs);
    assert_eq!(sections[1].bytes, words(&[2; 33]));
    // vstart, vcsr, vl, vtype, vlenb, then v0 to v31.
    let vector = [words(&[0, 0, 2, 0, 4]), vec![2; 32 * 4]].concat();
    assert_eq!(sections[2].bytes, vector);
    assert_eq!(sections[3].bytes, words(&[2, 3, 0]));
}

#[test]
fn registers_that_are_too_long_are_named() {
    let mut hart = Model::new(1, 16, 4);
    hart.vlenb = Some(256);
    let error = HartContext::capture(&hart).expect_err("they do not fit");
    assert_eq!(error, CaptureError::VectorLength(256));
    assert!(error.to_string().contains("256 bytes"), "{error}");
    // Also of an OS that has the unit off: its programs may have something in it.
    hart.set_status(FS_DIRTY);
    assert_eq!(HartContext::capture(&hart), Err(error));
    assert_eq!(HartContext::check_capture(&hart), Err(error));
    for vlenb in [None, Some(16)] {
        hart.vlenb = vlenb;
        assert_eq!(HartContext::check_capture(&hart), Ok(()));
    }
}

#[test]
fn another_harts_context_is_refused() {
    let context = HartContext::capture(&Model::new(1, 16, 4)).expect("captured");
    let vector = Misfit::VectorLength {
        saved: 16,
        here: 32,
    };
    assert_eq!(context.check(&Model::fresh(32, 4)), Err(vector));
    let file = Misfit::File { saved: 4, here: 6 };
    assert_eq!(context.check(&Model::fresh(16, 6)), Err(file));
    let without = Model::fresh(16, 4);
    *without.file.borrow_mut() = None;
    let file = Misfit::File { saved: 4, here: 0 };
    assert_eq!(context.check(&without), Err(file));
    let without = Model::fresh(16, 4);
    *without.vector.borrow_mut() = None;
    let vector = Misfit::VectorLength { saved: 16, here: 0 };
    assert_eq!(context.check(&without), Err(vector));
    let without = Model::fresh(16, 4);
    *without.float.borrow_mut() = None;
    assert_eq!(context.check(&without), Err(Misfit::Float));
}

#[test]
fn a_timer_that_is_the_oss_own_is_left_alone() {
    let context = HartContext::capture(&Model::new(7, 16, 4)).expect("captured");
    let woken = Model::fresh(16, 4);
    *woken.deadline.borrow_mut() = None;
    context.restore(&woken);
    assert!(!woken.steps.borrow().contains(&Step::Deadline));
}

fn tag(name: &[u8; 4]) -> u32 {
    u32::from_le_bytes(*name)
}

#[test]
fn sections_that_are_not_ours_are_told() {
    let read = |tag, version, bytes: &[u8]| {
        HartContext::default().read(Section {
            tag,
            version,
            bytes,
        })
    };
    let refused = |tag, version, found| {
        Err(SectionError::Payload {
            tag,
            version,
            found,
        })
    };
    assert_eq!(read(tag(b"PLIC"), 9, &[1]), Ok(false));
    for name in [b"CSRS", b"FLOT", b"VECT", b"IMSI"] {
        assert_eq!(read(tag(name), 3, &[0; 264]), refused(tag(name), 3, 264));
        assert_eq!(read(tag(name), 1, &[0; 263]), refused(tag(name), 1, 263));
    }
    assert_eq!(
        read(tag(b"FLOT"), 2, &[0; 264]),
        refused(tag(b"FLOT"), 2, 264)
    );
    // The first version of the CSRs is read like the second.
    let known = [0x104_u64.to_le_bytes(), [7; 8]].concat();
    for version in [1, 2] {
        assert_eq!(read(tag(b"CSRS"), version, &known), Ok(true));
    }
    let too_many = [0; 8 * 67];
    assert_eq!(
        read(tag(b"IMSI"), 1, &too_many),
        refused(tag(b"IMSI"), 1, 8 * 67)
    );
    // mstatus is not the OS's.
    let other = [0x300_u64.to_le_bytes(), [0; 8]].concat();
    let unknown = Err(SectionError::UnknownCsr(0x300));
    assert_eq!(read(tag(b"CSRS"), 1, &other), unknown);
}

#[test]
fn csrs_have_the_numbers_that_they_encode() {
    let mut numbers: Vec<_> = Csr::ALL.iter().map(|csr| csr.number()).collect();
    for csr in Csr::ALL {
        // Bits 9 and 8: below machine mode. Bits 11 and 10: it can be written.
        assert_ne!(csr.number() >> 8 & 3, 3, "{}", csr.name());
        assert_ne!(csr.number() >> 10, 3, "{}", csr.name());
        assert_eq!(Csr::from_number(csr.number().into()), Some(*csr));
        assert_eq!(format!("{csr:?}").to_lowercase(), csr.name());
    }
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), Csr::ALL.len());
}

proptest! {
    /// Whatever an image has, reading it ends in a context or an error, and what is
    /// taken is written the same.
    #[test]
    fn any_bytes_are_read_or_refused(
        name in prop::sample::select(vec![b"CSRS", b"FLOT", b"VECT", b"IMSI"]),
        version in 0u16..3,
        head in prop::collection::vec(prop::sample::select(vec![0u64, 4, 16, 128, 256, 0x100]), 0..6),
        tail in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        let mut bytes: Vec<u8> = head.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend(tail);
        let mut context = HartContext::default();
        let section = Section { tag: tag(name), version, bytes: &bytes };
        if context.read(section).is_ok() {
            let written = context.sections().find(|section| section.tag == tag(name));
            prop_assert_eq!(written.expect("it was read").bytes, &bytes[..]);
        }
    }

    #[test]
    fn vectors_of_every_length_come_back(shift in 2u32..8, seed: u64) {
        let hart = Model::new(seed, 1 << shift, 4);
        let context = HartContext::capture(&hart).expect("captured");
        prop_assert_eq!(carried(&context), context);
    }

    /// Linux turns both units Off at each kernel entry, and a task's registers stay in them.
    #[test]
    fn registers_come_back_whatever_the_status_says(
        seed: u64, fs in 0u64..4, vs in 0u64..4, here in 0u64..4,
    ) {
        let hart = Model::new(seed, 16, 4);
        let status = fs << 13 | vs << 9;
        hart.set_status(status);
        let context = HartContext::capture(&hart).expect("captured");
        prop_assert_eq!(hart.read_csr(Csr::Sstatus), Some(status));
        let woken = Model::fresh(16, 4);
        woken.set_status(here << 13 | here << 9);
        carried(&context).restore(&woken);
        prop_assert_eq!(&*woken.float.borrow(), &*hart.float.borrow());
        prop_assert_eq!(&*woken.vector.borrow(), &*hart.vector.borrow());
        prop_assert_eq!(woken.read_csr(Csr::Sstatus), Some(status));
    }
}
