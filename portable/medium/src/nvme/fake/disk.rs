use std::vec;
use std::vec::Vec;

use poorwill_memory::PAGE_BYTES;

use super::memory::{DeviceMemory, load_bytes, store_bytes};
use super::queue::Command;
use crate::nvme::Identifiers;

/// The outcome of a command: an error is a status code.
pub type Outcome = Result<(), u16>;

/// The namespaces of a controller, and what it says of itself.
#[derive(Clone, Debug)]
pub struct Disk {
    pub namespaces: Vec<Space>,
    /// The most that a transfer may move: 2^n pages, or any for 0.
    pub exponent: u8,
    /// It has a volatile write cache.
    pub has_cache: bool,
    /// What it says of SGLs (SGLS, bits 1:0).
    pub sgl_support: u8,
    /// How many SGL descriptors of data each transfer had; 0 with PRPs.
    pub descriptors: Vec<usize>,
    /// Namespace numbers listed as active, where they are not the true ones.
    pub listed: Option<Vec<u32>>,
    /// How long a shutdown takes, in microseconds.
    pub shutdown: u32,
    /// A block that cannot be read or written, and the status it gives.
    pub bad_block: Option<(u64, u16)>,
    /// The status of each flush.
    pub flush_status: u16,
    /// Namespaces flushed so far.
    pub flushed: Vec<u32>,
    /// The name of its subsystem, and the controller's number there.
    pub subsystem: (&'static str, u16),
}

/// A namespace.
#[derive(Clone, Debug)]
pub struct Space {
    pub id: u32,
    /// Bytes of a block as a power of two.
    pub block_shift: u32,
    pub metadata: u16,
    pub bytes: Vec<u8>,
    /// Several controllers may reach it (NMIC, bit 0).
    pub is_shared: bool,
    pub identifiers: Identifiers,
    /// Identify Namespace has them, and not their list alone.
    pub describes_identifiers: bool,
    /// Its command set.
    pub command_set: u8,
}

impl Disk {
    /// An honest controller's.
    pub fn new(namespaces: Vec<Space>) -> Self {
        Disk {
            namespaces,
            exponent: 7,
            has_cache: true,
            sgl_support: 1,
            descriptors: Vec::new(),
            listed: None,
            shutdown: 0,
            bad_block: None,
            flush_status: 0,
            flushed: Vec::new(),
            subsystem: ("nqn.2014-08.org.nvmexpress:disk", 0),
        }
    }

    /// The answer to Identify.
    ///
    /// # Errors
    ///
    /// The status.
    pub fn identify(&self, what: u8, id: u32) -> Result<Vec<u8>, u16> {
        let mut answer = vec![0u8; 4096];
        match what {
            0 => self.find(id)?.describe(&mut answer),
            1 => {
                let highest = self
                    .namespaces
                    .iter()
                    .map(|space| space.id)
                    .max()
                    .unwrap_or(0);
                answer[77] = self.exponent;
                let (name, number) = self.subsystem;
                answer[78..80].copy_from_slice(&number.to_le_bytes());
                answer[768..][..name.len()].copy_from_slice(name.as_bytes());
                answer[88..92].copy_from_slice(&self.shutdown.to_le_bytes());
                answer[516..520].copy_from_slice(&highest.to_le_bytes());
                answer[525] = u8::from(self.has_cache);
                answer[536] = self.sgl_support;
            }
            2 => {
                let ids = self.namespaces.iter().map(|space| space.id).collect();
                let ids: Vec<u32> = self.listed.clone().unwrap_or(ids);
                for (place, id) in answer.chunks_mut(4).zip(ids) {
                    place.copy_from_slice(&id.to_le_bytes());
                }
            }
            3 => self.find(id)?.list_identifiers(&mut answer),
            _ => return Err(0x002),
        }
        Ok(answer)
    }

    /// Executes an I/O command.
    ///
    /// # Errors
    ///
    /// The status.
    ///
    /// # Panics
    ///
    /// When the driver must not give such a command.
    pub fn execute(&mut self, memory: &impl DeviceMemory, command: &Command) -> Outcome {
        let (id, opcode) = ((command[0] >> 32) as u32, command[0] as u8);
        if opcode == 0 {
            self.flushed.push(id);
            return match self.flush_status {
                0 => Ok(()),
                status => Err(status),
            };
        }
        let (block, blocks) = (command[5], (command[6] & 0xffff) + 1);
        if let Some((bad, status)) = self.bad_block
            && (block..block + blocks).contains(&bad)
        {
            return Err(status);
        }
        let shift = self.find(id)?.block_shift;
        let (start, length) = (block << shift, blocks << shift);
        let pages = length / PAGE_BYTES;
        if self.exponent > 0 && pages > 1 << self.exponent {
            return Err(0x002);
        }
        assert_eq!(length % PAGE_BYTES, 0, "transfers are of whole pages here");
        let (places, descriptors) = places(memory, command, pages);
        assert_eq!(places.len() as u64, pages);
        match descriptors {
            0 => assert!(pages > 1 || command[4] == 0, "PRP entry 2 is reserved"),
            _ => assert!(matches!(self.sgl_support, 1 | 2), "SGLs are not understood"),
        }
        self.descriptors.push(descriptors);
        let mut spaces = self.namespaces.iter_mut();
        let space = spaces.find(|space| space.id == id).ok_or(0x00bu16)?;
        let range = start as usize..(start + length) as usize;
        let bytes = space.bytes.get_mut(range).ok_or(0x080u16)?;
        for (place, bytes) in places.into_iter().zip(bytes.chunks_mut(4096)) {
            match opcode {
                1 => load_bytes(memory, place, bytes),
                2 => store_bytes(memory, place, bytes),
                _ => return Err(0x001),
            }
        }
        Ok(())
    }

