//! Reads a trace. Its file may be damaged, or be anything else.

use std::io::{ErrorKind, Read};

use poorwill_memory::checksum;
use zerocopy::{FromZeros, IntoBytes};

use crate::MOST_OF_BLOCK;
use crate::block::BlockHead;
use crate::coding::{Context, Record};
use crate::error::TraceError;
use crate::header::{Header, RawStart};

/// Reads records.
#[derive(Debug)]
pub struct Reader<R> {
    from: R,
    header: Header,
    context: Context,
    block: Vec<u8>,
    /// The next record in the block.
    at: usize,
    blocks: u64,
    records: u64,
    contents: u64,
    executed: Vec<u64>,
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    ///
    /// [`TraceError`].
    pub fn new(mut from: R) -> Result<Self, TraceError> {
        let mut start = RawStart::new_zeroed();
        fill(&mut from, start.as_mut_bytes(), TraceError::NoTrace)?;
        let mut bytes = vec![0; Header::read_length(&start)?];
        let (first, rest) = bytes.split_at_mut(size_of::<RawStart>());
        first.copy_from_slice(start.as_bytes());
        fill(&mut from, rest, TraceError::Header)?;
        let header = Header::read(&bytes)?;
        let harts = header.harts.len();
        Ok(Reader {
            from,
            header,
            context: Context::new(harts),
            block: Vec::new(),
            at: 0,
            blocks: 0,
            records: 0,
            contents: 0,
            executed: vec![0; harts],
        })
    }

    /// The header.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The next record. `None`: there are no more, and all of the trace was as its header says.
    ///
    /// # Errors
    ///
    /// [`TraceError`].
    pub fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        if self.at == self.block.len() {
            if self.blocks == self.header.blocks {
                return self.end();
            }
            self.next_block()?;
        }
        let mut rest = &self.block[self.at..];
        let record = self.context.decode(&mut rest);
        let record = record.map_err(|_| TraceError::Block(self.blocks))?;
        self.at = self.block.len() - rest.len();
        self.records += 1;
        let executed = &mut self.executed[usize::from(record.hart)];
        *executed = executed.saturating_add(record.instructions);
        if u64::from(record.line) >= self.header.lines {
            return Err(TraceError::Contents("a line is beyond memory"));
        }
        if *executed > self.header.harts[usize::from(record.hart)].instructions {
            return Err(TraceError::Contents("a hart executes too much"));
        }
        Ok(Some(record))
    }

    fn next_block(&mut self) -> Result<(), TraceError> {
        let number = self.blocks + 1;
        let mut head = BlockHead::new_zeroed();
        fill(
            &mut self.from,
            head.as_mut_bytes(),
            TraceError::Short(number),
        )?;
        let [packed, length] = [head.packed, head.length].map(|length| length.get() as usize);
        let most_packed = lz4_flex::block::get_maximum_output_size(MOST_OF_BLOCK);
        if packed > most_packed || length == 0 || length > MOST_OF_BLOCK {
            return Err(TraceError::Block(number));
        }
        let mut bytes = vec![0; packed];
        fill(&mut self.from, &mut bytes, TraceError::Short(number))?;
        if head.checksum != checksum::of_bytes(&bytes) {
            return Err(TraceError::Block(number));
        }
        let block = lz4_flex::block::decompress(&bytes, length);
        let block = block.map_err(|_| TraceError::Block(number))?;
        if block.len() != length {
            return Err(TraceError::Block(number));
        }
        let sum = checksum::of_bytes(&block);
        self.contents = checksum::of_words(&[self.contents, sum]);
        self.block = block;
        self.at = 0;
        self.blocks = number;
        self.context.reset();
        Ok(())
    }

    fn end(&mut self) -> Result<Option<Record>, TraceError> {
        if self.records != self.header.records || self.contents != self.header.contents {
            return Err(TraceError::Contents("count or checksum"));
        }
        let mut more = [0];
        match self.from.read(&mut more)? {
            0 => Ok(None),
            _ => Err(TraceError::Contents("bytes after its end")),
        }
    }
}

/// Fills `bytes`; `short`: the file ends before.
fn fill(from: &mut impl Read, bytes: &mut [u8], short: TraceError) -> Result<(), TraceError> {
    from.read_exact(bytes)
        .map_err(|reason| match reason.kind() {
            ErrorKind::UnexpectedEof => short,
            _ => TraceError::Read(reason),
        })
}
