use core::fmt::Write;

use arrayvec::{ArrayString, ArrayVec};
use dtoolkit::fdt::Fdt;
use dtoolkit::fdt_mut::{FdtMut, FdtNodeMut, SliceBuffer};
use dtoolkit::{Node, Property};
use poorwill_memory::PhysRange;
use thiserror::Error;

use crate::blob::{edit, open};
use crate::cells::{Cells, CellsError};
use crate::hide::hide;
use crate::limit::{Limits, limit};
use crate::node::cell;
use crate::raw::{BEGIN_NODE, END_NODE, NOP, PROPERTY, field, set_word, word};
use crate::spare_source::SpareSource;

/// Why the device tree cannot be prepared for the next stage.
#[expect(missing_docs, reason = "the messages say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FixupError {
    #[error("the device tree is damaged")]
    Damaged,
    #[error("the device tree cannot grow within {0} bytes")]
    NoRoom(usize),
    #[error("{0}")]
    Cells(#[from] CellsError),
}

/// Name of a node that the firmware adds, including its unit address.
type NodeName = ArrayString<32>;

/// Random bytes that change at every power-on (`microsoft,vmgenid`). An OS that finds new bytes
/// knows that it was resumed or copied, and reseeds its random numbers.
#[derive(Clone, Copy, Debug)]
pub struct GenerationId {
    /// Address of its 16 bytes, which the OS can only read.
    pub address: u64,
    /// The interrupt that signals a change.
    pub source: SpareSource,
}

const ID_BYTES: u64 = 16;

/// Free bytes that the tree gets within its `totalsize`, if there is room. Boot loaders rely on
/// some: U-Boot copies `totalsize` bytes to a place just below its own data, and adds to the copy.
pub const SLACK: u64 = 4096;

/// Additions to the next stage's tree, and nodes to hide.
#[derive(Clone, Copy, Debug)]
pub struct Fixups<'a> {
    /// The firmware's ranges of memory.
    pub firmware: &'a [PhysRange],
    /// The firmware's own parts of flash: the vault's bank, or its partition.
    pub flash: &'a [PhysRange],
    /// Random bytes that replace the seed of the previous stage.
    pub seed: [u8; 32],
    /// The OS's generation ID, on machines that support it.
    pub generation_id: Option<GenerationId>,
    /// The boot report: text, padded with zeros.
    pub report: &'a [u8],
    /// The firmware's log, in the same form.
    pub log: &'a [u8],
    /// The cut status, in the same form, if the tree describes a power-fail line.
    pub cut: Option<&'a [u8]>,
    /// The name of the OS's domain, on a machine with domains.
    pub domain: Option<&'a str>,
    /// What the OS has of the machine, if the tree shows more.
    pub limits: Option<Limits<'a>>,
}

/// Offsets within the blob of the firmware's property values in `/chosen`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Offset of the boot report.
    pub report: usize,
    /// Offset of the log.
    pub log: usize,
    /// Offset of the cut status, if there is one.
    pub cut: Option<usize>,
}

/// The firmware's properties of `/chosen`.
const REPORT: &str = "poorwill,boot";
const LOG: &str = "poorwill,log";
const CUT: &str = "poorwill,cut";
const DOMAIN: &str = "poorwill,domain";

/// Changes the blob at the start of `buffer` into the next stage's tree, in place. The rest of the
/// buffer is room to grow, and for the [slack](SLACK). Returns the offsets of the values in
/// `/chosen`.
///
/// - The firmware's memory is reserved as `no-map`: mapped, it would let the OS's speculation run
///   into PMP faults.
/// - Interrupt controllers of machine mode are disabled: an S-mode driver would only fault on them.
///   The vault's partition of a flash, or its bank, is disabled, too.
/// - A node describes the generation ID, if the machine has one.
/// - `/chosen/poorwill,boot` has the report, `/chosen/poorwill,log` the log, and
///   `/chosen/poorwill,cut` the cut status. `/chosen/poorwill,domain` names the OS's domain.
/// - Random bytes of the firmware replace a seed from the previous stage.
/// - [`Limits`] reserve other memory, disable other harts and devices, and remove the description of
///   domains.
///
/// # Errors
///
/// [`FixupError`]; the blob may then be partly changed.
pub fn fixup(buffer: &mut [u8], fixups: &Fixups<'_>) -> Result<Placed, FixupError> {
    let room = buffer.len();
    let foreign = fixups.limits.map_or(&[][..], |limits| limits.foreign);
    let reserved = || fixups.firmware.iter().chain(foreign);
    insert_nodes(buffer, reserved())?;
    if let Some(id) = &fixups.generation_id {
        insert_id(buffer, id)?;
    }
    let mut tree = edit(buffer).ok_or(FixupError::Damaged)?;
    let no_room = FixupError::NoRoom(room);
    let cells = reserved_cells(tree.as_read_only())?;
    describe_reserved(&mut tree, cells).ok_or(no_room)?;
    for range in reserved() {
        let reg = cells.reg(*range)?;
        reserve(&mut tree, *range, &reg).ok_or(no_room)?;
    }
    hide(&mut tree, fixups.flash).ok_or(no_room)?;
    if let Some(limits) = &fixups.limits {
        limit(&mut tree, limits).ok_or(no_room)?;
    }
    set_chosen(&mut tree, fixups).ok_or(no_room)?;
    add_slack(buffer).ok_or(FixupError::Damaged)?;
    placed(buffer).ok_or(FixupError::Damaged)
}

