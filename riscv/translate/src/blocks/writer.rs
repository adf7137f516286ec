//! Writes the words of a block, and notes what they belong to.

use poorwill_isa::{Operation, encode};

use super::region::Place;

/// The register with an address in the [`Environment`](super::Environment), from which its fields and the
/// first words of the region are near.
pub(super) const ENVIRONMENT: u8 = 3;
/// Registers of the core that hold nothing between two instructions of the OS.
pub(super) const A: u8 = 5;
pub(super) const B: u8 = 7;
pub(super) const C: u8 = 31;
pub(super) const D: u8 = 6;
/// The register that counts instructions.
pub(super) const COUNTER: u8 = 28;
/// The register with the distance of the first window.
pub(super) const DISTANCE: u8 = 29;
/// The register with the physical address of a place in the stack, within a block.
pub(super) const STACK: u8 = 30;

/// The registers whose values of the OS are in the environment. Compiled code of a kernel uses them
/// least.
pub(super) const KEPT: [u8; 8] = [ENVIRONMENT, A, D, B, COUNTER, DISTANCE, STACK, C];

/// Offsets in the environment.
pub(super) mod offset {
    use core::mem::offset_of;

    use poorwill_memory::PAGE_BYTES;

    use super::super::region::Environment;

    /// Offset of the address in [`ENVIRONMENT`](super::ENVIRONMENT) from the page. The region follows the
    /// page.
    pub(in super::super) const BIAS: i32 = PAGE_BYTES as i32 - REGION;
    /// Offset of the region's first word.
    pub(in super::super) const REGION: i32 = 2016;

    pub(in super::super) const SSTATUS: i32 = offset_of!(Environment, sstatus) as i32 - BIAS;
    pub(in super::super) const ATTENTION: i32 = offset_of!(Environment, attention) as i32 - BIAS;
    pub(in super::super) const RESERVED: i32 = offset_of!(Environment, reserved) as i32 - BIAS;
    pub(in super::super) const RESERVED_VALUE: i32 =
        offset_of!(Environment, reserved_value) as i32 - BIAS;
    pub(in super::super) const MTIME: i32 = offset_of!(Environment, mtime) as i32 - BIAS;
    pub(in super::super) const DISTANCE: i32 = offset_of!(Environment, distance) as i32 - BIAS;
    pub(in super::super) const SELECTED: i32 = offset_of!(Environment, selected) as i32 - BIAS;
    pub(in super::super) const STACK_START: i32 =
        offset_of!(Environment, stack_start) as i32 - BIAS;
    pub(in super::super) const STACK_BYTES: i32 =
        offset_of!(Environment, stack_bytes) as i32 - BIAS;
    pub(in super::super) const STACK_PHYSICAL: i32 =
        offset_of!(Environment, stack_physical) as i32 - BIAS;

    /// Offset of a register.
    pub(in super::super) fn of(register: u8) -> i32 {
        offset_of!(Environment, x) as i32 - BIAS + 8 * i32::from(register)
    }

    /// Offset of a floating-point register.
    pub(in super::super) fn of_float(register: u8) -> i32 {
        offset_of!(Environment, f) as i32 - BIAS + 8 * i32::from(register)
    }
}

/// Returns whether the OS's value of a register is in the environment.
pub(super) fn is_kept(register: u8) -> bool {
    const BITS: u32 = {
        let mut bits = 0;
        let mut number = 0;
        while number < KEPT.len() {
            bits |= 1 << KEPT[number];
            number += 1;
        }
        bits
    };
    BITS >> register & 1 != 0
}

/// Words that leave a block: room for a jump, and the distance of the next instruction from the
/// block's first one.
pub(super) const LEAVE_WORDS: usize = 3;

/// Words at the start of a dropped block that jump to the new one.
pub(super) const FORWARD_WORDS: usize = 2;

/// `ebreak`: back to machine mode.
pub(super) const BREAK: u32 = Operation::Ebreak.encoding();

/// `ecall`: back to machine mode, which interprets an instruction, and then looks for a block.
pub(super) const LEAVE: u32 = Operation::Ecall.encoding();

/// The value itself, or 4 GiB more and true: Linux has modules in the 2 GiB below its image, whose
/// addresses do not fit into 32 bits.
fn split(value: u64) -> Option<(i32, bool)> {
    let part = |value: u64| i32::try_from(value.cast_signed()).ok();
    let above = || Some((part(value.wrapping_add(1 << 32))?, true));
    part(value).map(|value| (value, false)).or_else(above)
}

