//! What previous stages pass, right and wrong, in a memory that notes what is read.

use poorwill_domain::{FwDynamic, FwDynamicError};
use poorwill_memory::PhysRange;
use proptest::prelude::*;

const TREE: u64 = 0x8220_0000;
const INFORMATION: u64 = 0x8003_0000;
const KERNEL: u64 = 0x8020_0000;

const MEMORY: [PhysRange; 2] = [
    PhysRange {
        start: 0x8000_0000,
        end: 0xc000_0000,
    },
    PhysRange {
        start: 0x1_0000_0000,
        end: 0x2_0000_0000,
    },
];

/// Pieces of memory by address. Reading anything else is a failure.
struct Pieces(Vec<(u64, Vec<u8>)>);

impl Pieces {
    fn load(&self, address: u64, into: &mut [u8]) {
        let piece = self.0.iter().find(|(start, _)| *start == address);
        let (_, bytes) = piece.unwrap_or_else(|| panic!("{address:#x} is read"));
        assert_eq!(bytes.len(), into.len(), "bytes read at {address:#x}");
        into.copy_from_slice(bytes);
    }

    fn read(&self) -> Result<FwDynamic, FwDynamicError> {
        let load = |address, into: &mut [u8]| self.load(address, into);
        let tree = FwDynamic::find_tree(TREE, load)?;
        FwDynamic::read(tree, INFORMATION, load)
    }
}

fn tree(magic: u32, total_size: u32) -> (u64, Vec<u8>) {
    let words = [magic, total_size];
    let bytes = words.iter().flat_map(|word| word.to_be_bytes());
    (TREE, bytes.collect())
}

fn information(words: [u64; 6]) -> (u64, Vec<u8>) {
    let bytes = words.iter().flat_map(|word| word.to_le_bytes());
    (INFORMATION, bytes.collect())
}

/// As QEMU leaves it.
const GOOD: [u64; 6] = [u64::from_le_bytes(*b"OSBI\0\0\0\0"), 2, KERNEL, 1, 0, 0];

#[test]
fn what_a_stage_leaves_is_read() {
    let pieces = Pieces(vec![tree(0xd00d_feed, 0x1234), information(GOOD)]);
    let found = FwDynamic {
        address: KERNEL,
        tree: PhysRange::new(TREE, 0x1234),
        boot_hart: Some(0),
    };
    assert_eq!(pieces.read(), Ok(found));
}

#[test]
fn the_boot_hart_is_a_preference() {
    let read = |version, hart| {
        let mut words = GOOD;
        words[1] = version;
        words[5] = hart;
        let pieces = Pieces(vec![tree(0xd00d_feed, 64), information(words)]);
        pieces.read().unwrap()
    };
    assert_eq!(read(2, 3).boot_hart, Some(3));
    assert_eq!(read(3, 3).boot_hart, Some(3));
    assert_eq!(read(1, 3).boot_hart, None, "the field came with version 2");
    assert_eq!(read(2, u64::MAX).boot_hart, None, "any hart");
    let order = |hart, usable: &[u64]| read(2, hart).boot_order(usable).collect::<Vec<_>>();
    assert_eq!(order(3, &[1, 2, 3, 4]), [3, 1, 2, 4]);
    // QEMU names hart 0, which is disabled, or a monitor core.
    assert_eq!(order(0, &[1, 2]), [1, 2]);
    assert_eq!(order(u64::MAX, &[2, 1]), [2, 1]);
    assert_eq!(order(0, &[]), []);
    // A list of cold-boot harts without it ends the preference.
    let among = |hart, list: &[u64]| read(2, hart).among(|hart| list.contains(&hart)).boot_hart;
    assert_eq!(among(3, &[1, 3]), Some(3));
    assert_eq!(among(0, &[1, 3]), None);
    assert_eq!(among(u64::MAX, &[1]), None);
}

proptest! {
    #[test]
    fn every_usable_hart_has_its_turn(mut usable in prop::collection::hash_set(0u64..40, 0..32), hart in any::<u64>()) {
        let stage = FwDynamic { address: KERNEL, tree: PhysRange::new(TREE, 64), boot_hart: Some(hart % 48) };
        let list: Vec<_> = usable.iter().copied().collect();
        for hart in stage.boot_order(&list) {
            prop_assert!(usable.remove(&hart), "{} has one turn", hart);
        }
        prop_assert!(usable.is_empty());
    }
}

#[test]
fn nothing_is_read_at_addresses_that_cannot_be_right() {
    let load = |address, _: &mut [u8]| panic!("{address:#x} is read");
    for wrong in [0, TREE + 1, TREE + 2] {
        let read = FwDynamic::find_tree(wrong, load);
        assert_eq!(read, Err(FwDynamicError::NoTree(wrong)));
    }
    for wrong in [0, INFORMATION + 1, INFORMATION + 4] {
        let read = FwDynamic::read(PhysRange::new(TREE, 64), wrong, load);
        assert_eq!(read, Err(FwDynamicError::NoInformation(wrong)));
    }
}

