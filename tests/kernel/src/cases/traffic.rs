//! Each hart interrupts the next one again and again, in each possible way, and waits for its
//! answer. No interrupt may be lost. The power may fail at any instruction.
//!
//! On the command line: `ms=N` milliseconds of traffic.

use core::sync::atomic::{AtomicUsize, Ordering};

use poorwill_bare::{aplic, imsic};

use crate::{
    arch, check,
    machine::{MAX_HARTS, Machine},
    mmio, read_csr, say,
    verdict::check_success,
    workers, write_csr,
};

/// The ways: a call, which machine mode serves; on a machine with IMSICs a store into the other's
/// interrupt file, and a message of the APLIC.
const WAYS: usize = 3;
const CALL: usize = 0;
const STORE: usize = 1;
const MESSAGE: usize = 2;

/// The identities of the latter two: nothing else sends these, so that nothing else makes up for
/// one that is lost.
const IDENTITIES: [usize; 2] = [41, 42];

const FILE_BYTES: usize = 0x1000;

/// Numbers: of the last interrupt that a hart has sent to the next by each way, and of the last
/// that the next one has taken.
static SENT: [[AtomicUsize; MAX_HARTS]; WAYS] =
    [const { [const { AtomicUsize::new(0) }; MAX_HARTS] }; WAYS];
static TAKEN: [[AtomicUsize; MAX_HARTS]; WAYS] =
    [const { [const { AtomicUsize::new(0) }; MAX_HARTS] }; WAYS];

pub(super) fn run(machine: &Machine, hart: usize) {
    let ticks = |ms| ms * machine.timebase / 1000;
    let end = arch::time() + ticks(machine.number("ms", 100) as u64);
    if let Some(aplic) = machine.aplic.filter(|_| machine.has_imsic) {
        mmio::write32(aplic, aplic::SENDS_MESSAGES);
    }
    let boot = machine.index_of(hart);
    say!("traffic: all harts run");
    // All that is sent is taken by the end.
    let last = end - ticks(10);
    let job = || {
        let place = workers::own_place(machine).unwrap_or(boot);
        Exchange::new(machine, place).run(last, end);
    };
    workers::with_all(machine, hart, &job, |all| all());
    let sum = |numbers: &[[AtomicUsize; MAX_HARTS]; WAYS]| {
        let all = numbers.iter().flatten();
        all.map(|number| number.load(Ordering::Relaxed))
            .sum::<usize>()
    };
    let (sent, taken) = (sum(&SENT), sum(&TAKEN));
    check!(sent == taken && sent > 0, "{sent} sent, {taken} taken");
    say!("traffic: {sent} sent, {taken} taken");
}

/// What one hart does.
struct Exchange<'m> {
    machine: &'m Machine,
    /// Its place in the device tree's order, that of the hart that it interrupts, and of the one
    /// that interrupts it.
    own: usize,
    next: usize,
    last: usize,
}

impl<'m> Exchange<'m> {
    fn new(machine: &'m Machine, own: usize) -> Self {
        let harts = machine.harts.len();
        if machine.has_imsic {
            let enabled = IDENTITIES
                .iter()
                .fold(0, |bits, identity| bits | 1 << identity);
            for (register, value) in [
                (imsic::EITHRESHOLD, 0),
                (imsic::EIE0, enabled),
                (imsic::EIDELIVERY, 1),
            ] {
                imsic::write(register, value);
            }
        }
        Exchange {
            machine,
            own,
            next: (own + 1) % harts,
            last: (own + harts - 1) % harts,
        }
    }

    fn run(&self, last: u64, end: u64) {
        let timebase = self.machine.timebase;
        let (mut number, mut due, mut waits) = (self.own, 0, None);
        loop {
            let now = arch::time();
            self.take();
            match waits {
                Some((way, since)) if self.is_taken(way) => {
                    waits = None;
                    // A few times as long as an answer takes.
                    due = since + timebase / 5000 + (number as u64 * 977) % (timebase / 5000);
                }
                Some((way, since)) if now > since + timebase / 100 => {
                    check!(
                        false,
                        "hart {}: interrupt {} by way {way} is lost",
                        self.own,
                        SENT[way][self.own].load(Ordering::Relaxed)
                    );
                    return;
                }
                Some(_) => {}
                None if now >= end => return,
                None if now >= due && now < last => {
                    let way = if self.machine.has_imsic {
                        number % WAYS
                    } else {
                        CALL
                    };
                    number += 1;
                    SENT[way][self.own].fetch_add(1, Ordering::Release);
                    self.send(way);
                    waits = Some((way, now));
                }
                None => core::hint::spin_loop(),
            }
        }
    }

    fn is_taken(&self, way: usize) -> bool {
        let sent = SENT[way][self.own].load(Ordering::Relaxed);
        TAKEN[way][self.own].load(Ordering::Acquire) == sent
    }

    fn send(&self, way: usize) {
        let id = self.machine.harts[self.next];
        match way {
            CALL => {
                let mask = sbi_rt::HartMask::from_mask_base(1, id);
                check_success("send_ipi", sbi_rt::send_ipi(mask));
            }
            STORE => {
                let file = self.machine.imsic + self.next * FILE_BYTES;
                mmio::write32(file, cell(IDENTITIES[0]));
            }
            _ => {
                let aplic = self.machine.aplic.expect("beside the IMSICs");
                let target = cell(self.next) << 18 | cell(IDENTITIES[1]);
                mmio::write32(aplic + aplic::GENMSI, target);
            }
        }
    }

    /// Takes what the last hart has sent, by the way by which it came.
    fn take(&self) {
        if read_csr!("sip") & arch::SOFTWARE != 0 {
            write_csr!("sip", 0);
            self.took(CALL);
        }
        if !self.machine.has_imsic {
            return;
        }
        loop {
            match imsic::claim() {
                None => return,
                Some(identity) if identity == IDENTITIES[0] => self.took(STORE),
                Some(identity) if identity == IDENTITIES[1] => self.took(MESSAGE),
                Some(identity) => check!(false, "nothing has sent identity {identity}"),
            }
        }
    }

    fn took(&self, way: usize) {
        let sent = SENT[way][self.last].load(Ordering::Acquire);
        TAKEN[way][self.last].store(sent, Ordering::Release);
    }
}

/// A number for a register of 32 bits.
fn cell(number: usize) -> u32 {
    u32::try_from(number).expect("numbers of harts and identities are small")
}
