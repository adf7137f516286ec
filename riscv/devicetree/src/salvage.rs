//! What can still be read of a damaged tree: all that comes before the damage.

use dtoolkit::fdt::Fdt;

use crate::raw::{BEGIN_NODE, END, END_NODE, NOP, PROPERTY, block, field, set_word, word};

/// Ends a damaged structure block just before the first thing in it that cannot be read, by
/// closing all nodes there: console and switches may stand before that, to tell of it. The
/// tree is not fit for anything else. Says whether there is one to be read now.
pub(crate) fn salvage(blob: &mut [u8]) -> bool {
    shorten(blob).is_some() && Fdt::new(blob).is_ok()
}

fn shorten(blob: &mut [u8]) -> Option<()> {
    let (start, end) = block(blob, field::STRUCTURE, field::STRUCTURE_SIZE)?;
    let mut reader = Reader {
        at: start,
        depth: 0,
        may_have_properties: false,
    };
    while let Some(next) = reader.next(blob, end) {
        reader = next;
        if reader.depth == 0 {
            break;
        }
    }
    let closed = reader.at.checked_add(4 * (reader.depth + 1))?;
    // A root that does not even begin has nothing to be closed.
    if reader.at == start || closed > end {
        return None;
    }
    for node in 0..reader.depth {
        set_word(blob, reader.at + 4 * node, END_NODE);
    }
    set_word(blob, closed - 4, END);
    let length = u32::try_from(closed - start).ok()?;
    set_word(blob, field::STRUCTURE_SIZE, length);
    Some(())
}

/// Where a reader of the structure block is.
#[derive(Clone, Copy, Debug)]
struct Reader {
    /// Offset of the next token.
    at: usize,
    /// Nodes that are open.
    depth: usize,
    /// No node was closed since the last one was opened: properties come before children.
    may_have_properties: bool,
}

impl Reader {
    /// Behind the next token, which must be right, and whole within the structure block,
    /// which ends at `end`.
    fn next(self, blob: &[u8], end: usize) -> Option<Self> {
        let structure = blob.get(..end)?;
        let behind = self.at + 4;
        let next = match word(structure, self.at)? {
            BEGIN_NODE => {
                let name = name(structure.get(behind..)?)?;
                let is_right = match self.depth {
                    0 => name.is_empty(),
                    _ => is_node_name(name),
                };
                is_right.then_some(Reader {
                    at: behind + name.len() + 1,
                    depth: self.depth + 1,
                    may_have_properties: true,
                })?
            }
            END_NODE => Reader {
                at: behind,
                depth: self.depth.checked_sub(1)?,
                may_have_properties: false,
            },
            PROPERTY if self.may_have_properties => {
                let length = word(structure, behind)? as usize;
                let (strings, strings_end) = block(blob, field::STRINGS, field::STRINGS_SIZE)?;
                let at = strings.checked_add(word(structure, behind + 4)? as usize)?;
                let name = name(blob.get(at..strings_end)?)?;
                (!name.is_empty() && name.iter().all(is_in_property_name)).then_some(Reader {
                    at: (behind + 8).checked_add(length)?,
                    ..self
                })?
            }
            NOP => Reader { at: behind, ..self },
            _ => return None,
        };
        let at = next.at.checked_next_multiple_of(4)?;
        (at <= end).then_some(Reader { at, ..next })
    }
}

/// The text that `bytes` begin with, up to its zero.
fn name(bytes: &[u8]) -> Option<&[u8]> {
    let length = bytes.iter().position(|byte| *byte == 0)?;
    Some(&bytes[..length])
}

/// Whether it is a node's name (2.2.1), with a unit address or without.
fn is_node_name(name: &[u8]) -> bool {
    let mut parts = name.split(|byte| *byte == b'@');
    let is_part = |part: &[u8]| !part.is_empty() && part.iter().all(is_in_node_name);
    parts
        .next()
        .is_some_and(|own| own.len() <= 31 && is_part(own))
        && parts.next().is_none_or(is_part)
        && parts.next().is_none()
}

fn is_in_node_name(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b",._+-".contains(byte)
}

/// The characters of a property's name (2.2.4.1).
fn is_in_property_name(byte: &u8) -> bool {
    is_in_node_name(byte) || b"?#".contains(byte)
}