/// Returns whether a [constant](Writer::constant) can be set.
pub(super) fn is_constant(value: u64) -> bool {
    split(value).is_some()
}

/// A full cache ends a translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

/// The free words and places, and how many of them a block has.
#[derive(Debug)]
pub(super) struct Writer<'a> {
    words: &'a mut [u32],
    places: &'a mut [Place],
    /// Number of the first word in the region, and its address.
    first: u32,
    base: u64,
    pub(super) word: usize,
    pub(super) place: usize,
    is_full: bool,
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        words: &'a mut [u32],
        places: &'a mut [Place],
        (first, base): (u32, u64),
    ) -> Self {
        Writer {
            words,
            places,
            first,
            base,
            word: 0,
            place: 0,
            is_full: false,
        }
    }

    /// # Errors
    ///
    /// [`Full`]: words or places are missing.
    pub(super) fn check(&self) -> Result<(), Full> {
        if self.is_full { Err(Full) } else { Ok(()) }
    }

    /// Address of the next word.
    pub(super) fn here(&self) -> u64 {
        self.base + 4 * self.word as u64
    }

    pub(super) fn put(&mut self, word: u32) {
        match self.words.get_mut(self.word) {
            Some(free) => *free = word,
            None => self.is_full = true,
        }
        self.word += 1;
    }

    /// Says what the next words belong to.
    pub(super) fn mark(&mut self, at: u8, rest: u8) {
        let place = Place {
            word: self.word as u16,
            at,
            rest,
        };
        match self.places.get_mut(self.place) {
            Some(free) => *free = place,
            None => self.is_full = true,
        }
        self.place += 1;
    }

    pub(super) fn register(&mut self, operation: Operation, rd: u8, rs1: u8, rs2: u8) {
        let [rd, rs1, rs2] = [rd, rs1, rs2].map(u32::from);
        self.put(encode::r(operation.encoding(), rd, rs1, rs2));
    }

    /// Also loads, with the offset as immediate.
    pub(super) fn immediate(&mut self, operation: Operation, rd: u8, rs1: u8, immediate: i32) {
        self.put(encode::i(
            operation.encoding(),
            rd.into(),
            rs1.into(),
            immediate,
        ));
    }

    pub(super) fn store(&mut self, operation: Operation, rs1: u8, rs2: u8, offset: i32) {
        self.put(encode::s(
            operation.encoding(),
            rs1.into(),
            rs2.into(),
            offset,
        ));
    }

    pub(super) fn copy(&mut self, rd: u8, rs1: u8) {
        self.immediate(Operation::Addi, rd, rs1, 0);
    }

    /// Loads a double word of the environment.
    pub(super) fn load_kept(&mut self, rd: u8, offset: i32) {
        self.immediate(Operation::Ld, rd, ENVIRONMENT, offset);
    }

    /// Stores a double word of the environment.
    pub(super) fn keep(&mut self, register: u8, offset: i32) {
        self.store(Operation::Sd, ENVIRONMENT, register, offset);
    }

    /// The register of the core with the OS's value of a register: its own, or `scratch`.
    pub(super) fn source(&mut self, register: u8, scratch: u8) -> u8 {
        if !is_kept(register) {
            return register;
        }
        self.load_kept(scratch, offset::of(register));
        scratch
    }

    /// Ends an instruction that has left its result in [`target`]: a kept one goes to the
    /// environment.
    pub(super) fn commit(&mut self, register: u8) {
        if is_kept(register) {
            self.keep(target(register), offset::of(register));
        }
    }

    /// Sets a register of the core, other than [`D`]. Returns false, with nothing written, for a value
    /// that is no [address](split) of a kernel.
    pub(super) fn constant(&mut self, rd: u8, value: u64) -> bool {
        let Some((value, is_below)) = split(value) else {
            return false;
        };
        self.signed(rd, value);
        if is_below {
            self.immediate(Operation::Addi, D, 0, -1);
            self.immediate(Operation::Slli, D, D, 32);
            self.register(Operation::Add, rd, rd, D);
        }
        true
    }

    fn signed(&mut self, rd: u8, value: i32) {
        let low = value << 20 >> 20;
        if low == value {
            return self.immediate(Operation::Addi, rd, 0, low);
        }
        let high = value.wrapping_sub(low);
        self.put(encode::u(Operation::Lui.encoding(), rd.into(), high));
        // Also for 0x8000_0000 less a little, of which `lui` makes a negative number.
        self.immediate(Operation::Addiw, rd, rd, low);
    }

    /// Sets `rd` to the upper part of an address near this word; returns the offset of the rest, and
    /// of 8 more.
    pub(super) fn near(&mut self, rd: u8, address: u64) -> i32 {
        let parts = |here: u64| {
            let distance = address.wrapping_sub(here) as i32;
            let low = distance << 20 >> 20;
            (distance.wrapping_sub(low), low)
        };
        while parts(self.here()).1 + 8 > 2047 {
            self.put(Operation::Addi.encoding());
        }
        let (high, low) = parts(self.here());
        self.put(encode::u(Operation::Auipc.encoding(), rd.into(), high));
        low
    }

    /// Sets the immediate of an earlier word, which has none.
    pub(super) fn set_immediate(&mut self, word: usize, immediate: i32) {
        if let Some(word) = self.words.get_mut(word) {
            *word |= encode::i(0, 0, 0, immediate);
        }
    }

    /// The places from `first` on have the number of counted instructions before them, of `total`; now
    /// they get that of the rest. Counting begins at the first one.
    pub(super) fn set_rests(&mut self, first: usize, total: u8) {
        for place in self.places.get_mut(first..self.place).unwrap_or_default() {
            if !matches!(place.at, Place::LEAVES | Place::JUMPS) {
                place.rest = total.saturating_sub(place.rest);
            }
        }
        if let Some(place) = self.places.get_mut(first) {
            place.rest |= Place::COUNTS;
        }
    }

    /// What a place belongs to, and the rest from there.
    pub(super) fn place_at(&self, place: usize) -> (u8, u8) {
        let place = self.places.get(place);
        place.map_or((0, 0), |place| (place.at, place.rest & !Place::COUNTS))
    }

    /// A branch to a place that is not known yet; returns its word.
    pub(super) fn branch(&mut self, operation: Operation, rs1: u8, rs2: u8) -> usize {
        let word = self.word;
        self.put(encode::b(operation.encoding(), rs1.into(), rs2.into(), 0));
        word
    }

    /// Lets a branch go to the next word.
    pub(super) fn land(&mut self, branch: usize) {
        let distance = 4 * (self.word - branch) as i32;
        if let Some(word) = self.words.get_mut(branch) {
            *word |= encode::b(0, 0, 0, distance);
        }
    }

    /// Lets a branch go to an earlier word.
    pub(super) fn branch_back(&mut self, branch: usize, to: usize) {
        let distance = -4 * (branch - to) as i32;
        if let Some(word) = self.words.get_mut(branch) {
            *word |= encode::b(0, 0, 0, distance);
        }
    }

    /// Leaves the block for an address at this distance from its first instruction. Returns the word.
    pub(super) fn leave(&mut self, distance: i32) -> usize {
        let word = self.word;
        self.mark(Place::LEAVES, 0);
        self.put(BREAK);
        self.put(BREAK);
        self.put(distance.cast_unsigned());
        word
    }

    /// Lets a branch go to a word of the region. Returns false if that is too far.
    pub(super) fn branch_to(&mut self, branch: usize, to: u32) -> bool {
        let from = self.first + branch as u32;
        let distance = 4 * (to.cast_signed() - from.cast_signed());
        let is_near = (-(1 << 12)..1 << 12).contains(&distance);
        if let Some(word) = self.words.get_mut(branch).filter(|_| is_near) {
            *word |= encode::b(0, 0, 0, distance);
        }
        is_near
    }

    /// Puts a jump to a word of the region over two words.
    pub(super) fn jump(&mut self, word: usize, to: u32) {
        let from = self.first + word as u32;
        if let Some(words) = self.words.get_mut(word..word + FORWARD_WORDS) {
            put_jump(words, from, to);
        }
    }
}

/// Puts a jump from a word of the region to another one into one or two words.
pub(super) fn put_jump(words: &mut [u32], from: u32, to: u32) {
    let distance = 4 * (to.cast_signed() - from.cast_signed());
    if (-(1 << 20)..1 << 20).contains(&distance) {
        words[0] = encode::j(Operation::Jal.encoding(), 0, distance);
    } else {
        let low = distance << 20 >> 20;
        let high = distance.wrapping_sub(low);
        words[0] = encode::u(Operation::Auipc.encoding(), A.into(), high);
        words[1] = encode::i(Operation::Jalr.encoding(), 0, A.into(), low);
    }
}

/// The register of the core that takes a result.
pub(super) fn target(register: u8) -> u8 {
    if is_kept(register) { A } else { register }
}
