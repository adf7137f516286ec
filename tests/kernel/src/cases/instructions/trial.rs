//! The run in one mode.

mod counters;
mod known;

use super::{
    causes::{Hart, LANDING_PADS},
    generate::{self, HALVES, Page},
    protection::is_firmware_closed,
};
use crate::{
    arch::{
        self, guest, os_csr,
        sandbox::{self, EXECUTE, Ended, Mode, PAGES, READ, Start, WRITE},
    },
    check,
    machine::Machine,
    random::Random,
    read_csr,
};
use core::sync::atomic::{AtomicU64, Ordering};

const PAGE: usize = 4096;

/// The pages that code has: its own, two of data, a guest's trap handler, one whose accesses
/// fault, one of a mediated device. The first four are [`MEMORY`].
const CODE: usize = 0;
const DATA: usize = 1;
const HANDLER: usize = 3;
const CLOSED: usize = 4;
const DEVICE: usize = 5;

/// Leaves the instruction out: `csrr t0, sepc; addi t0, t0, 4; csrw sepc, t0; sret`.
const HANDLE: [u64; 2] = [0x0042_8293_1410_22f3, 0x1020_0073_1412_9073];
/// What a guest cannot handle itself, as its handler might have no page: faults of fetches.
const OF_FETCHES: usize = 1 << 12 | 1 << 1 | 1;

/// How often a page of code is begun, with other registers each time.
const PASSES: usize = 8;
/// How many traps each time may take.
const TRAPS: usize = 400;
/// How long code may run without a trap, and where machine mode emulates reads of counters, of which
/// each entry has two.
const TICKS: u64 = 100;
const TICKS_WHEN_EMULATED: u64 = 400;

/// Exception codes (privileged specification, table 3.6): what is no instruction, accesses
/// that machine mode sees first, and a missing landing pad.
const ILLEGAL: usize = 2;
const VIRTUAL: usize = 22;
/// For these two QEMU 10 leaves an earlier instruction in `stval`, and for the latter in `sepc`, too.
const MRET: u32 = 0x3020_0073;
const MNRET: u32 = 0x7020_0073;
/// Half-words between, at most.
const EARLIER: usize = 128;
const ACCESSES: [usize; 2] = [5, 7];
const SOFTWARE_CHECK: usize = 18;
const INTERRUPT: usize = 1 << 63;
/// `sstatus`: a landing pad was expected at the trap.
const SPELP: usize = 1 << 23;
/// `sstatus`: a trap would be a double trap.
const SDT: usize = 1 << 24;
/// `sstatus`: interrupts were on, and the mode was S.
const SPIE: usize = 1 << 5;
const SPP: usize = 1 << 8;

/// `sstatus`: the units, what memory may be reached, landing pads, double traps.
const OF_THE_CODE: usize =
    arch::SSTATUS_FS | arch::SSTATUS_VS | arch::SSTATUS_SUM | arch::SSTATUS_MXR | SPELP | SDT;

#[repr(C, align(4096))]
struct Memory([AtomicU64; 4 * PAGE / 8]);

static MEMORY: Memory = Memory([const { AtomicU64::new(0) }; 4 * PAGE / 8]);

/// A page of the firmware's; where it is not closed, one where nothing is.
fn closed_page(machine: &Machine) -> usize {
    if is_firmware_closed(machine) {
        machine.firmware_address()
    } else {
        machine.ram.end
    }
}

/// A device whose registers any instruction may access: QEMU's configuration, or an unused UART.
fn device(machine: &Machine) -> usize {
    let unused = machine.sifive_uarts.first().copied();
    (machine.fw_cfg.or(unused)).expect("a device that nothing else uses")
}

/// A mode's part of the run.
pub(super) struct Trial {
    mode: Mode,
    this: Hart,
    random: Random,
    code: Page,
    closed: usize,
    device: usize,
    ticks: u64,
    /// Machine mode's instructions are among those counted: it emulates `instret`, and takes
    /// illegal instructions first.
    is_emulated: bool,
    /// Instructions on the way there and back.
    overhead: usize,
    /// Instructions that have retired, at least.
    pub(super) completed: usize,
    /// Exceptions.
    pub(super) trapped: usize,
    /// Entries that the timer ended.
    pub(super) interrupted: usize,
    /// The exceptions, as a mask of their codes.
    pub(super) seen: u64,
}

impl Trial {
    pub(super) fn new(machine: &Machine, this: Hart, mode: Mode, seed: u64) -> Self {
        let mut trial = Trial {
            mode,
            this,
            random: Random(seed << 8 | mode as u64),
            code: [0; HALVES],
            closed: closed_page(machine),
            device: device(machine),
            ticks: TICKS,
            is_emulated: false,
            overhead: 0,
            completed: 0,
            trapped: 0,
            interrupted: 0,
            seen: 0,
        };
        trial.is_emulated = arch::has_emulated_counters();
        if trial.is_emulated {
            trial.ticks = TICKS_WHEN_EMULATED;
        }
        trial.calibrate();
        trial.raise_each();
        trial.read_counters();
        if this.has_landing_pads && mode == Mode::U {
            trial.miss_landing_pad();
        }
        trial
    }

