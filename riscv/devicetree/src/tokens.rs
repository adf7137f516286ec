//! The tokens of a structure block, read with care (Devicetree Specification 0.4, 5.4).

use crate::raw::{BEGIN_NODE, END_NODE, NOP, PROPERTY, block, field, word};

/// Where a reader of the structure block is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader {
    /// Offset of the next token.
    pub(crate) at: usize,
    /// Nodes that are open.
    pub(crate) depth: usize,
    /// No node was closed since the last one was opened: properties come before children.
    may_have_properties: bool,
}

impl Reader {
    /// Before the root, whose token lies at `start`.
    pub(crate) fn new(start: usize) -> Self {
        Reader {
            at: start,
            depth: 0,
            may_have_properties: false,
        }
    }

    /// Behind the next token, which must be right, and whole within the structure block,
    /// which ends at `end`.
    pub(crate) fn next(self, blob: &[u8], end: usize) -> Option<Self> {
        let structure = blob.get(..end)?;
        let behind = self.at + 4;
        let next = match word(structure, self.at)? {
            BEGIN_NODE => {
                let name = name(structure.get(behind..)?)?;
                // The root's name is empty, and no other node's.
                (name.is_empty() == (self.depth == 0)).then_some(Reader {
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
                (!name.is_empty()).then_some(Reader {
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
fn name(bytes: &[u8]) -> Option<&str> {
    let length = bytes.iter().position(|byte| *byte == 0)?;
    core::str::from_utf8(&bytes[..length]).ok()
}
