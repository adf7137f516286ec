//! Plans for valid and hostile kernels, on the device tree of a `virt` machine.

use dtoolkit::fdt::Fdt;
use dtoolkit::{Node, Property};
use poorwill_devicetree::{Holder, Machine, Reserved};
use poorwill_loader::{
    DeviceError, Item, Items, LoadError, MAX_COMMAND_LINE, Piece, Plan, TREE_GROWTH, Taken,
    command_line, tell,
};
use poorwill_memory::PhysRange;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;
const RAM: u64 = 0x8000_0000;
const GIB: u64 = 1 << 30;

/// The memory that the firmware reserves: start and length.
const FIRMWARE: [(u64, u64); 2] = [(RAM, 0x1c_0000), (RAM + 0x3be0_0000, 2 * MIB)];

/// A machine of 1 GiB, as the firmware describes it to the next stage.
fn machine() -> Machine {
    let mut machine = Machine::read(&tree()).expect("a tree");
    let reserved = FIRMWARE.map(|(start, length)| Reserved {
        range: PhysRange::new(start, length),
        holder: Holder::Other,
    });
    machine.reserved.extend(reserved);
    machine
}

fn tree() -> Vec<u8> {
    let file = "../../fuzz/corpus/device_tree/virt-aia.dtb";
    std::fs::read(format!("{}/{file}", env!("CARGO_MANIFEST_DIR"))).expect("a tree")
}

/// The device tree where QEMU puts it, and the stack below it.
fn taken() -> Taken {
    let tree = RAM + GIB - 2 * MIB;
    Taken {
        tree: PhysRange::new(tree, 8000),
        stack: PhysRange::new(tree - 0x4_0000, 0x4_0000),
    }
}

#[derive(Clone, Default)]
struct Files {
    kernel: Vec<u8>,
    initrd: Vec<u8>,
    line: Vec<u8>,
}

impl Files {
    fn of(&self, item: Item) -> &[u8] {
        match item {
            Item::Kernel => &self.kernel,
            Item::Initrd => &self.initrd,
            Item::CommandLine => &self.line,
        }
    }
}

impl Items for Files {
    fn length(&mut self, item: Item) -> Result<u32, DeviceError> {
        Ok(u32::try_from(self.of(item).len()).expect("a short file"))
    }

    fn read(&mut self, item: Item, into: &mut [u8]) -> Result<(), DeviceError> {
        // A read past the end panics.
        into.copy_from_slice(&self.of(item)[..into.len()]);
        Ok(())
    }
}

fn plan(files: &Files) -> Result<Plan, LoadError> {
    Plan::make(&mut files.clone(), &machine(), &taken())
}

fn linux(text_offset: u64, image_bytes: u64, file_bytes: usize) -> Vec<u8> {
    let mut file = vec![0; file_bytes];
    file[8..16].copy_from_slice(&text_offset.to_le_bytes());
    file[16..24].copy_from_slice(&image_bytes.to_le_bytes());
    file[56..60].copy_from_slice(b"RSC\x05");
    file
}

#[test]
fn a_linux_lies_where_it_asks_for_and_its_initramfs_behind_it() {
    let files = Files {
        kernel: linux(2 * MIB, 20 * MIB + 5, 10_000),
        initrd: vec![1; 5001],
        line: Vec::new(),
    };
    let plan = plan(&files).unwrap();
    let kernel = Piece {
        item: Item::Kernel,
        bytes: 10_000,
        place: PhysRange::new(RAM + 2 * MIB, 22 * MIB),
    };
    let initrd = Piece {
        item: Item::Initrd,
        bytes: 5001,
        place: PhysRange::new(RAM + 24 * MIB, 5001),
    };
    assert_eq!((plan.kernel, plan.initrd), (kernel, Some(initrd)));
}

#[test]
fn what_is_reserved_is_stepped_over() {
    let files = Files {
        kernel: linux(0, 4 * MIB, 100),
        ..Files::default()
    };
    // The firmware is at the start of memory.
    assert_eq!(plan(&files).unwrap().kernel.place.start, RAM + 2 * MIB);
    let mut machine = machine();
    machine.reserved.push(Reserved {
        range: PhysRange::new(RAM + 5 * MIB, 1),
        holder: Holder::Os,
    });
    let plan = Plan::make(&mut files.clone(), &machine, &taken()).unwrap();
    assert_eq!(plan.kernel.place.start, RAM + 6 * MIB);
    assert_eq!(plan.initrd, None);
}

#[test]
fn a_linux_without_room_or_at_an_odd_place_is_refused() {
    let refused = |kernel| {
        plan(&Files {
            kernel,
            ..Files::default()
        })
        .unwrap_err()
    };
    let bytes = 960 * MIB;
    assert_eq!(
        refused(linux(0, bytes, 100)),
        LoadError::NoRoom(Item::Kernel, bytes)
    );
    let bytes = u64::MAX;
    assert_eq!(
        refused(linux(0, bytes, 100)),
        LoadError::NoRoom(Item::Kernel, bytes)
    );
    let far = u64::MAX / (2 * MIB) * (2 * MIB);
    assert_eq!(
        refused(linux(far, 1, 100)),
        LoadError::NoRoom(Item::Kernel, 2 * MIB)
    );
    assert_eq!(refused(linux(4096, 1, 100)), LoadError::TextOffset(4096));
    let files = Files {
        kernel: linux(0, 930 * MIB, 100),
        initrd: vec![0; 64 << 20],
        line: Vec::new(),
    };
    assert_eq!(
        plan(&files).unwrap_err(),
        LoadError::NoRoom(Item::Initrd, 64 * MIB)
    );
}