    /// Learns how many instructions an entry has that completes none.
    fn calibrate(&mut self) {
        self.code = [0; HALVES];
        self.map(false);
        let mut found = [0; 3];
        for instructions in &mut found {
            let ended = self.enter([0; 32]);
            check!(
                ended.cause == ILLEGAL && ended.pc == PAGES,
                "no instruction at all: {ended:x?}"
            );
            *instructions = ended.instructions;
        }
        check!(
            found.iter().all(|&instructions| instructions == found[0]),
            "QEMU does not count instructions: {found:?}"
        );
        self.overhead = found[0];
    }

    /// Runs the page from its beginning, with S-mode's CSRs as they are.
    fn enter(&self, x: [usize; 32]) -> Ended {
        let start = Start {
            mode: self.mode,
            pc: PAGES,
            status: read_csr!("sstatus"),
            hypervisor: self.hypervisor(),
            x,
        };
        sandbox::run(&start, self.ticks)
    }

    /// `hstatus` as it is.
    fn hypervisor(&self) -> usize {
        os_csr::read(os_csr::HSTATUS).unwrap_or(0)
    }

    /// A page of other code, run a few times.
    pub(super) fn page(&mut self) {
        generate::fill(&mut self.code, &mut self.random, self.mode);
        let has_device = self.random.once_in(8);
        self.map(has_device);
        for _ in 0..PASSES {
            self.set_csrs();
            self.pass(!has_device);
        }
    }

    /// Gives the code its pages, and puts it there.
    fn map(&mut self, has_device: bool) {
        for (word, halves) in MEMORY.0.iter().zip(self.code.chunks_exact(4)) {
            let bits = (halves.iter().rev()).fold(0, |bits, &half| bits << 16 | u64::from(half));
            word.store(bits, Ordering::Relaxed);
        }
        for word in &MEMORY.0[PAGE / 8..HANDLER * PAGE / 8] {
            word.store(self.random.next() as u64, Ordering::Relaxed);
        }
        for (word, bits) in MEMORY.0[HANDLER * PAGE / 8..].iter().zip(HANDLE) {
            word.store(bits, Ordering::Relaxed);
        }
        arch::fence_i();
        let own = MEMORY.0.as_ptr().addr();
        let all = READ | WRITE | EXECUTE;
        sandbox::map(CODE, own, READ | EXECUTE, READ | EXECUTE);
        for number in [DATA, DATA + 1] {
            sandbox::map(number, own + number * PAGE, READ | WRITE, all);
        }
        sandbox::map(HANDLER, own + HANDLER * PAGE, 0, READ | EXECUTE);
        sandbox::map(CLOSED, self.closed, all, all);
        let device = if has_device { READ } else { 0 };
        sandbox::map(DEVICE, self.device, device, device);
        sandbox::fence();
    }

    /// What an OS may turn on is on at times, and what it would not leave is cleared.
    fn set_csrs(&mut self) {
        let random = &mut self.random;
        for number in os_csr::SETTABLE {
            if random.once_in(6) {
                let value = match random.below(4) {
                    0 => 0,
                    1 => usize::MAX,
                    2 => 1 << random.below(64),
                    _ => random.next(),
                };
                // The hart may lack it.
                let _ = os_csr::write(number, value);
            }
        }
        if random.once_in(2) {
            for number in [os_csr::SENVCFG, os_csr::HENVCFG] {
                let _ = os_csr::write(number, LANDING_PADS * random.below(2));
            }
        }
        if !self.this.has_hypervisor {
            return;
        }
        let status = os_csr::read(os_csr::VSSTATUS).unwrap_or(0);
        let guest_status = status & !OF_THE_CODE | random.next() & OF_THE_CODE;
        let delegated = (random.next() * random.below(2)) & !OF_FETCHES;
        // A guest without tables of its own reaches its code; and no interrupt of its pends.
        for (number, value) in [
            (os_csr::HIE, 0),
            (os_csr::HGEIE, 0),
            (os_csr::HVIP, 0),
            (os_csr::HEDELEG, delegated),
            (os_csr::VSTVEC, PAGES + HANDLER * PAGE),
            (os_csr::VSSTATUS, guest_status),
        ] {
            // The hart has them all.
            let _ = os_csr::write(number, value);
        }
        if !random.once_in(8) {
            let _ = os_csr::write(os_csr::VSATP, 0);
        }
    }

    /// Runs the page from its beginning to its end, after each trap from the next
    /// instruction on. `exact`: machine mode serves no access of it.
    fn pass(&mut self, exact: bool) {
        let mut start = Start {
            mode: self.mode,
            pc: PAGES,
            status: self.status(),
            hypervisor: self.hypervisor(),
            x: self.registers(),
        };
        let mut reached = 0;
        for _ in 0..TRAPS {
            let ended = sandbox::run(&start, self.ticks);
            self.count(&ended, exact);
            let Some(next) = self.next(&ended, reached) else {
                return;
            };
            reached = reached.max(next);
            start = self.behind(&ended, next);
        }
    }

