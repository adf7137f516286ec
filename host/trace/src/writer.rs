//! Writes a trace.

use std::io::{self, Seek, SeekFrom, Write};

use poorwill_memory::checksum;
use zerocopy::IntoBytes;

use crate::MOST_OF_BLOCK;
use crate::block::BlockHead;
use crate::coding::{Context, MOST_OF_RECORD, Record};
use crate::header::{Counted, Header, Setting};

/// Writes records. Without [`Writer::finish`] the header counts zero of them.
#[derive(Debug)]
pub struct Writer<W> {
    to: W,
    header: Header,
    context: Context,
    block: Vec<u8>,
}

impl<W: Write + Seek> Writer<W> {
    /// Begins a trace.
    ///
    /// # Errors
    ///
    /// The trace cannot be written.
    pub fn new(mut to: W, setting: Setting) -> io::Result<Self> {
        let header = Header {
            setting,
            ..Header::default()
        };
        // The place of the header. Zeros are no header, so an unfinished file is no trace.
        to.write_all(&vec![0; Header::length(setting.harts)])?;
        Ok(Writer {
            to,
            header,
            context: Context::new(setting.harts as usize),
            block: Vec::with_capacity(MOST_OF_BLOCK),
        })
    }

    /// Appends a record. Its hart must exist.
    ///
    /// # Errors
    ///
    /// The trace cannot be written.
    pub fn push(&mut self, record: &Record) -> io::Result<()> {
        if self.block.len() + MOST_OF_RECORD > MOST_OF_BLOCK {
            self.end_block()?;
        }
        self.context.encode(record, &mut self.block);
        self.header.records += 1;
        self.header.lines = self.header.lines.max(u64::from(record.line) + 1);
        Ok(())
    }

    fn end_block(&mut self) -> io::Result<()> {
        let packed = lz4_flex::block::compress(&self.block);
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).map_err(io::Error::other);
        let head = BlockHead {
            packed: length(&packed)?.into(),
            length: length(&self.block)?.into(),
            checksum: checksum::of_bytes(&packed).into(),
        };
        self.to.write_all(head.as_bytes())?;
        self.to.write_all(&packed)?;
        let sum = checksum::of_bytes(&self.block);
        self.header.contents = checksum::of_words(&[self.header.contents, sum]);
        self.header.blocks += 1;
        self.block.clear();
        self.context.reset();
        Ok(())
    }

    /// Writes the rest, and the header. Returns what was written to.
    ///
    /// # Errors
    ///
    /// The trace cannot be written.
    pub fn finish(mut self, counted: Counted, is_whole: bool) -> io::Result<W> {
        if !self.block.is_empty() {
            self.end_block()?;
        }
        self.header.harts = counted.harts;
        self.header.pages = counted.pages;
        self.header.is_whole = is_whole;
        self.to.seek(SeekFrom::Start(0))?;
        self.to.write_all(&self.header.write())?;
        self.to.flush()?;
        Ok(self.to)
    }
}
