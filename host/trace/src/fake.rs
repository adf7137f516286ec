//! Traces with right checksums and any contents, for tests.

use poorwill_memory::checksum;
use zerocopy::IntoBytes;

use crate::block::BlockHead;
use crate::header::Header;

/// A trace with this header, and blocks of these contents. The header's block count and its checksum
/// of the contents are set.
#[must_use]
pub fn trace(mut header: Header, contents: &[&[u8]]) -> Vec<u8> {
    let narrow = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
    let mut blocks = Vec::new();
    for block in contents {
        let packed = lz4_flex::block::compress(block);
        let head = BlockHead {
            packed: narrow(packed.len()).into(),
            length: narrow(block.len()).into(),
            checksum: checksum::of_bytes(&packed).into(),
        };
        blocks.extend_from_slice(head.as_bytes());
        blocks.extend_from_slice(&packed);
        let sum = checksum::of_bytes(block);
        header.contents = checksum::of_words(&[header.contents, sum]);
    }
    header.blocks = contents.len() as u64;
    [header.write(), blocks].concat()
}