    /// Counts what the entry came to. Not the instructions of loops, nor those of machine mode,
    /// which has looked at an access first.
    fn count(&mut self, ended: &Ended, exact: bool) {
        if ended.cause & INTERRUPT != 0 {
            self.interrupted += 1;
            return;
        }
        self.trapped += 1;
        check!(
            self.came_from_here(ended),
            "a trap from elsewhere than {:?}: {ended:x?}",
            self.mode
        );
        if [ILLEGAL, VIRTUAL].contains(&ended.cause)
            && let Some(bits) = self.instruction(ended)
        {
            check!(
                [0, bits].contains(&ended.value),
                "stval is not {bits:#x}: {ended:x?}"
            );
        }
        check!(ended.cause < 64, "no cause of an exception: {ended:x?}");
        self.seen |= 1 << (ended.cause % 64);
        if self.is_emulated {
            self.completed += 1;
        } else if exact && !ACCESSES.contains(&ended.cause) {
            self.completed += ended.instructions.saturating_sub(self.overhead);
        }
    }

    /// The instruction that trapped, unless a guest's own tables lead to it, or QEMU names an earlier
    /// one.
    fn instruction(&self, ended: &Ended) -> Option<usize> {
        let offset = ended.pc.wrapping_sub(PAGES);
        let from_guest = ended.hypervisor & guest::HSTATUS_SPV != 0;
        // QEMU 10 lets S-mode come to an odd address.
        let is_known = offset < PAGE - 2 && offset.is_multiple_of(2);
        if !is_known || from_guest && os_csr::read(os_csr::VSATP) != Ok(0) {
            return None;
        }
        let at = offset / 2;
        let bits = generate::bits(&self.code, at);
        let earlier =
            (at..(at + EARLIER).min(HALVES - 1)).any(|at| generate::bits(&self.code, at) == MNRET);
        (bits != MRET && !earlier).then_some(bits as usize)
    }

    /// Whether the trap says that it came from the mode that the code was in, with interrupts
    /// on. S-mode's code may have returned to another mode by itself.
    fn came_from_here(&self, ended: &Ended) -> bool {
        let were_on = ended.status & (arch::SSTATUS_SIE | SPIE) == SPIE;
        let from_guest = ended.hypervisor & guest::HSTATUS_SPV != 0;
        were_on
            && match self.mode {
                Mode::U => !from_guest && ended.status & SPP == 0,
                Mode::S => true,
                Mode::Vs | Mode::Vu => from_guest,
            }
    }

    /// Where to go on: behind the instruction, or, where the code has jumped away or does
    /// not end, a little further on than it ever was.
    fn next(&mut self, ended: &Ended, reached: usize) -> Option<usize> {
        let offset = ended.pc.wrapping_sub(PAGES);
        let is_loop = ended.cause & INTERRUPT != 0;
        let next =
            if !is_loop && offset < PAGE && offset + generate::length(&self.code, offset) <= PAGE {
                offset + generate::length(&self.code, offset)
            } else {
                reached + 2 + 2 * self.random.below(16)
            };
        (next < PAGE - 2).then_some(next)
    }

    /// The same code, from there on.
    fn behind(&mut self, ended: &Ended, next: usize) -> Start {
        let expects_pad = ended.cause != SOFTWARE_CHECK;
        Start {
            mode: self.mode,
            pc: PAGES + next,
            status: ended.status & if expects_pad { usize::MAX } else { !SPELP },
            hypervisor: ended.hypervisor,
            x: if self.random.once_in(4) {
                self.registers()
            } else {
                ended.x
            },
        }
    }

    /// `sstatus` at the beginning: of the units, of what memory may be reached, and of
    /// landing pads anything; of the rest what it is.
    fn status(&mut self) -> usize {
        let units = if self.random.once_in(4) {
            0
        } else {
            arch::SSTATUS_FS | arch::SSTATUS_VS
        };
        read_csr!("sstatus") & !OF_THE_CODE | self.random.next() & OF_THE_CODE | units
    }

    fn registers(&mut self) -> [usize; 32] {
        let random = &mut self.random;
        core::array::from_fn(|number| match random.below(16) {
            // The first half are those by which memory is mostly reached.
            11.. if number < 16 => (PAGES + DATA * PAGE + random.below(2 * PAGE)) & !7,
            0..=5 => (PAGES + DATA * PAGE + random.below(2 * PAGE)) & !7,
            6 => PAGES + DATA * PAGE + random.below(2 * PAGE),
            7 => (PAGES + random.below(PAGE)) & !3,
            8 => PAGES + CLOSED * PAGE + random.below(PAGE),
            9 => PAGES + DEVICE * PAGE + (random.below(5) * 4),
            10..=12 => random.below(256),
            13 => usize::MAX << random.below(64),
            _ => random.next(),
        })
    }
}
