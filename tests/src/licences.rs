//! Every dependency's licence is one that `deny.toml` allows. The same list is
//! read by cargo-deny, where that is installed; this needs nothing but cargo.

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

/// Whether an SPDX expression of the forms that crates use is satisfied: `OR`
/// (or the old `/`) of `AND` of names, with or without parentheses.
fn is_satisfied(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let plain = expression.replace(['(', ')'], "").replace('/', " OR ");
    // "A OR B AND C" without parentheses reads as in SPDX: AND binds tighter.
    // "(A OR B) AND C" read that way asks for more than it must, never for less,
    // as long as no bare "C" stands alone: then one of its names is refused.
    plain.split(" OR ").any(|choice| {
        choice
            .split(" AND ")
            .all(|name| allowed.contains(name.trim()))
    })
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
    ] {
        assert!(is_satisfied(good, &allowed), "{good}");
    }
    for bad in ["GPL-3.0", "MIT AND GPL-3.0", "none", ""] {
        assert!(!is_satisfied(bad, &allowed), "{bad}");
    }
}
