//! A partition table with one sleep area, and machines that sleep, for tests.

extern crate std;

use std::vec;
use std::vec::Vec;

use gpt_disk_types::{
    Crc32, GptHeader, GptHeaderRevision, GptHeaderSignature, GptPartitionEntry, GptPartitionType,
    LbaLe, MasterBootRecord, U32Le, crc, guid,
};

use poorwill_image::{
    ImageKind, NoWorkers, Salt, SaveError, SaveRequest, Saved, Seal, SealingKey, StateWriter,
    Workspace, save,
};
use poorwill_medium::Medium;
use poorwill_memory::fake::FakeMemory;
use poorwill_memory::{MachineIdentity, OsMemory, Page, checksum, to_usize};

use crate::{Area, OpenSlot, Purpose};

const AREA: GptPartitionType = GptPartitionType(guid!("3063e3c3-c55c-4395-bc5f-8f60545ad228"));

const LINUX: GptPartitionType = GptPartitionType(guid!("0fc63daf-8483-4772-8e79-3d69d8477de4"));

/// The length of a block in bytes.
pub const BLOCK_BYTES: u32 = 512;

/// The length of the table: the first byte of a partition.
pub const TABLE_BYTES: u64 = 34 * BLOCK_BYTES as u64;

const ENTRIES: u32 = 128;
const ENTRY_BYTES: u32 = 128;

/// The first [`TABLE_BYTES`] of a disk with a sleep area of `length` bytes directly after
/// them.
#[must_use]
pub fn partition_table(length: u64) -> Vec<u8> {
    partition_table_beside(length, 0)
}

/// The same, with a Linux partition of `other` bytes directly after the area, unless 0.
#[must_use]
pub fn partition_table_beside(length: u64, other: u64) -> Vec<u8> {
    let block = u64::from(BLOCK_BYTES);
    let (first, blocks, others) = (TABLE_BYTES / block, length / block, other / block);
    table_of([(AREA, first, blocks), (LINUX, first + blocks, others)])
}

/// The same, with a Linux partition in the last block of the area.
#[must_use]
pub fn overlapping_partition_table(length: u64) -> Vec<u8> {
    let block = u64::from(BLOCK_BYTES);
    let (first, blocks) = (TABLE_BYTES / block, length / block);
    table_of([(AREA, first, blocks), (LINUX, first + blocks - 1, 1)])
}

/// A table with these partitions: type, first block and number of blocks, of which 0 stand for
/// no partition.
fn table_of(partitions: [(GptPartitionType, u64, u64); 2]) -> Vec<u8> {
    let end = partitions.iter().map(|(_, first, blocks)| first + blocks);
    let last = end.max().unwrap_or_default() - 1;
    let mut array = vec![0; (ENTRIES * ENTRY_BYTES) as usize];
    let entries = array.chunks_exact_mut(ENTRY_BYTES as usize);
    for (place, (kind, first, blocks)) in entries.zip(partitions) {
        if blocks == 0 {
            continue;
        }
        let entry = GptPartitionEntry {
            partition_type_guid: kind,
            starting_lba: LbaLe::from_u64(first),
            ending_lba: LbaLe::from_u64(first + blocks - 1),
            ..Default::default()
        };
        place.copy_from_slice(bytemuck::bytes_of(&entry));
    }
    let checksum = crc::Crc::<u32>::new(&Crc32::ALGORITHM).checksum(&array);
    let mut header = GptHeader {
        signature: GptHeaderSignature::EFI_COMPATIBLE_PARTITION_TABLE_HEADER,
        revision: GptHeaderRevision::VERSION_1_0,
        my_lba: LbaLe::from_u64(1),
        first_usable_lba: LbaLe::from_u64(TABLE_BYTES / u64::from(BLOCK_BYTES)),
        last_usable_lba: LbaLe::from_u64(last),
        partition_entry_lba: LbaLe::from_u64(2),
        number_of_partition_entries: U32Le::from_u32(ENTRIES),
        size_of_partition_entry: U32Le::from_u32(ENTRY_BYTES),
        partition_entry_array_crc32: Crc32(U32Le::from_u32(checksum)),
        ..Default::default()
    };
    header.update_header_crc32();
    let block = BLOCK_BYTES as usize;
    let mut table = vec![0; 2 * block];
    let mbr = MasterBootRecord::protective_mbr(last + 1);
    table[..block].copy_from_slice(bytemuck::bytes_of(&mbr));
    let header = bytemuck::bytes_of(&header);
    table[block..block + header.len()].copy_from_slice(header);
    table.extend(array);
    table
}

