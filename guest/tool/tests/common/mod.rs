//! A model of Linux's files in a temporary folder.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use indicatif::ProgressBar;
use poorwill_guest::{Places, run};
use poorwill_machine::disk::{FileMedium, NewDisk};
use poorwill_machine::size::Bytes;
use poorwill_memory::{Page, to_usize};
use poorwill_store::find_areas;
use tempfile::TempDir;

/// The files that Linux shows of a machine.
pub(crate) struct Machine {
    pub(crate) folder: TempDir,
}

/// The result of a run of the program.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) status: u8,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Outcome {
    #[track_caller]
    pub(crate) fn says(&self, status: u8, out: &[&str], err: &[&str]) {
        assert_eq!(self.status, status, "{self:#?}");
        for words in out {
            assert!(self.out.contains(words), "no {words:?}: {self:#?}");
        }
        for words in err {
            assert!(self.err.contains(words), "no {words:?}: {self:#?}");
        }
        assert!(!err.is_empty() || self.err.is_empty(), "{self:#?}");
    }
}

impl Machine {
    /// A machine without disks. The folder is not in tmpfs, which may lack direct I/O.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        for name in ["blocks", "dev"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        Machine { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes an attribute of a block device, as sysfs shows it.
    pub(crate) fn attribute(&self, device: &str, file: &str, value: u64) {
        let path = self.path("blocks").join(device).join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{value}\n")).unwrap();
    }

    /// Adds a disk with this number of sleep areas, of 5 MiB each, and their partitions.
    pub(crate) fn add_disk(&self, name: &str, areas: usize) {
        self.add_disk_with(name, areas, None);
    }

    /// The same, with a first partition that begins with the bytes `other`, if given.
    pub(crate) fn add_disk_with(&self, name: &str, areas: usize, other: Option<&[u8]>) {
        let file = self.path("dev").join(name);
        let disk = NewDisk {
            root: None,
            swap: other.map(|_| Bytes::mib(1)),
            areas: vec![Bytes::mib(5); areas],
        };
        disk.create(&file, false, &ProgressBar::hidden()).unwrap();
        if let Some(other) = other {
            let disk = File::options().write(true).open(&file).unwrap();
            disk.write_all_at(other, 1 << 20).unwrap();
        }
        let bytes = fs::read(&file).unwrap();
        self.attribute(name, "size", bytes.len() as u64 / 512);
        self.attribute(name, "hidden", 0);
        self.attribute(name, "queue/logical_block_size", 512);
        let mut medium = FileMedium::new(File::open(&file).unwrap(), bytes.len() as u64);
        for area in find_areas(&mut medium, 512, &mut [Page::ZERO]).unwrap() {
            let partition = format!("{name}p{}", area.partition);
            self.attribute(&partition, "partition", area.partition.into());
            self.attribute(&partition, "start", area.start / 512);
            self.attribute(&partition, "size", area.length / 512);
            let all = to_usize(area.start)..to_usize(area.start + area.length);
            fs::write(self.path("dev").join(partition), &bytes[all]).unwrap();
        }
    }

    pub(crate) fn with_area() -> Self {
        let machine = Self::new();
        machine.add_disk("nvme0n1", 1);
        machine
    }

    pub(crate) fn run(&self, words: &[&str]) -> Outcome {
        let place = |name: &str| self.path(name).to_str().unwrap().to_owned();
        let places = Places {
            blocks: &place("blocks"),
            nodes: &place("dev"),
            told: &place("told"),
            domain: &place("domain"),
            log: &place("log"),
            cut: &place("cut"),
            pci: &place("pci"),
            pci_drivers: &place("pci_drivers"),
            virtio_drivers: &place("virtio_drivers"),
            platform: &place("platform"),
            iommus: &place("iommus"),
            mounts: &place("mounts"),
            swaps: &place("swaps"),
            power: &place("power"),
        };
        let (mut out, mut err) = (String::new(), String::new());
        let status = run(words, &places, &mut out, &mut err);
        Outcome { status, out, err }
    }

    pub(crate) fn device(&self, name: &str) -> Vec<u8> {
        fs::read(self.path("dev").join(name)).unwrap()
    }
}
