//! Traces are read as they were written, and damaged ones are refused.
#![forbid(unsafe_code)]

use std::io::Cursor;

use poorwill_oc_pmem::{Kind, Source};
use poorwill_trace::{
    Counted, Digest, HartCounts, Reader, Record, Requests, Returns, Setting, TraceError, TraceFile,
    Writer,
};
use proptest::prelude::*;

fn setting(harts: u32) -> Setting {
    Setting {
        harts,
        cache: 16_384,
        ways: 4,
        skipped: 20,
        window: 100,
        memory: 1 << 38,
        guest: Digest([1; 32]),
        program: Digest([2; 32]),
    }
}

fn counts(harts: u32, records: &[Record]) -> Counted {
    let of = |hart| {
        let own = records
            .iter()
            .filter(|record| u32::from(record.hart) == hart);
        let sum = own.fold(0_u64, |sum, record| sum.saturating_add(record.instructions));
        HartCounts {
            instructions: sum,
            ..HartCounts::default()
        }
    };
    Counted {
        pages: 7,
        harts: (0..harts).map(of).collect(),
    }
}

fn written(harts: u32, records: &[Record]) -> Vec<u8> {
    let mut writer = Writer::new(Cursor::new(Vec::new()), setting(harts)).expect("a vector");
    for record in records {
        writer.push(record).expect("a vector");
    }
    let harts = counts(harts, records);
    writer.finish(harts, true).expect("a vector").into_inner()
}

fn read(bytes: &[u8]) -> Result<Vec<Record>, TraceError> {
    let mut reader = Reader::new(bytes)?;
    let mut records = Vec::new();
    while let Some(record) = reader.next_record()? {
        records.push(record);
    }
    Ok(records)
}

fn record() -> impl Strategy<Value = Record> {
    let kind = prop_oneof![
        Just(Kind::Load),
        Just(Kind::Store),
        Just(Kind::Fetch),
        Just(Kind::WriteBack),
        Just(Kind::Flush),
        Just(Kind::Fence),
    ];
    let instructions = prop_oneof![0..40_u64, 0..1_u64 << 39];
    (0..3_u16, kind, any::<u32>(), instructions).prop_map(|(hart, kind, line, instructions)| {
        Record {
            hart,
            kind,
            line: if kind == Kind::Fence { 0 } else { line },
            instructions,
        }
    })
}

/// Records that fill several blocks.
fn long() -> Vec<Record> {
    let one = |number: u32| Record {
        hart: (number % 3) as u16,
        kind: [Kind::Load, Kind::WriteBack, Kind::Fetch][number as usize / 5 % 3],
        line: number.wrapping_mul(2_654_435_761),
        instructions: u64::from(number % 50),
    };
    (0..40_000).map(one).collect()
}

proptest! {
    #[test]
    fn records_are_read_as_written(records in proptest::collection::vec(record(), 0..300)) {
        prop_assert_eq!(read(&written(3, &records)).expect("whole"), records);
    }

    /// Each change of a byte is found, and each end that is too early.
    #[test]
    fn damage_is_found(records in proptest::collection::vec(record(), 1..60), at in any::<prop::sample::Index>(), bits in 1..=255_u8) {
        let mut bytes = written(3, &records);
        let at = at.index(bytes.len());
        prop_assert!(read(&bytes[..at]).is_err());
        bytes[at] ^= bits;
        prop_assert!(read(&bytes).is_err());
    }

    /// Bytes that are no trace, with and without a right start, end in an error.
    #[test]
    fn no_bytes_do_harm(bytes in proptest::collection::vec(any::<u8>(), 0..400), keeps in 0..300_usize) {
        prop_assert!(read(&bytes).is_err());
        let mut trace = written(2, &long()[..2]);
        let keeps = keeps.min(trace.len());
        trace.truncate(keeps);
        trace.extend_from_slice(&bytes);
        if let Ok(records) = read(&trace) {
            prop_assert!(bytes.is_empty(), "{} records", records.len());
        }
    }
}

/// A part of a trace has the same requests as the trace of that part.
#[test]
fn the_first_records_are_a_trace() {
    let records = long();
    let bytes = written(3, &records);
    let drained = |mut requests: Requests<&[u8]>| {
        let mut all = Vec::new();
        for hart in 0..3 {
            while let Some(request) = requests.next(hart) {
                all.push((hart, request));
            }
        }
        let instructions = [0, 1, 2].map(|hart| requests.instructions(hart));
        requests.finish().expect("whole");
        (all, instructions)
    };
    for count in [0, 1, 17, 30_000, records.len()] {
        let reader = Reader::new(&*bytes).expect("a trace");
        let part = drained(Requests::first(reader, count as u64));
        let short = written(3, &records[..count]);
        let whole = drained(Requests::new(Reader::new(&*short).expect("a trace")));
        assert!(part == whole && part.0.len() == count, "{count} records");
    }
    let reader = Reader::new(&*bytes).expect("a trace");
    let all = drained(Requests::first(reader, u64::MAX));
    assert_eq!(all.0.len(), records.len());
}