#[test]
fn what_is_no_kernel_is_refused() {
    let refused = |kernel: &[u8]| {
        let kernel = kernel.to_vec();
        plan(&Files {
            kernel,
            ..Files::default()
        })
        .unwrap_err()
    };
    assert_eq!(refused(&[]), LoadError::NoKernel);
    assert_eq!(refused(&[0; 63]), LoadError::Truncated(Item::Kernel, 63));
    assert_eq!(refused(&[0; 64]), LoadError::Format);
}

#[test]
fn the_stack_and_the_trees_room_must_be_free() {
    let files = Files {
        kernel: linux(0, MIB, 100),
        initrd: vec![0; 1],
        line: Vec::new(),
    };
    let stack = PhysRange::new(RAM + 0x1b_0000, 0x4_0000);
    let wrong = Taken { stack, ..taken() };
    let found = Plan::make(&mut files.clone(), &machine(), &wrong);
    assert_eq!(found, Err(LoadError::Stack(stack.start)));
    // The device tree ends at the end of memory.
    let tree = PhysRange::new(RAM + GIB - 8000, 8000);
    let wrong = Taken { tree, ..taken() };
    let found = Plan::make(&mut files.clone(), &machine(), &wrong);
    assert_eq!(found, Err(LoadError::Tree));
    let untold = Files {
        initrd: Vec::new(),
        ..files
    };
    assert!(Plan::make(&mut untold.clone(), &machine(), &wrong).is_ok());
    let told = Files {
        line: b"a\0".to_vec(),
        ..untold
    };
    let found = Plan::make(&mut told.clone(), &machine(), &wrong);
    assert_eq!(found, Err(LoadError::Tree));
}

#[test]
fn a_command_line_ends_with_its_zero() {
    let line = |line: &[u8]| {
        let line = line.to_vec();
        command_line(&mut Files {
            line,
            ..Files::default()
        })
    };
    assert_eq!(line(b""), Ok(None));
    assert_eq!(line(b"a b\0c\0").unwrap().as_deref(), Some(&b"a b\0"[..]));
    assert_eq!(line(b"ab"), Err(LoadError::Truncated(Item::CommandLine, 2)));
    let mut long = [b'a'; MAX_COMMAND_LINE + 1];
    let length = u32::try_from(long.len()).unwrap();
    assert_eq!(
        line(&long),
        Err(LoadError::CommandLine(length, MAX_COMMAND_LINE))
    );
    long[MAX_COMMAND_LINE - 1] = 0;
    let longest = line(&long[..MAX_COMMAND_LINE]).unwrap();
    assert_eq!(longest.as_deref(), Some(&long[..MAX_COMMAND_LINE]));
}

#[test]
fn the_kernel_is_told_and_the_longest_line_has_room() {
    let mut buffer = tree();
    let total = buffer.len();
    buffer.resize(total + usize::try_from(TREE_GROWTH).unwrap(), 0xa5);
    let initrd = PhysRange::new(0x8400_0000, 0x1_2345);
    let mut line = [b'x'; MAX_COMMAND_LINE];
    line[MAX_COMMAND_LINE - 1] = 0;
    // If it is called twice, the second call decides.
    tell(&mut buffer, Some(PhysRange::new(1, 1)), None).unwrap();
    tell(&mut buffer, Some(initrd), Some(&line)).unwrap();
    let total = u32::from_be_bytes(buffer[4..8].try_into().unwrap());
    buffer.truncate(total as usize);
    let after = Machine::read(&buffer).unwrap();
    let ranges = after.reserved.iter().map(|reserved| reserved.range);
    assert!(ranges.clone().any(|range| range == initrd));
    let tree = Fdt::new(&buffer).unwrap();
    let chosen = tree.find_node("/chosen").unwrap();
    let told = chosen.property("bootargs").unwrap();
    assert_eq!(told.value(), line);
    let mut small = self::tree();
    assert_eq!(tell(&mut small, Some(initrd), None), Err(LoadError::Tree));
    assert_eq!(tell(&mut [0; 64], Some(initrd), None), Err(LoadError::Tree));
}

/// Numbers near which the plan changes.
fn number() -> impl Strategy<Value = u64> {
    let edges = [
        0,
        RAM,
        RAM + 2 * MIB,
        RAM + GIB,
        taken().tree.start,
        1024,
        u64::MAX,
    ];
    let near = |edge: u64| (0_u64..4096).prop_map(move |by| edge.wrapping_add(by).wrapping_sub(64));
    prop_oneof![
        prop::sample::select(edges.to_vec()).prop_flat_map(near),
        any::<u64>(),
        0_u64..2000
    ]
}

proptest! {
    /// For each header, a plan loads whole files, and only to free memory.
    #[test]
    fn no_plan_overlaps_anything(
        text_offset in number(),
        image_bytes in number(),
        kernel in 0_usize..3000,
        initrd in 0_usize..3000,
    ) {
        let kernel = linux(text_offset & !(2 * MIB - 1), image_bytes, kernel.max(64));
        let files = Files { kernel, initrd: vec![0; initrd], line: Vec::new() };
        let Ok(plan) = plan(&files) else { return Ok(()) };
        let taken = taken();
        let mut places = vec![taken.tree, taken.stack];
        places.extend(FIRMWARE.map(|(start, length)| PhysRange::new(start, length)));
        for piece in [plan.kernel].iter().chain(&plan.initrd) {
            prop_assert!(places.iter().all(|other| !other.overlaps(&piece.place)));
            prop_assert!(RAM <= piece.place.start && piece.place.end <= RAM + GIB);
            prop_assert!(u64::from(piece.bytes) <= piece.place.length());
            prop_assert_eq!(piece.bytes as usize, files.of(piece.item).len());
            places.push(piece.place);
        }
    }
}
