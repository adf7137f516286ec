//! Checked reading of a structure block's tokens (Devicetree Specification 0.4, 5.4).

use crate::raw::{BEGIN_NODE, END_NODE, NOP, PROPERTY, block, field, word};

/// The blocks of a blob with tokens and names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocks<'a> {
    /// The blob, up to the end of its structure block.
    structure: &'a [u8],
    /// Offset of the structure block.
    pub(crate) start: usize,
    strings: &'a [u8],
    /// The strings block as one text, if it is text and its last string has an end. Then every name
    /// in it is valid and needs no further check.
    text: Option<&'a str>,
}

impl<'a> Blocks<'a> {
    /// The blocks in a blob's header; `None` if they extend past the blob.
    pub(crate) fn of(blob: &'a [u8]) -> Option<Self> {
        let (start, end) = block(blob, field::STRUCTURE, field::STRUCTURE_SIZE)?;
        let (strings, strings_end) = block(blob, field::STRINGS, field::STRINGS_SIZE)?;
        let strings = blob.get(strings..strings_end)?;
        let text = core::str::from_utf8(strings).ok();
        Some(Blocks {
            structure: blob.get(..end)?,
            start,
            strings,
            text: text.filter(|text| text.is_empty() || text.ends_with('\0')),
        })
    }

    /// Returns whether the strings block consists of strings, including unused ones.
    pub(crate) fn has_only_strings(&self) -> bool {
        self.text.is_some()
    }

    pub(crate) fn token(&self, at: usize) -> Option<u32> {
        word(self.structure, at)
    }

    /// The offset past the structure block.
    pub(crate) fn end(&self) -> usize {
        self.structure.len()
    }

    /// Returns whether a property's name is non-empty text with an end.
    fn is_property_name(&self, at: usize) -> bool {
        let begins = self.strings.get(at).is_some_and(|byte| *byte != 0);
        begins
            && match self.text {
                Some(text) => text.is_char_boundary(at),
                None => name(&self.strings[at..]).is_some(),
            }
    }
}

/// Position of a reader in the structure block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader {
    /// Offset of the next token.
    pub(crate) at: usize,
    pub(crate) depth: usize,
    /// No node was closed since the last one was opened: properties come before children.
    may_have_properties: bool,
}

impl Reader {
    /// Position before the root.
    pub(crate) fn new(blocks: &Blocks<'_>) -> Self {
        Reader {
            at: blocks.start,
            depth: 0,
            may_have_properties: false,
        }
    }

    /// Position after the next token, which must be valid and lie within the structure block.
    pub(crate) fn next(self, blocks: &Blocks<'_>) -> Option<Self> {
        let past = self.at + 4;
        let next = match blocks.token(self.at)? {
            BEGIN_NODE => {
                let name = name(blocks.structure.get(past..)?)?;
                // Only the root's name is empty.
                (name.is_empty() == (self.depth == 0)).then_some(Reader {
                    at: past + name.len() + 1,
                    depth: self.depth + 1,
                    may_have_properties: true,
                })?
            }
            END_NODE => Reader {
                at: past,
                depth: self.depth.checked_sub(1)?,
                may_have_properties: false,
            },
            PROPERTY if self.may_have_properties => {
                let length = blocks.token(past)? as usize;
                let name = blocks.token(past + 4)? as usize;
                blocks.is_property_name(name).then_some(Reader {
                    at: (past + 8).checked_add(length)?,
                    ..self
                })?
            }
            NOP => Reader { at: past, ..self },
            _ => return None,
        };
        let at = next.at.checked_next_multiple_of(4)?;
        (at <= blocks.end()).then_some(Reader { at, ..next })
    }
}

/// The text at the start of `bytes`, up to its zero.
fn name(bytes: &[u8]) -> Option<&str> {
    let length = bytes.iter().position(|byte| *byte == 0)?;
    core::str::from_utf8(&bytes[..length]).ok()
}