#[test]
fn many_blocks_are_read_and_repeat() {
    let records = long();
    let bytes = written(3, &records);
    assert_eq!(bytes, written(3, &records));
    assert_eq!(read(&bytes).expect("whole"), records);
    let mut requests = Requests::new(Reader::new(&bytes[..]).expect("a header"));
    assert!(requests.instructions(2) > 0);
    for hart in [2, 0, 1] {
        let own: Vec<_> = std::iter::from_fn(|| requests.next(hart)).collect();
        let expected = records
            .iter()
            .filter(|record| usize::from(record.hart) == hart);
        assert!(
            own.iter()
                .map(|one| one.line)
                .eq(expected.map(|one| one.line))
        );
    }
    requests.finish().expect("whole");
}

#[test]
fn faults_are_named() {
    let bytes = written(3, &long());
    let fault = |bytes: &[u8]| read(bytes).map(drop).unwrap_err().to_string();
    assert_eq!(fault(b""), "it is no trace");
    assert_eq!(fault(&[0; 4096]), "it is no trace");
    let mut newer = bytes.clone();
    newer[8] = 3;
    assert!(fault(&newer).contains("version 3") && fault(&newer).contains("version 2"));
    let mut other = bytes.clone();
    other[40] ^= 1;
    assert_eq!(fault(&other), "its header is damaged");
    assert!(fault(&bytes[..bytes.len() - 1]).contains("ends early, in block"));
    let mut damaged = bytes.clone();
    *damaged.last_mut().expect("bytes") ^= 1;
    assert!(fault(&damaged).contains("is damaged"));
    let longer = [&bytes[..], b"x"].concat();
    assert!(fault(&longer).contains("bytes after its end"));
    let little = Setting {
        memory: 1 << 20,
        ..setting(3)
    };
    let mut writer = Writer::new(Cursor::new(Vec::new()), little).expect("a vector");
    writer.push(&long()[1]).expect("a vector");
    let bytes_of_little = writer
        .finish(counts(3, &long()[..2]), true)
        .expect("a vector");
    assert!(fault(&bytes_of_little.into_inner()).contains("beyond its memory"));
    let endless = HartCounts {
        instructions: (1 << 48) + 1,
        ..HartCounts::default()
    };
    let writer = Writer::new(Cursor::new(Vec::new()), setting(1)).expect("a vector");
    let bytes_of_endless = writer
        .finish(
            Counted {
                pages: 0,
                harts: vec![endless],
            },
            true,
        )
        .expect("a vector");
    assert!(fault(&bytes_of_endless.into_inner()).contains("too many instructions"));
    // The requests of a damaged trace end early, and say so.
    let mut requests = Requests::new(Reader::new(&damaged[..]).expect("a header"));
    while requests.next(0).is_some() {}
    assert!(requests.finish().is_err());
}

#[test]
fn counts_are_read_as_written() {
    let mut counted = counts(2, &long()[..1]);
    counted.harts[1].returns[3] = Returns {
        count: 2,
        lines: 13,
    };
    let finish = |counted: Counted| {
        let writer = Writer::new(Cursor::new(Vec::new()), setting(2)).expect("a vector");
        writer.finish(counted, true).expect("a vector").into_inner()
    };
    let bytes = finish(counted.clone());
    let reader = Reader::new(&*bytes).expect("a header");
    let header = reader.header();
    assert_eq!((header.pages, &header.harts), (7, &counted.harts));
    counted.harts[1].returns[3].lines = 7;
    let fault = Reader::new(&*finish(counted.clone()))
        .map(drop)
        .unwrap_err();
    assert!(fault.to_string().contains("returns have other lines"));
    counted.harts[1].returns[3].lines = 8;
    counted.pages = (1 << 26) + 1;
    let fault = Reader::new(&*finish(counted)).map(drop).unwrap_err();
    assert!(fault.to_string().contains("beyond its memory"));
}

#[test]
fn a_file_is_there_only_when_it_is_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = folder.path().join("one.trace");
    let count = || std::fs::read_dir(folder.path()).expect("a folder").count();
    let mut file = TraceFile::create(&name, setting(3)).expect("a file");
    file.push(&long()[0]).expect("written");
    assert!(!name.exists());
    drop(file);
    assert_eq!(count(), 0, "nothing is left of it");
    let mut file = TraceFile::create(&name, setting(3)).expect("a file");
    file.push(&long()[0]).expect("written");
    file.finish(counts(3, &long()[..1]), true).expect("written");
    assert_eq!(count(), 1);
    assert_eq!(
        read(&std::fs::read(&name).expect("a file")).expect("whole"),
        long()[..1]
    );
    let full = TraceFile::create("/dev/full/x".as_ref(), setting(1));
    assert!(full.is_err());
}

/// The last token of LZ4 has bits without a meaning.
#[test]
fn a_change_without_an_effect_is_found_too() {
    let bytes = written(3, &long()[..2]);
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << bit;
            assert!(read(&changed).is_err(), "bit {bit} of byte {at}");
        }
    }
}
