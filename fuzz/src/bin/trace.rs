//! Traces of memory requests: whatever a file has, its reader ends with the records that were written,
//! or with an error. Right checksums over any contents are among them.
#![cfg_attr(fuzzing, no_main)]
#![allow(
    clippy::cast_possible_truncation,
    reason = "numbers are drawn below small limits"
)]

use std::io::Cursor;

use poorwill_fuzz::{Cases, Input};
use poorwill_trace::{
    Counted, Digest, HartCounts, Header, Kind, Reader, Record, Requests, Setting, TraceError,
    Writer, fake,
};

poorwill_fuzz::target!(max_len = 4096, run);

fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    match input.below(4) {
        0 => {
            let rest = input.take_rest();
            assert!(read(rest).is_err(), "no checksum is right by chance");
        }
        1 => forged(&mut input),
        2 => written(&mut input, true),
        _ => written(&mut input, false),
    }
}

fn setting(input: &mut Input<'_>) -> Setting {
    Setting {
        harts: 1 + input.below(4) as u32,
        cache: input.any(),
        ways: input.any(),
        skipped: input.any(),
        window: input.any(),
        memory: 1 << 38,
        guest: Digest::default(),
        program: Digest::default(),
    }
}

/// Reads all records, in both ways, which must agree.
fn read(bytes: &[u8]) -> Result<Vec<Record>, TraceError> {
    let mut reader = Reader::new(bytes)?;
    let header = reader.header().clone();
    let mut records = Vec::new();
    let ended = loop {
        match reader.next_record() {
            Ok(Some(record)) => records.push(record),
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    let requests = Requests::new(Reader::new(bytes)?);
    assert_eq!(requests.finish().is_ok(), ended.is_ok());
    for record in &records {
        assert!(usize::from(record.hart) < header.harts.len());
        assert!(u64::from(record.line) < header.lines);
    }
    for (hart, counts) in header.harts.iter().enumerate() {
        let own = records.iter().filter(|one| usize::from(one.hart) == hart);
        let sum: u128 = own.map(|one| u128::from(one.instructions)).sum();
        assert!(sum <= u128::from(counts.instructions), "of hart {hart}");
    }
    ended.map(|()| records)
}

/// Blocks of any bytes, with right checksums.
fn forged(input: &mut Input<'_>) {
    let setting = setting(input);
    let counts = HartCounts {
        instructions: input.edgy(),
        ..HartCounts::default()
    };
    let header = Header {
        setting,
        records: input.below(64),
        lines: input.edgy().min(1 << 32),
        is_whole: true,
        harts: vec![counts; setting.harts as usize],
        ..Header::default()
    };
    let first = input.below(200) as usize;
    let contents = input.bytes(first.min(input.len())).unwrap_or_default();
    let rest = std::mem::replace(input, Input::new(&[])).take_rest();
    let blocks = [contents, rest];
    // Any end will do, but no panic.
    let _ = read(&fake::trace(
        header,
        &blocks[..1 + usize::from(!rest.is_empty())],
    ));
}

/// Records as the writer has them. If one byte is changed, the reader finds it.
fn written(input: &mut Input<'_>, is_changed: bool) {
    let setting = setting(input);
    let mut writer = Writer::new(Cursor::new(Vec::new()), setting).expect("a vector");
    let mut counts = vec![HartCounts::default(); setting.harts as usize];
    let mut records = Vec::new();
    for _ in 0..input.below(40) {
        let kind = Kind::ALL[input.below(6) as usize];
        let record = Record {
            hart: input.below(setting.harts.into()) as u16,
            kind,
            line: if kind == Kind::Fence {
                0
            } else {
                input.edgy() as u32
            },
            instructions: input.edgy() >> 22,
        };
        counts[usize::from(record.hart)].instructions += record.instructions;
        writer.push(&record).expect("a vector");
        records.push(record);
    }
    let mut bytes = writer
        .finish(
            Counted {
                pages: 0,
                harts: counts,
            },
            true,
        )
        .expect("a vector")
        .into_inner();
    if is_changed {
        let at = input.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << input.below(8);
        assert!(read(&bytes).is_err(), "byte {at}");
    } else {
        assert_eq!(read(&bytes).expect("whole"), records);
    }
}