    fn find(&self, id: u32) -> Result<&Space, u16> {
        self.namespaces
            .iter()
            .find(|space| space.id == id)
            .ok_or(0x00b)
    }
}

impl Space {
    pub fn new(id: u32, block_shift: u32, pages: usize) -> Self {
        Space {
            id,
            block_shift,
            metadata: 0,
            bytes: vec![0; pages * 4096],
            is_shared: false,
            identifiers: Identifiers::default(),
            describes_identifiers: true,
            command_set: 0,
        }
    }

    /// Namespace Identification Descriptors: the command set, and the identifiers that it has.
    fn list_identifiers(&self, answer: &mut [u8]) {
        let Identifiers { nguid, eui64, uuid } = &self.identifiers;
        let known: [(u8, &[u8]); 4] = [(4, &[self.command_set]), (3, uuid), (1, eui64), (2, nguid)];
        let mut at = 0;
        for (kind, bytes) in known {
            if kind == 4 || bytes.iter().any(|byte| *byte != 0) {
                answer[at..at + 2].copy_from_slice(&[kind, bytes.len() as u8]);
                answer[at + 4..][..bytes.len()].copy_from_slice(bytes);
                at += 4 + bytes.len();
            }
        }
    }

    fn describe(&self, answer: &mut [u8]) {
        let blocks = (self.bytes.len() >> self.block_shift) as u64;
        answer[..8].copy_from_slice(&blocks.to_le_bytes());
        // Formats 0 to 2, of which 2 is in use.
        answer[25] = 2;
        answer[26] = 2;
        answer[30] = u8::from(self.is_shared);
        if self.describes_identifiers {
            answer[104..120].copy_from_slice(&self.identifiers.nguid);
            answer[120..128].copy_from_slice(&self.identifiers.eui64);
        }
        answer[136..138].copy_from_slice(&self.metadata.to_le_bytes());
        answer[138] = self.block_shift as u8;
    }
}

/// The pages that the data pointer of a read or a write names, and how many SGL descriptors of data
/// there are. PRP entries name `pages` of them.
///
/// # Panics
///
/// When they are no whole pages.
pub fn places(memory: &impl DeviceMemory, command: &Command, pages: u64) -> (Vec<u64>, usize) {
    let (places, descriptors) = match command[0] >> 14 & 0b11 {
        0 => (entries(memory, command, pages), 0),
        1 => scattered(memory, command),
        kind => panic!("the data pointer is of kind {kind}"),
    };
    for place in &places {
        assert!(
            *place != 0 && place % PAGE_BYTES == 0,
            "no page: {place:#x}"
        );
    }
    (places, descriptors)
}

fn entries(memory: &impl DeviceMemory, command: &Command, pages: u64) -> Vec<u64> {
    let [first, second] = [command[3], command[4]];
    let is_list = pages > 2;
    let is_page = second.is_multiple_of(PAGE_BYTES) && pages <= 513;
    assert!(!is_list || is_page, "the list is not in a page");
    let other = |page| match page {
        0 => first,
        _ if is_list => memory.load(second + 8 * (page - 1)),
        _ => second,
    };
    (0..pages).map(other).collect()
}

fn scattered(memory: &impl DeviceMemory, command: &Command) -> (Vec<u64>, usize) {
    let (address, bytes) = (command[3], command[4] & 0xffff_ffff);
    let blocks: Vec<(u64, u64)> = match command[4] >> 32 {
        0 => vec![(address, bytes)],
        0x3000_0000 => {
            assert!(bytes <= PAGE_BYTES && bytes.is_multiple_of(16));
            let block = |at| (memory.load(at), memory.load(at + 8));
            (address..address + bytes).step_by(16).map(block).collect()
        }
        kind => panic!("a descriptor of kind {kind:#x}"),
    };
    let pages = |(at, bytes): &(u64, u64)| {
        assert!(bytes.is_multiple_of(PAGE_BYTES) && *bytes > 0);
        (*at..at + bytes).step_by(PAGE_BYTES as usize)
    };
    (blocks.iter().flat_map(pages).collect(), blocks.len())
}
