//! Checks the storeys: a crate uses only its own storey and lower ones. Fakes and uses that only
//! tests need count, too.

mod boxes;
mod diagrams;
mod memory;
mod modules;
mod prose;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;

use modules::Modules;

/// The storey of a crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Storey {
    Portable,
    Riscv,
    Host,
    /// Outside of the storeys: the OS's side, tests and fuzz targets. No crate of a storey uses
    /// them.
    Beside,
}

impl Storey {
    fn of(folder: &str) -> Self {
        match folder.split('/').next() {
            Some("portable") => Storey::Portable,
            Some("riscv") => Storey::Riscv,
            Some("host") => Storey::Host,
            _ => Storey::Beside,
        }
    }
}

/// A crate of the workspace.
struct Member {
    name: String,
    /// Path in the repository.
    folder: String,
    /// Crates of the workspace that it uses, also for its tests. The value says whether only its
    /// tests use the crate.
    uses: BTreeMap<String, bool>,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests is a folder of it")
}

fn members() -> Vec<Member> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--no-deps"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let root = metadata["workspace_root"].as_str().expect("a root");
    let packages = metadata["packages"].as_array().expect("packages");
    packages
        .iter()
        .map(|package| member(package, root))
        .collect()
}

fn member(package: &Value, root: &str) -> Member {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let manifest = text(&package["manifest_path"]);
    let folder = manifest.trim_start_matches(root).trim_matches('/');
    let mut uses = BTreeMap::new();
    for used in package["dependencies"].as_array().expect("dependencies") {
        if !used["path"].is_null() {
            let only_tests = used["kind"] == "dev";
            let entry = uses.entry(text(&used["name"])).or_insert(true);
            *entry &= only_tests;
        }
    }
    Member {
        name: text(&package["name"]),
        folder: folder.trim_end_matches("/Cargo.toml").to_owned(),
        uses,
    }
}

/// A line for each use of a higher storey.
fn wrong_uses(members: &[Member]) -> Vec<String> {
    let storeys: BTreeMap<_, _> = (members.iter())
        .map(|member| (member.name.as_str(), Storey::of(&member.folder)))
        .collect();
    let mut wrong = Vec::new();
    for member in members {
        for used in member.uses.keys() {
            if storeys[used.as_str()] > storeys[member.name.as_str()] {
                wrong.push(format!("{} uses {used}", member.name));
            }
        }
    }
    wrong
}

#[test]
fn nobody_uses_what_stands_higher() {
    let members = members();
    assert!(members.len() > 12, "all crates are listed");
    assert_eq!(wrong_uses(&members), [""; 0]);
}

#[test]
fn a_planted_use_of_what_stands_higher_is_found() {
    let mut members = members();
    let store = (members.iter_mut()).find(|member| member.name == "poorwill-store");
    let store = store.expect("the store is listed");
    store.uses.insert("poorwill-firmware".into(), true);
    assert_eq!(
        wrong_uses(&members),
        ["poorwill-store uses poorwill-firmware"]
    );
}

/// The modules of each crate, with its name.
static MODULES: LazyLock<Vec<(String, Modules)>> = LazyLock::new(|| {
    let read = |member: &Member| Modules::read(&root().join(&member.folder).join("src"));
    let members = members().into_iter();
    members
        .map(|member| (member.name.clone(), read(&member)))
        .collect()
});

#[test]
fn modules_form_no_circle() {
    for (name, modules) in MODULES.iter() {
        assert_eq!(modules.circles(), [""; 0], "{name}");
    }
}

/// A module that uses its children defines no item that they use: these are in a file of their own.
#[test]
fn no_folder_is_in_a_circle_with_its_files() {
    for (name, modules) in MODULES.iter() {
        assert_eq!(modules.own_circles(), [""; 0], "{name}");
    }
}

/// The most lines of a file. The limit for functions is clippy's (clippy.toml).
const MOST_LINES: usize = 500;

/// The most lines of code of the firmware, without blank lines and comments.
const MOST_OF_FIRMWARE: usize = 9470;

/// The sources below a folder, with their texts, without those of tests.
fn sources(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut open = vec![folder.to_owned()];
    let mut sources = Vec::new();
    while let Some(path) = open.pop() {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() && name != "tests" {
            let entries = std::fs::read_dir(&path).expect("a folder can be read");
            open.extend(entries.map(|entry| entry.expect("an entry").path()));
        } else if name.ends_with(".rs") {
            let text = std::fs::read_to_string(&path).expect("a file of text");
            sources.push((path, text));
        }
    }
    sources
}

/// The files of the product that are longer, without their tests.
fn long_files() -> Vec<String> {
    let storeys = ["portable", "riscv", "host"].map(|storey| root().join(storey));
    let sources = storeys.iter().flat_map(|storey| sources(storey));
    let long = sources.filter(|(_, text)| text.lines().count() > MOST_LINES);
    long.map(|(path, _)| path.display().to_string()).collect()
}

#[test]
fn the_firmware_stays_thin() {
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
    let sources = sources(&root().join("riscv/firmware/src"));
    let lines = sources
        .iter()
        .map(|(_, text)| text.lines().filter(is_code).count());
    let lines: usize = lines.sum();
    assert!((1000..=MOST_OF_FIRMWARE).contains(&lines), "{lines} lines");
}

#[test]
fn no_file_of_the_product_is_too_long_to_be_read_in_one_sitting() {
    assert_eq!(long_files(), [""; 0]);
}
