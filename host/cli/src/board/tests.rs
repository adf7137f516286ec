//! Damaged and unusual trees never panic.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::{Assumed, Board};

/// Trees that are made if no time is given, in `POORWILL_FUZZ_SECONDS`.
const TREES: u64 = 3000;

/// Numbers that trees have seldom.
const NUMBERS: [u32; 9] = [
    0,
    1,
    4,
    0xfff,
    0x1000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_fff8,
    u32::MAX,
];

fn blobs() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = folder.join("../../riscv/devicetree/tests/machines");
    let files = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    let compile = |file| {
        let mut dtc = Command::new("dtc");
        dtc.args(["-q", "-q", "-I", "dts", "-O", "dtb"]).arg(file);
        let output = dtc.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        output.stdout
    };
    let mut blobs: Vec<_> = files.iter().map(compile).collect();
    // `POORWILL_TREES` may name a folder with trees of boards.
    if let Some(folder) = std::env::var_os("POORWILL_TREES") {
        let files = std::fs::read_dir(folder).unwrap();
        blobs.extend(files.map(|file| std::fs::read(file.unwrap().path()).unwrap()));
    }
    blobs
}

/// Changes some words or bytes of a blob after its header.
fn mutated(blob: &[u8], random: &mut Rng) -> Vec<u8> {
    const HEADER: usize = 40;
    let mut blob = blob.to_vec();
    for _ in 0..random.usize(1..12) {
        let at = random.usize(HEADER..blob.len() - 8) & !3;
        match random.u8(..5) {
            0 => blob[at] ^= 1 << random.u8(..8),
            1 => blob[at + random.usize(..4)] = random.u8(..),
            2 => {
                let number = NUMBERS[random.usize(..NUMBERS.len())];
                blob[at..at + 4].copy_from_slice(&number.to_be_bytes());
            }
            3 => {
                let from = random.usize(HEADER..blob.len() - 8) & !3;
                blob.copy_within(from..from + 8, at);
            }
            // Another word takes a property's name or a node's token away.
            _ => blob[at..at + 4].copy_from_slice(&4_u32.to_be_bytes()),
        }
    }
    blob
}

#[test]
fn no_tree_panics() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = Rng::with_seed(seed);
    let blobs = blobs();
    let seconds = std::env::var("POORWILL_FUZZ_SECONDS").ok();
    let time = seconds.map(|text| Duration::from_secs(text.parse().unwrap()));
    let began = Instant::now();
    let (mut made, mut read, mut starts) = (0, 0, 0);
    while time.map_or(made < TREES, |time| began.elapsed() < time) {
        made += 1;
        let blob = mutated(&blobs[random.usize(..blobs.len())], &mut random);
        let at = random.bool().then(|| u64::MAX << random.u32(..64));
        let assumed = Assumed::without_file(at);
        let Ok(board) = Board::of(Path::new("tree"), &blob, assumed) else {
            continue;
        };
        read += 1;
        starts += u64::from(board.starts());
        for finding in board.findings() {
            let is_good = finding.cure.is_none();
            assert_eq!(is_good, finding.health == crate::doctor::Health::Good);
            assert!(!finding.detail.contains('\n'), "{finding:?}");
        }
        assert!(board.value().is_object());
    }
    println!("{made} trees: {read} read, {starts} start");
    assert!(read > made / 100 && starts > 0);
}
