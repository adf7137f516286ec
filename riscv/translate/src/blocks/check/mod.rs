//! Check mode: the interpreter executes the instructions of a block first, from the same state and
//! into a buffer of stores. Translated code then runs, and its results are compared with these.
//!
//! Blocks are not linked in this mode, so that each one ends its run. What the interpreter does not
//! foresee ends the comparison before it: accesses to devices, changes of flags in the OS's tables,
//! stops, and memory that a device changes meanwhile.

mod buffer;

use poorwill_hart::emulation::status;
use poorwill_isa::{Format, Instruction, Operation};

use super::access::OF_EIGHT;
use super::cache::Blocks;
use super::code::{MOST_HALVES, instruction_of};
use super::found::Found;
use super::region::{Block, Place};
use super::trace::{Load, MOST_STEPS, Step, Store, Trace};
use crate::difference::{Difference, What};
use crate::hart::{Counts, Fences, VirtualHart};
use crate::host::Host;
use crate::interpreter::Flow;
use crate::state::Reservation;
use crate::trap::Trap;

use buffer::Buffer;

// An instruction has at least one half-word.
const _: () = assert!(MOST_STEPS >= MOST_HALVES);

/// Why the interpreter has gone no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// At the block's edge, or at an exception: translated code goes no further, either.
    Edge,
    /// What translated code does there is not known.
    Unknown,
}

impl Blocks<'_> {
    /// Instructions of blocks that were compared, and are right.
    #[must_use]
    pub fn compared(&self) -> u64 {
        self.compared
    }
}

/// What the interpreter has done. The instructions are in the [`Trace`].
pub(super) struct Foreseen {
    block: Block,
    x: [u64; 32],
    f: [u64; 32],
    /// The state at the start: no instruction has been executed.
    start: Step,
    steps: usize,
    end: End,
}

impl VirtualHart {
    /// Executes the instructions of a block from a place on, in the interpreter. The hart stays as it
    /// is. `None`: blocks are not checked.
    pub(super) fn foresee(
        &self,
        found: Found,
        blocks: &mut Blocks<'_>,
        host: &impl Host,
    ) -> Option<Foreseen> {
        if !blocks.options.checks {
            return None;
        }
        let index = &mut *blocks.index;
        let block = index.blocks[found.block];
        let source = index.source_of(&block);
        let mut model = self.copy();
        model.settle_shortcuts();
        let Trace {
            steps,
            stores,
            loads,
        } = &mut index.trace;
        let buffer = Buffer::new(host, stores, loads);
        let mut count = 0;
        let end = loop {
            let pc = model.pc;
            let Some(instruction) = instruction_at(&block, &source, pc) else {
                break End::Edge;
            };
            let Some(step) = steps.get_mut(count) else {
                break End::Unknown;
            };
            match model.execute(instruction, &buffer) {
                _ if buffer.has_ended() => break End::Unknown,
                Ok(Flow::Next | Flow::Look) => {}
                Ok(Flow::Stop(_)) | Err(Trap::Stop(_)) => break End::Unknown,
                Err(Trap::Exception(_)) => break End::Edge,
            }
            *step = model.noted(instruction.rd, buffer.counts());
            count += 1;
            if model.pc != pc.wrapping_add(instruction.length.into()) {
                break End::Edge;
            }
        };
        Some(Foreseen {
            block,
            x: self.x,
            f: self.f,
            start: self.noted(0, [0; 2]),
            steps: count,
            end,
        })
    }

    /// Compares the hart, after `count` instructions of translated code, with what was foreseen. That
    /// code has ended at `place`.
    ///
    /// # Errors
    ///
    /// [`Difference`].
    pub(super) fn compare(
        &self,
        foreseen: &Foreseen,
        (count, place): (u64, Place),
        blocks: &mut Blocks<'_>,
        host: &impl Host,
    ) -> Result<(), Difference> {
        let steps = foreseen.steps as u64;
        let Some(done) = usize::try_from(count).ok().filter(|_| count <= steps) else {
            return match foreseen.end {
                End::Unknown => Ok(()),
                End::Edge => Err(foreseen.difference(What::Instructions, count, steps)),
            };
        };
        let trace = &blocks.index.trace;
        let steps = &trace.steps[..done];
        let last = steps.last().unwrap_or(&foreseen.start);
        let next = match place.at {
            Place::LEAVES | Place::JUMPS => Begun::NONE,
            _ => Begun::at(foreseen, last.pc, blocks),
        };
        let stores = &trace.stores[..last.stores.into()];
        let found = self
            .differs_from(foreseen, steps, last, &next)
            .or_else(|| next.differs_in_memory(stores, host));
        let Some((what, [own, other])) = found else {
            blocks.compared = blocks.compared.saturating_add(count);
            return Ok(());
        };
        // A device may have changed what both have loaded.
        let loads = &trace.loads[..last.loads.into()];
        match loads.iter().all(|load| load.is_kept(stores, host)) {
            true => Err(foreseen.difference(what, own, other)),
            false => Ok(()),
        }
    }