/// Saves memory with these contents, and no state; `None`: the medium failed, or the slot is full.
///
/// # Panics
///
/// If the slot's medium has shrunk.
pub fn save_pages<M: Medium>(
    slot: &mut OpenSlot<'_, '_, M>,
    identity: MachineIdentity,
    kind: ImageKind,
    contents: &[Page],
) -> Option<Saved> {
    let os_pages = contents.len() as u64;
    let mut memory = FakeMemory::new(&[os_pages]);
    for (index, page) in (0..).zip(contents) {
        memory.set(index, page);
    }
    // What the workspace holds at first does not matter.
    let mut pages = vec![Page([0xdead_beef; 512]); to_usize(Workspace::pages_needed(os_pages))];
    let mut workspace = Workspace::new(&mut pages, os_pages).expect("there is room");
    let request = SaveRequest {
        identity,
        generation: slot.generation(),
        kind,
        saved_at_ns: 0,
        state_bytes: 0,
        seal: None,
    };
    write(slot, memory.os(), &request, &mut workspace).ok()
}

fn write<M: Medium>(
    slot: &mut OpenSlot<'_, '_, M>,
    memory: &mut OsMemory,
    request: &SaveRequest<'_>,
    workspace: &mut Workspace<'_>,
) -> Result<Saved, SaveError> {
    let mut medium = slot.medium().expect("the slot is there");
    save(
        &mut medium,
        memory,
        request,
        workspace,
        &NoWorkers,
        &mut |_| (),
    )
}

/// A machine that sleeps.
#[derive(Clone, Copy, Debug)]
pub struct Asleep<'a> {
    /// The pages of OS memory.
    pub os_pages: u64,
    /// The first page of each run of this length is in use.
    pub one_used_in: usize,
    /// Whether its image is a snapshot.
    pub purpose: Purpose,
    /// The machine's identity.
    pub identity: MachineIdentity,
    /// The owners and versions of its state's sections.
    pub state: &'a [(u32, u16)],
    /// The key that seals the image; `None`: plain.
    pub key: Option<&'a SealingKey>,
}

impl Asleep<'_> {
    /// Commits its image in `area`.
    ///
    /// # Panics
    ///
    /// If the area has no room, or fails.
    pub fn commit<M: Medium>(&self, area: &mut Area<'_, M>) {
        let mut slot = area.begin(self.purpose).expect("the area can be used");
        let saved = self.save(&mut slot);
        slot.commit(&saved, 1200).expect("it is committed");
    }

    /// Commits a set in `area`: an image of this machine for each of the domains.
    ///
    /// # Panics
    ///
    /// If the area has no room, or fails.
    pub fn commit_set<M: Medium>(&self, area: &mut Area<'_, M>, domains: &[&str]) {
        let mut slot = area.begin(Purpose::Set).expect("the area can be used");
        for name in domains {
            let saved = self.save(&mut slot);
            slot.add(checksum::name_hash(name), &saved)
                .expect("there is room");
        }
        slot.commit_set(1200).expect("it is committed");
    }

    fn save<M: Medium>(&self, slot: &mut OpenSlot<'_, '_, M>) -> Saved {
        let mut memory = FakeMemory::new(&[self.os_pages]);
        for index in (0..self.os_pages).step_by(self.one_used_in) {
            memory.set(index, &Page([index + 1; 512]));
        }
        let os = memory.os();
        let mut pages = vec![Page::ZERO; to_usize(Workspace::pages_needed(os.pages()))];
        let mut workspace = Workspace::new(&mut pages, os.pages()).expect("there is room");
        let mut state = StateWriter::new(workspace.state);
        for (owner, version) in self.state {
            state
                .section(*owner, 0, *version, &[0u64; 3])
                .expect("a few sections");
        }
        let request = SaveRequest {
            identity: self.identity,
            generation: slot.generation(),
            kind: self.purpose.kind(),
            saved_at_ns: 1_700_000_000_000_000_000,
            state_bytes: state.finish(),
            seal: self.key.map(|key| Seal {
                key,
                salt: Salt([5; 8]),
            }),
        };
        write(slot, os, &request, &mut workspace).expect("it is saved")
    }
}
