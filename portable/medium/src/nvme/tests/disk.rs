//! What lies behind a modelled controller: namespaces and their commands.

use poorwill_memory::PAGE_BYTES;

use super::memory::{load, store};
use crate::nvme::Identifiers;

/// The outcome of a command: an error is a status code.
pub(super) type Outcome = Result<(), u16>;

#[derive(Clone, Debug)]
pub(super) struct Disk {
    pub(super) namespaces: Vec<Space>,
    /// The most that a transfer may move: 2^n pages, or any for 0.
    pub(super) exponent: u8,
    pub(super) has_cache: bool,
    /// What it says of SGLs (SGLS, bits 1:0).
    pub(super) sgl_support: u8,
    /// How many SGL descriptors of data each transfer had; 0 with PRPs.
    pub(super) descriptors: Vec<usize>,
    /// Namespace numbers listed as active, where they are not the true ones.
    pub(super) listed: Option<Vec<u32>>,
    /// How long a shutdown takes, in microseconds.
    pub(super) shutdown: u32,
    /// A block that cannot be read or written, and the status it gives.
    pub(super) bad_block: Option<(u64, u16)>,
    pub(super) flush_status: u16,
    /// Namespaces flushed so far.
    pub(super) flushed: Vec<u32>,
    /// The name of its subsystem, and the controller's number there.
    pub(super) subsystem: (&'static str, u16),
}

/// A namespace.
#[derive(Clone, Debug)]
pub(super) struct Space {
    pub(super) id: u32,
    pub(super) block_shift: u32,
    pub(super) metadata: u16,
    pub(super) bytes: Vec<u8>,
    /// Several controllers may reach it (NMIC, bit 0).
    pub(super) is_shared: bool,
    pub(super) identifiers: Identifiers,
    /// Identify Namespace has them, and not their list alone.
    pub(super) describes_identifiers: bool,
    /// Its command set.
    pub(super) command_set: u8,
}

impl Disk {
    pub(super) fn new(namespaces: Vec<Space>) -> Self {
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

    pub(super) fn identify(&self, data: u64, what: u8, id: u32) -> Outcome {
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
        store_bytes(data, &answer);
        Ok(())
    }

    pub(super) fn execute(&mut self, opcode: u8, entry: &[u64; 8]) -> Outcome {
        let id = (entry[0] >> 32) as u32;
        if opcode == 0 {
            self.flushed.push(id);
            return if self.flush_status == 0 {
                Ok(())
            } else {
                Err(self.flush_status)
            };
        }
        let (block, blocks) = (entry[5], (entry[6] & 0xffff) + 1);
        if let Some((bad, status)) = self.bad_block
            && (block..block + blocks).contains(&bad)
        {
            return Err(status);
        }
        let most = if self.exponent == 0 {
            u64::MAX
        } else {
            1 << self.exponent
        };
        let space = self.find(id)?;
        let shift = space.block_shift;
        let (start, length) = (block << shift, blocks << shift);
        if length > most.saturating_mul(PAGE_BYTES) {
            return Err(0x002);
        }
        let (places, descriptors) = match entry[0] >> 14 & 0b11 {
            0 => (pages(entry[3], entry[4], length), 0),
            1 => scattered(entry[3], entry[4], length),
            kind => panic!("the data pointer is of kind {kind}"),
        };
        assert!(
            descriptors == 0 || matches!(self.sgl_support, 1 | 2),
            "SGLs are not understood"
        );
        self.descriptors.push(descriptors);
        let space = self
            .namespaces
            .iter_mut()
            .find(|space| space.id == id)
            .ok_or(0x00bu16)?;
        let range = start as usize..(start + length) as usize;
        let bytes = space.bytes.get_mut(range).ok_or(0x080u16)?;
        for (place, bytes) in places.into_iter().zip(bytes.chunks_mut(4096)) {
            match opcode {
                1 => load_bytes(place, bytes),
                2 => store_bytes(place, bytes),
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
    pub(super) fn new(id: u32, block_shift: u32, pages: usize) -> Self {
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

/// The pages that PRP entries describe; each must be a whole page.
fn pages(first: u64, second: u64, length: u64) -> Vec<u64> {
    assert_eq!(length % PAGE_BYTES, 0, "transfers are of whole pages here");
    let mut pages = vec![first];
    match length / PAGE_BYTES {
        1 => assert_eq!(second, 0, "PRP entry 2 is reserved"),
        2 => pages.push(second),
        count => {
            assert_eq!(second % PAGE_BYTES, 0);
            assert!(count <= 513, "the list is longer than a page");
            pages.extend((0..count - 1).map(|index| load(second + 8 * index)));
        }
    }
    assert!(
        pages
            .iter()
            .all(|page| *page != 0 && page % PAGE_BYTES == 0)
    );
    pages
}

/// The pages that an SGL descriptor describes, and by how many of data blocks.
fn scattered(address: u64, rest: u64, length: u64) -> (Vec<u64>, usize) {
    let bytes = rest & 0xffff_ffff;
    let blocks: Vec<(u64, u64)> = match rest >> 32 {
        0 => vec![(address, bytes)],
        0x3000_0000 => {
            assert!(bytes <= PAGE_BYTES && bytes.is_multiple_of(16));
            let places = (address..address + bytes).step_by(16);
            places.map(|at| (load(at), load(at + 8))).collect()
        }
        kind => panic!("a descriptor of kind {kind:#x}"),
    };
    let pages = |(at, bytes): &(u64, u64)| {
        assert!(*at != 0 && (at | bytes) % PAGE_BYTES == 0 && *bytes > 0);
        (*at..at + bytes).step_by(PAGE_BYTES as usize)
    };
    let pages: Vec<u64> = blocks.iter().flat_map(pages).collect();
    assert_eq!(pages.len() as u64 * PAGE_BYTES, length);
    (pages, blocks.len())
}

fn load_bytes(address: u64, into: &mut [u8]) {
    for (address, bytes) in (address..).step_by(8).zip(into.chunks_mut(8)) {
        bytes.copy_from_slice(&load(address).to_le_bytes());
    }
}

fn store_bytes(address: u64, from: &[u8]) {
    for (address, bytes) in (address..).step_by(8).zip(from.chunks(8)) {
        store(address, u64::from_le_bytes(bytes.try_into().unwrap()));
    }
}
