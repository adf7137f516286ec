use dtoolkit::fdt::FdtNode;
use dtoolkit::{Node, Property};
use poorwill_memory::{MachineIdentity, PAGE_BYTES, Page, PageHasher, PhysRange};
use zerocopy::IntoBytes;

use crate::hart::Hart;
use crate::node::MAX_DEPTH;

/// The number of the rule for a machine's identity. After a change of the rule, no machine has the
/// identity in its old images. Raise this number with every change, so that `poorwill area --for`
/// can predict the refusals.
pub const IDENTITY_RULE: u16 = 1;

/// The tree's part of a machine's identity: a hash for each aspect except memory. The hash of
/// memory covers only the OS's part ([`crate::Machine::identity`]).
///
/// `/chosen` is left out, because it differs between power-ons (seeds, boot arguments, the initrd's
/// address).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    harts: u64,
    isa: u64,
    device_tree: u64,
}

impl Fingerprint {
    pub(crate) fn with_memory(&self, memory: &[PhysRange]) -> MachineIdentity {
        MachineIdentity {
            memory: memory_fingerprint(memory),
            harts: self.harts,
            isa: self.isa,
            device_tree: self.device_tree,
        }
    }
}

/// Computes the hashes; `None` if the tree is nested too deeply.
pub(crate) fn fingerprint(root: FdtNode<'_>, harts: &[Hart]) -> Option<Fingerprint> {
    let mut is_walked = true;
    let fingerprint = Fingerprint {
        harts: harts_fingerprint(harts.iter().map(|hart| hart.id)),
        isa: digest(|into| {
            let cpus = root
                .child("cpus")
                .into_iter()
                .flat_map(|cpus| cpus.children());
            for cpu in cpus {
                for name in [
                    "riscv,isa-base",
                    "riscv,isa-extensions",
                    "riscv,isa",
                    "mmu-type",
                ] {
                    into.property(cpu, name);
                }
            }
        }),
        device_tree: digest(|into| {
            for node in root.children().filter(|node| node.name() != "chosen") {
                is_walked &= into.node(node, MAX_DEPTH).is_some();
            }
        }),
    };
    is_walked.then_some(fingerprint)
}

/// A hash of the harts' IDs.
#[must_use]
pub fn harts_fingerprint(ids: impl IntoIterator<Item = u64>) -> u64 {
    digest(|into| ids.into_iter().for_each(|id| into.word(id)))
}

/// A hash of ranges of memory. The hash of the OS's memory changes with the firmware's reserved
/// ranges.
#[must_use]
pub fn memory_fingerprint(ranges: &[PhysRange]) -> u64 {
    digest(|into| {
        for range in ranges {
            into.word(range.start);
            into.word(range.end);
        }
    })
}

// Not inlined, so that the page leaves the stack on return.
#[inline(never)]
pub(crate) fn digest(feed: impl FnOnce(&mut Digest<'_>)) -> u64 {
    let mut page = Page::ZERO;
    let mut digest = Digest {
        hasher: PageHasher::new(),
        page: &mut page,
        filled: 0,
    };
    feed(&mut digest);
    digest.finish()
}

/// Collects bytes for the hasher, which takes pages.
pub(crate) struct Digest<'p> {
    hasher: PageHasher,
    page: &'p mut Page,
    filled: usize,
}

impl Digest<'_> {
    /// Hashes a node and up to `depth` levels below it; `None` if there are more.
    fn node(&mut self, node: FdtNode<'_>, depth: u32) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        self.bytes(node.name().as_bytes());
        for property in node.properties() {
            self.bytes(property.name().as_bytes());
            self.bytes(property.value());
        }
        for child in node.children() {
            self.node(child, depth)?;
        }
        // Distinguishes a child from a sibling.
        self.word(u64::MAX);
        Some(())
    }

    fn property(&mut self, node: FdtNode<'_>, name: &str) {
        match node.property(name) {
            Some(property) => self.bytes(property.value()),
            None => self.word(u64::MAX),
        }
    }

    pub(crate) fn word(&mut self, word: u64) {
        self.put(&word.to_le_bytes());
    }

    /// Hashes the length first, so that different lists of strings have different hashes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        self.put(bytes);
    }

    fn put(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = &mut self.page.as_mut_bytes()[self.filled..];
            let taken = room.len().min(bytes.len());
            room[..taken].copy_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            self.filled += taken;
            if self.filled as u64 == PAGE_BYTES {
                self.flush();
            }
        }
    }

    fn flush(&mut self) {
        self.page.as_mut_bytes()[self.filled..].fill(0);
        self.hasher.page(self.page);
        self.filled = 0;
    }

    fn finish(mut self) -> u64 {
        if self.filled > 0 {
            self.flush();
        }
        self.hasher.finish()
    }
}
