//! Checks that `deny.toml` allows the licence of each dependency. cargo-deny reads the same list,
//! but this test needs only cargo.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

fn allowed() -> BTreeSet<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deny.toml");
    let text = std::fs::read_to_string(&file).expect("deny.toml is in the repository");
    let table: toml::Table = text.parse().expect("deny.toml is well-formed");
    let list = table["licenses"]["allow"].as_array().expect("a list");
    list.iter()
        .map(|name| name.as_str().expect("a name").to_owned())
        .collect()
}

/// Whether an SPDX expression is satisfied; `/` is an old way to write `OR`.
fn is_satisfied(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    any_of(&mut words, allowed) && words.next().is_none()
}

type Words<'w> = std::iter::Peekable<std::str::SplitWhitespace<'w>>;

fn any_of(words: &mut Words<'_>, allowed: &BTreeSet<String>) -> bool {
    let mut satisfied = all_of(words, allowed);
    while words.next_if_eq(&"OR").is_some() {
        satisfied |= all_of(words, allowed);
    }
    satisfied
}

fn all_of(words: &mut Words<'_>, allowed: &BTreeSet<String>) -> bool {
    let mut satisfied = one(words, allowed);
    while words.next_if_eq(&"AND").is_some() {
        satisfied &= one(words, allowed);
    }
    satisfied
}

/// Checks a licence's name, also one with `WITH`, or an expression in parentheses.
fn one(words: &mut Words<'_>, allowed: &BTreeSet<String>) -> bool {
    if words.next_if_eq(&"(").is_some() {
        return any_of(words, allowed) & words.next_if_eq(&")").is_some();
    }
    let is_name = |word: &&str| !["(", ")", "AND", "OR"].contains(word);
    let name: Vec<&str> = std::iter::from_fn(|| words.next_if(is_name)).collect();
    allowed.contains(&name.join(" "))
}

#[test]
fn every_dependency_has_an_allowed_licence() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    assert!(packages.len() > 20, "the whole graph is there");
    let allowed = allowed();
    let refused: Vec<String> = packages
        .iter()
        .filter(|package| !is_satisfied(package["license"].as_str().unwrap_or("none"), &allowed))
        .map(|package| format!("{}: {}", package["name"], package["license"]))
        .collect();
    assert!(
        refused.is_empty(),
        "licences that deny.toml does not allow: {refused:#?}"
    );
}

#[test]
fn expressions_are_understood() {
    let allowed: BTreeSet<String> = ["MIT", "Zlib"].map(str::to_owned).into();
    for good in [
        "MIT",
        "MIT OR Apache-2.0",
        "Apache-2.0/MIT",
        "MIT AND Zlib",
        "GPL-3.0 OR (MIT AND Zlib)",
        "(GPL-3.0 OR MIT) AND Zlib",
        "MIT OR GPL-3.0 AND Zlib",
    ] {
        assert!(is_satisfied(good, &allowed), "{good}");
    }
    for bad in [
        "GPL-3.0",
        "MIT AND GPL-3.0",
        "(MIT OR Zlib) AND GPL-3.0",
        "MIT WITH something",
        "(MIT",
        "MIT)",
        "none",
        "",
    ] {
        assert!(!is_satisfied(bad, &allowed), "{bad}");
    }
}