#[test]
fn a_tree_may_lie_at_any_word() {
    let (_, header) = tree(0xd00d_feed, 64);
    let pieces = Pieces(vec![(TREE + 4, header)]);
    let load = |address, into: &mut [u8]| pieces.load(address, into);
    let found = FwDynamic::find_tree(TREE + 4, load);
    assert_eq!(found, Ok(PhysRange::new(TREE + 4, 64)));
}

#[test]
fn what_is_no_tree_is_refused() {
    let no_tree = Err(FwDynamicError::NoTree(TREE));
    for (magic, bytes) in [(0xedfe_0dd0, 64), (0, 64), (0xd00d_feed, (2 << 20) + 1)] {
        let pieces = Pieces(vec![tree(magic, bytes), information(GOOD)]);
        assert_eq!(pieces.read(), no_tree, "{magic:#x}, {bytes} bytes");
    }
    let largest = Pieces(vec![tree(0xd00d_feed, 2 << 20), information(GOOD)]);
    assert!(largest.read().is_ok());
}

#[test]
fn what_is_no_information_is_refused() {
    let mut words = GOOD;
    words[0] ^= 1 << 40;
    let pieces = Pieces(vec![tree(0xd00d_feed, 64), information(words)]);
    let refused = FwDynamicError::NoInformation(INFORMATION);
    assert_eq!(pieces.read(), Err(refused));
    assert_eq!(
        refused.to_string(),
        "no fw_dynamic information at 0x80030000, the address in a2"
    );
}

#[test]
fn only_a_stage_in_s_mode_is_started() {
    for mode in [0, 3, 1 << 32 | 1] {
        let mut words = GOOD;
        words[3] = mode;
        let pieces = Pieces(vec![tree(0xd00d_feed, 64), information(words)]);
        assert_eq!(pieces.read(), Err(FwDynamicError::Mode(mode)));
    }
}

proptest! {
    /// Version, options and boot hart are not the firmware's to follow.
    #[test]
    fn other_words_do_not_matter(version: u64, options: u64, boot_hart: u64, address: u64) {
        let words = [GOOD[0], version, address, 1, options, boot_hart];
        let pieces = Pieces(vec![tree(0xd00d_feed, 64), information(words)]);
        prop_assert_eq!(pieces.read().unwrap().address, address);
    }
}

fn stage(address: u64) -> FwDynamic {
    FwDynamic {
        address,
        boot_hart: None,
        tree: PhysRange::new(TREE, 0x1234),
    }
}

/// A Linux image's header as the kernel's documentation has it.
fn image(address: u64, image_bytes: u64, magic2: &[u8; 4]) -> Pieces {
    let mut header = vec![0xaa; 64];
    header[16..24].copy_from_slice(&image_bytes.to_le_bytes());
    header[48..56].copy_from_slice(b"RISCV\0\0\0");
    header[56..60].copy_from_slice(magic2);
    Pieces(vec![(address, header)])
}

const GROWN_TREE: PhysRange = PhysRange {
    start: TREE,
    end: TREE + 0x3234,
};

#[test]
fn linux_says_how_much_memory_it_takes() {
    let pieces = image(KERNEL, 0x0190_0000, b"RSC\x05");
    let taken = stage(KERNEL).taken(&MEMORY, |address, into| pieces.load(address, into));
    assert_eq!(taken, [PhysRange::new(KERNEL, 0x0190_0000), GROWN_TREE]);
}

#[test]
fn a_stage_that_does_not_say_is_taken_for_a_boot_loader() {
    let pieces = image(KERNEL, 0x0190_0000, b"RSC\x04");
    let taken = stage(KERNEL).taken(&MEMORY, |address, into| pieces.load(address, into));
    assert_eq!(taken, [PhysRange::new(KERNEL, 32 << 20), GROWN_TREE]);
}

#[test]
fn no_header_is_read_outside_memory() {
    let load = |address, _: &mut [u8]| panic!("{address:#x} is read");
    let outside = [
        0x7fff_fff8,
        MEMORY[0].end - 56,
        MEMORY[0].end,
        KERNEL + 4,
        u64::MAX - 7,
    ];
    let all = [PhysRange::new(u64::MAX - 4095, 4096)];
    for address in outside {
        for memory in [&MEMORY[..], &all] {
            let [next, _] = stage(address).taken(memory, load);
            assert_eq!(next, PhysRange::new(address, 32 << 20));
        }
    }
    for address in [MEMORY[0].start, MEMORY[0].end - 64, MEMORY[1].start] {
        let pieces = image(address, 64, b"RSC\x05");
        let [next, _] = stage(address).taken(&MEMORY, |at, into| pieces.load(at, into));
        assert_eq!(next, PhysRange::new(address, 64));
    }
}