/// Adds the slack at the end of the blob. In a short buffer it ends with the buffer.
fn add_slack(buffer: &mut [u8]) -> Option<()> {
    let total = word(buffer, field::TOTAL_SIZE)? as usize;
    let room = buffer.get_mut(total..)?;
    let slack = usize::try_from(SLACK).ok()?.min(room.len());
    // The next stage gets no bytes of other contents of memory.
    room[..slack].fill(0);
    let total = u32::try_from(total + slack).ok()?;
    set_word(buffer, field::TOTAL_SIZE, total);
    Some(())
}

type Tree<'a> = FdtMut<SliceBuffer<'a>>;

fn reserved_name(range: PhysRange) -> NodeName {
    let mut name = NodeName::new();
    write!(name, "poorwill@{:x}", range.start).expect("a name has at most 25 characters");
    name
}

/// The cells of `/reserved-memory`. They must equal the root's: otherwise Linux ignores the node
/// and allocates the memory that it reserves.
fn reserved_cells(tree: Fdt<'_>) -> Result<Cells, CellsError> {
    let of_root = Cells::below(tree.root());
    let mut nodes = tree.root().children();
    let node = nodes.find(|node| node.name() == RESERVED_MEMORY);
    // Missing properties are added later.
    let own_cell = |name, of_root| node.and_then(|node| cell(node, name)).unwrap_or(of_root);
    let own = Cells {
        address: own_cell(Cells::ADDRESS, of_root.address),
        size: own_cell(Cells::SIZE, of_root.size),
    };
    match own == of_root {
        true => Ok(of_root),
        false => Err(CellsError::Differ { own, of_root }),
    }
}

/// Adds the properties that `/reserved-memory` lacks.
fn describe_reserved(tree: &mut Tree<'_>, cells: Cells) -> Option<()> {
    let mut root = tree.root_mut();
    let mut parent = root.child_mut(RESERVED_MEMORY)?;
    let is_missing = |parent: &FdtNodeMut<'_, _>, name| parent.property(name).is_none();
    for (name, value) in [(Cells::ADDRESS, cells.address), (Cells::SIZE, cells.size)] {
        if is_missing(&parent, name) {
            parent.add_property(name, value).ok()?;
        }
    }
    if is_missing(&parent, "ranges") {
        let empty: &[u8] = &[];
        parent.add_property("ranges", empty).ok()?;
    }
    Some(())
}

fn reserve(tree: &mut Tree<'_>, range: PhysRange, reg: &[u8]) -> Option<()> {
    let mut root = tree.root_mut();
    let mut parent = root.child_mut(RESERVED_MEMORY)?;
    let mut node = parent.child_mut(&reserved_name(range))?;
    node.add_property("reg", reg).ok()?;
    let empty: &[u8] = &[];
    node.add_property("no-map", empty).ok()?;
    Some(())
}

fn id_name(id: &GenerationId) -> NodeName {
    let mut name = NodeName::new();
    write!(name, "vmgenid@{:x}", id.address).expect("a name has at most 24 characters");
    name
}

/// Adds the node of the generation ID below the root: an OS looks for devices among the root's
/// children first.
fn insert_id(buffer: &mut [u8], id: &GenerationId) -> Result<(), FixupError> {
    let name = id_name(id);
    let end = end_of(buffer, None).ok_or(FixupError::Damaged)?;
    insert(buffer, end, &empty_node(&name))?;
    let no_room = FixupError::NoRoom(buffer.len());
    let mut tree = edit(buffer).ok_or(FixupError::Damaged)?;
    let cells = Cells::below(tree.as_read_only().root());
    let reg = cells.reg(PhysRange::new(id.address, ID_BYTES))?;
    describe_id(&mut tree, &name, id, &reg).ok_or(no_room)
}

/// Fills the node by Linux's binding `rng/microsoft,vmgenid.yaml`.
fn describe_id(tree: &mut Tree<'_>, name: &str, id: &GenerationId, reg: &[u8]) -> Option<()> {
    const RISING_EDGE: u32 = 1;
    let mut path = ArrayString::<40>::new();
    write!(path, "/{name}").ok()?;
    let mut node = tree.find_node_mut(&path)?;
    node.add_property("compatible", "microsoft,vmgenid").ok()?;
    node.add_property("reg", reg).ok()?;
    node.add_property("interrupt-parent", id.source.controller)
        .ok()?;
    let interrupt = [id.source.source, RISING_EDGE].map(u32::to_be_bytes);
    node.add_property("interrupts", interrupt.as_flattened())
        .ok()?;
    Some(())
}

