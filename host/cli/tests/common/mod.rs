//! The command in a world of its own: no QEMU, no guest, no home but those that
//! a test puts there.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use poorwill_vault::{FileFlash, Vault, range_in_bank};
use tempfile::TempDir;

pub(crate) const MIB: u64 = 1 << 20;

/// How long anything may take: hosts are slow, and others use them.
pub(crate) const LIMIT: Duration = Duration::from_secs(300);

pub(crate) struct World {
    pub(crate) folder: TempDir,
}

/// The header of a Linux `Image`, whose magic number is its 15th word.
fn image() -> [u8; 64] {
    let mut header = [0; 64];
    header[56..60].copy_from_slice(b"RSC\x05");
    header
}

impl World {
    /// Nothing at all.
    pub(crate) fn empty() -> Self {
        World {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// A firmware, a guest, and a QEMU that is the given shell script.
    pub(crate) fn with_qemu(script: &str) -> Self {
        let world = Self::empty();
        fs::create_dir_all(world.path("cache/guest")).unwrap();
        for file in [
            "firmware",
            "loader",
            "plugin",
            "cache/guest/initrd.img",
            "cache/guest/root.ext4",
            "cache/guest/tiny.img",
        ] {
            fs::write(world.path(file), "contents").unwrap();
        }
        fs::write(world.path("cache/guest/Image"), image()).unwrap();
        world.set_qemu(script);
        world
    }

    /// The same, with a QEMU that tells a machine's device tree before it is the script.
    pub(crate) fn with_tree(script: &str) -> Self {
        let tree = "/dts-v1/; / { cpus { }; soc { interrupt-controller@c000000 { \
                    #interrupt-cells = <2>; phandle = <1>; }; plic@c000000 { \
                    #interrupt-cells = <1>; phandle = <2>; }; }; };";
        Self::with_qemu(&format!(
            "for word; do case $word in dumpdtb=*)
                echo '{tree}' | dtc -q -I dts -O dtb -o \"${{word#*=}}\"; exit;; esac; done
            {script}"
        ))
    }

    pub(crate) fn set_qemu(&self, script: &str) {
        let version = "if [ \"$1\" = --version ]; then echo QEMU emulator version 10.0.2; exit; fi";
        self.set_program("qemu", &format!("#!/bin/sh\n{version}\n{script}\n"));
    }

    pub(crate) fn set_program(&self, name: &str, text: &str) {
        let (new, path) = (self.path("new"), self.path(name));
        fs::write(&new, text).unwrap();
        copy_to_run(&new, &path);
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `poorwill`, to be run in this world.
    pub(crate) fn poorwill(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_poorwill"));
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("POORWILL_CACHE", self.path("cache"))
            .env("POORWILL_DATA", self.path("data"))
            .env("POORWILL_FIRMWARE", self.path("firmware"))
            .env("POORWILL_LOADER", self.path("loader"))
            .env("POORWILL_PLUGIN", self.path("plugin"))
            .env("POORWILL_QEMU", self.path("qemu"))
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Outcome {
        Outcome::of(&mut self.poorwill(arguments))
    }
}

/// The vault in a flash file, as a machine opens it.
pub(crate) fn open_vault(flash: &Path) -> Vault<FileFlash> {
    let file = fs::File::options().read(true).write(true).open(flash);
    let range = range_in_bank(32 * MIB, 256 << 10).unwrap();
    let range = u32::try_from(range.start).unwrap()..u32::try_from(range.end).unwrap();
    Vault::open(FileFlash::new(file.unwrap()).unwrap(), range).unwrap()
}

/// Copies a program that is to be run. Another process does, as a descriptor that is open for
/// writing in this one keeps a file from being executed, and is another test's child's, too,
/// while that is made.
pub(crate) fn copy_to_run(from: &Path, to: &Path) {
    let install = Command::new("install").args([from, to]).status();
    assert!(install.unwrap().success());
}

/// How a run of the command ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Outcome {
    pub(crate) fn of(command: &mut Command) -> Self {
        command.output().unwrap().into()
    }

    /// Failed with this exit status, and says each of these.
    #[track_caller]
    pub(crate) fn refuses(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:#?}");
        for word in words {
            assert!(self.err.contains(word), "does not say {word:?}: {self:#?}");
        }
    }
}

impl From<Output> for Outcome {
    fn from(output: Output) -> Self {
        Outcome {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Names in `folder`, sorted.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