    fn differs_from(
        &self,
        foreseen: &Foreseen,
        steps: &[Step],
        last: &Step,
        next: &Begun,
    ) -> Option<(What, [u64; 2])> {
        let (mut x, mut f) = (foreseen.x, foreseen.f);
        for step in steps {
            let register = usize::from(step.register);
            (x[register], f[register]) = (step.x, step.f);
        }
        let differs =
            |(what, own, other): (What, u64, u64)| (own != other).then_some((what, [own, other]));
        let own = self.noted(0, [0; 2]);
        let of_x = (1..32_u8)
            .filter(|number| next.written >> number & 1 == 0)
            .map(|number| {
                let place = usize::from(number);
                (What::Register(number), self.x[place], x[place])
            });
        let of_f = (0..32_u8)
            .filter(|_| self.csrs.sstatus & status::FS != 0)
            .map(|number| {
                let place = usize::from(number);
                (What::Float(number), self.f[place], f[place])
            });
        let reserves = !next.reserves;
        let of_reservation = [
            (What::Reservation, own.reserved, last.reserved),
            (What::Reserved, own.value, last.value),
        ];
        [
            (What::Address, self.pc, last.pc),
            (What::Status, own.status, last.status),
        ]
        .into_iter()
        .chain(of_reservation.into_iter().filter(|_| reserves))
        .chain(of_x)
        .chain(of_f)
        .find_map(differs)
    }

    /// The state after an instruction that may have written a register.
    fn noted(&self, register: u8, [stores, loads]: [u16; 2]) -> Step {
        let reserved =
            |it: Reservation| it.address | if it.bytes == 8 { OF_EIGHT as u64 } else { 0 };
        Step {
            pc: self.pc,
            x: self.x[usize::from(register)],
            f: self.f[usize::from(register)],
            status: self.csrs.sstatus,
            reserved: self.reservation.map_or(0, reserved),
            value: self.reservation.map_or(0, |it| it.value),
            stores,
            loads,
            register,
        }
    }

    fn copy(&self) -> VirtualHart {
        VirtualHart {
            x: self.x,
            pc: self.pc,
            mode: self.mode,
            f: self.f,
            csrs: self.csrs,
            features: self.features,
            activity: self.activity,
            counts: Counts::default(),
            reservation: self.reservation,
            tlb: self.tlb.clone(),
            shortcuts: self.shortcuts.clone(),
            decoded: self.decoded.clone(),
            fences: Fences::None,
            fences_instructions: false,
        }
    }
}

impl Foreseen {
    fn difference(&self, what: What, translated: u64, interpreted: u64) -> Difference {
        Difference {
            block: self.block.pc,
            what,
            translated,
            interpreted,
        }
    }
}

/// The instruction of a block at an address.
fn instruction_at(block: &Block, source: &[u64], pc: u64) -> Option<Instruction> {
    let at = usize::try_from(pc.wrapping_sub(block.pc) / 2).ok()?;
    let (instruction, _) = instruction_of(source, block.skipped(), at)?;
    let end = at + usize::from(instruction.length / 2);
    (end <= block.halves.into()).then_some(instruction)
}

/// What an instruction that has begun, but has not taken effect, may have changed. It is executed
/// again.
struct Begun {
    /// Registers, as bits.
    written: u32,
    /// The reservation.
    reserves: bool,
    /// A block of memory, which it clears.
    clears: bool,
}

impl Begun {
    const NONE: Begun = Begun {
        written: 0,
        reserves: false,
        clears: false,
    };

    /// By the instruction at an address of a block.
    fn at(foreseen: &Foreseen, mut pc: u64, blocks: &Blocks<'_>) -> Self {
        let block = &foreseen.block;
        let source = blocks.index.source_of(block);
        let mut begun = Begun::NONE;
        // `auipc` is translated with the jump that follows.
        for _ in 0..2 {
            let Some(next) = instruction_at(block, &source, pc) else {
                break;
            };
            let operation = next.operation;
            begun.written |= written(&next);
            begun.reserves |= matches!(
                operation,
                Operation::LrW | Operation::LrD | Operation::ScW | Operation::ScD
            );
            begun.clears |= operation == Operation::CboZero;
            if operation != Operation::Auipc {
                break;
            }
            pc = pc.wrapping_add(next.length.into());
        }
        begun
    }

    /// Compares the stores with memory.
    fn differs_in_memory(&self, stores: &[Store], host: &impl Host) -> Option<(What, [u64; 2])> {
        let stores = if self.clears { &[] } else { stores };
        let bytes = stores.iter().flat_map(|store| store.addresses());
        bytes
            .map(|address| {
                let stored = Store::byte(stores, address).map_or(0, u64::from);
                (What::Memory(address), [host.load(address, 1), stored])
            })
            .find(|(_, [own, other])| own != other)
    }
}

/// The register, as a bit, that an instruction writes before it takes effect: one that it does not
/// read.
fn written(instruction: &Instruction) -> u32 {
    let Instruction {
        operation,
        rd,
        rs1,
        rs2,
        ..
    } = *instruction;
    let format = operation.format();
    let by_immediate = matches!(
        operation,
        Operation::Csrrwi | Operation::Csrrsi | Operation::Csrrci
    );
    let reads_first = !by_immediate && !matches!(format, Format::U | Format::J) && rs1 == rd;
    let reads_second = format == Format::R && rs2 == rd;
    let has_target = !matches!(format, Format::S | Format::B);
    match has_target && !reads_first && !reads_second {
        true => 1 << rd,
        false => 0,
    }
}

impl Load {
    /// Returns whether memory still has what was loaded, where no store has changed it.
    fn is_kept(&self, stores: &[Store], host: &impl Host) -> bool {
        let mut bytes = (self.address..).zip(self.value.to_le_bytes());
        let mut bytes = bytes.by_ref().take(self.bytes.into());
        bytes.all(|(address, byte)| {
            Store::byte(stores, address).is_some() || host.load(address, 1) == u64::from(byte)
        })
    }
}
