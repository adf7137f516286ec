//! Checks the table of the firmware's memory in docs/architecture.md against the sources.

use poorwill_image::Workspace;
use poorwill_medium::nvme::QueueMemory;
use poorwill_memory::{PAGE_BYTES, to_usize};

use super::root;

const KIB: u64 = 1 << 10;
const GIB: u64 = 1 << 30;

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).expect("a file of the repository")
}

/// The length in the page's row about `what`.
fn told(page: &str, what: &str) -> String {
    let table = &page[page.find("| range |").expect("the table is there")..];
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let mut cells = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    let row = cells.find(|cells| cells.get(2).is_some_and(|cell| cell.contains(what)));
    row.unwrap_or_else(|| panic!("no row about {what}"))[3].to_owned()
}

/// The value of one of the firmware's constants, which is written as a shift in its source.
fn constant(source: &str, name: &str) -> u64 {
    let line = (source.lines())
        .find(|line| line.contains(&format!("const {name}: usize = ")))
        .unwrap_or_else(|| panic!("no constant {name}"));
    let value = line.split(" = ").nth(1).expect("a value");
    let (number, shift) = value
        .trim_end_matches(';')
        .split_once(" << ")
        .expect("a shift");
    number.parse::<u64>().expect("a number") << shift.parse::<u32>().expect("a shift")
}

fn in_kib(bytes: u64) -> String {
    assert!(bytes.is_multiple_of(KIB));
    format!("{} KiB", bytes / KIB)
}

#[test]
fn the_table_of_the_firmwares_memory_is_true() {
    let page = read("docs/architecture.md");
    let stacks = read("riscv/firmware/src/entry/stack.rs");
    let hart_stack = constant(&stacks, "STACK_BYTES");
    let deep_stack = constant(&stacks, "DEEP_STACK_BYTES");
    let queues = size_of::<QueueMemory>() as u64;
    let workspace = Workspace::pages_needed(16 * GIB / PAGE_BYTES) * PAGE_BYTES;
    assert_eq!(told(&page, "the deep stack"), in_kib(deep_stack));
    assert_eq!(told(&page, "an NVMe controller's queues"), in_kib(queues));
    assert_eq!(told(&page, "two pages"), in_kib(2 * PAGE_BYTES));
    let each = format!("{}, and {} each", in_kib(PAGE_BYTES), in_kib(hart_stack));
    assert_eq!(told(&page, "a stack for each hart"), each);
    let of_image = format!("{} for 16 GiB", in_kib(workspace));
    assert_eq!(told(&page, "workspace of an image"), of_image);

    // The second range of a machine with four harts, as most machines in the tests have.
    let all = PAGE_BYTES + 4 * hart_stack + queues + 2 * PAGE_BYTES + workspace;
    assert!(page.contains("the next power of two, and at least 2 MiB"));
    assert!(all <= 2 << 20);
}

/// The linker script and the page must give the first range the same length.
#[test]
fn the_first_range_is_as_long_as_the_page_says() {
    let script = read("riscv/firmware/firmware.ld");
    let size = (script.lines()).find_map(|line| line.strip_prefix("FIRMWARE_SIZE = "));
    let kib: u64 = (size.and_then(|size| size.strip_suffix("K;")))
        .and_then(|kib| kib.parse().ok())
        .expect("a length in KiB");
    assert_eq!(to_usize(kib) * 100, 175 * 1024);
    assert!(read("docs/architecture.md").contains("where it is loaded: 1.75 MiB (`firmware.ld`)"));
    assert!(script.contains("the firmware has outgrown its memory"));
}