fn set_chosen(tree: &mut Tree<'_>, fixups: &Fixups<'_>) -> Option<()> {
    const SEED: &str = "rng-seed";
    let mut chosen = tree.find_node_mut("/chosen")?;
    if chosen.remove_property(SEED) {
        chosen.add_property(SEED, &fixups.seed[..]).ok()?;
    }
    let values = [
        (REPORT, Some(fixups.report)),
        (LOG, Some(fixups.log)),
        (CUT, fixups.cut),
    ];
    for (name, value) in values {
        chosen.remove_property(name);
        if let Some(value) = value {
            chosen.add_property(name, value).ok()?;
        }
    }
    chosen.remove_property(DOMAIN);
    if let Some(name) = fixups.domain {
        chosen.add_property(DOMAIN, name).ok()?;
    }
    Some(())
}

/// Finds the offsets of the values, after the last change to the blob.
fn placed(blob: &[u8]) -> Option<Placed> {
    let total = word(blob, field::TOTAL_SIZE)? as usize;
    let tree = open(blob.get(..total)?)?;
    let chosen = tree.find_node("/chosen")?;
    let offset = |name| {
        let value = chosen.property(name)?.value().as_ptr().addr();
        value.checked_sub(blob.as_ptr().addr())
    };
    Some(Placed {
        report: offset(REPORT)?,
        log: offset(LOG)?,
        cut: offset(CUT),
    })
}

/// Adds the firmware's empty nodes below `/reserved-memory`, and that node and `/chosen` if they
/// are missing. dtoolkit edits properties in place, but adds nodes only with an allocator.
fn insert_nodes<'a>(
    buffer: &mut [u8],
    reserved: impl Iterator<Item = &'a PhysRange>,
) -> Result<(), FixupError> {
    edit(buffer).ok_or(FixupError::Damaged)?;
    for wanted in ["chosen", RESERVED_MEMORY] {
        if end_of(buffer, Some(wanted)).is_none() {
            let end = end_of(buffer, None).ok_or(FixupError::Damaged)?;
            insert(buffer, end, &empty_node(wanted))?;
        }
    }
    for range in reserved {
        let end = end_of(buffer, Some(RESERVED_MEMORY)).ok_or(FixupError::Damaged)?;
        insert(buffer, end, &empty_node(&reserved_name(*range)))?;
    }
    Ok(())
}

const RESERVED_MEMORY: &str = "reserved-memory";

/// A node without properties, as bytes of the structure block.
fn empty_node(name: &str) -> ArrayVec<u8, 48> {
    let mut bytes = ArrayVec::new();
    bytes.extend(BEGIN_NODE.to_be_bytes());
    bytes.extend(name.bytes());
    let padded = (bytes.len() + 1).next_multiple_of(4);
    bytes.extend(core::iter::repeat_n(0, padded - bytes.len()));
    bytes.extend(END_NODE.to_be_bytes());
    bytes
}

/// Offset of the END_NODE of the root's child with this name; without a name, of the root's own.
fn end_of(blob: &[u8], child: Option<&str>) -> Option<usize> {
    let mut at = word(blob, field::STRUCTURE)? as usize;
    let mut depth = 0;
    let mut inside = child.is_none();
    loop {
        match word(blob, at)? {
            BEGIN_NODE => {
                let name = blob.get(at + 4..)?;
                let length = name.iter().position(|byte| *byte == 0)?;
                depth += 1;
                inside |= depth == 2 && child.map(str::as_bytes) == Some(&name[..length]);
                at += 4 + (length + 1).next_multiple_of(4);
            }
            END_NODE => {
                let wanted_depth = if child.is_some() { 2 } else { 1 };
                if inside && depth == wanted_depth {
                    return Some(at);
                }
                depth -= 1;
                at += 4;
            }
            PROPERTY => at += 12 + (word(blob, at + 4)? as usize).next_multiple_of(4),
            NOP => at += 4,
            _ => return None,
        }
    }
}

/// Inserts `bytes` at `at` within the structure block.
fn insert(buffer: &mut [u8], at: usize, bytes: &[u8]) -> Result<(), FixupError> {
    let no_room = FixupError::NoRoom(buffer.len());
    let total = word(buffer, field::TOTAL_SIZE).ok_or(FixupError::Damaged)? as usize;
    let grown = total
        .checked_add(bytes.len())
        .filter(|grown| *grown <= buffer.len());
    grown.ok_or(no_room)?;
    buffer.copy_within(at..total, at + bytes.len());
    buffer[at..at + bytes.len()].copy_from_slice(bytes);
    let added = u32::try_from(bytes.len()).map_err(|_| no_room)?;
    for offset in [field::STRINGS, field::RESERVATIONS] {
        let value = word(buffer, offset).ok_or(FixupError::Damaged)?;
        if value as usize >= at {
            set_word(buffer, offset, value + added);
        }
    }
    for offset in [field::TOTAL_SIZE, field::STRUCTURE_SIZE] {
        let value = word(buffer, offset).ok_or(FixupError::Damaged)?;
        set_word(buffer, offset, value + added);
    }
    Ok(())
}
