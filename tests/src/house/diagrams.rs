//! Checks the diagrams of calls in docs/architecture.md against the sources: an arrow must lead
//! from a function to one that its body names.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use regex_lite::Regex;

use super::root;

/// The diagrams that the page must have, by the heading above each.
const WANTED: [&str; 3] = ["A SUSP call", "A page", "The power-fail line"];

/// A function of a diagram: its file, with the crate's folder in place of the crate's path, and its
/// name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Function {
    file: String,
    name: String,
}

/// The arrows of a Mermaid flowchart whose nodes have the form `id["crate/file.rs function"]`.
fn arrows(figure: &str) -> Vec<(Function, Function)> {
    let node = Regex::new(r#"(\w+)\["(\S+\.rs) (\w+)"\]"#).expect("a pattern");
    let mut functions = BTreeMap::new();
    for found in node.captures_iter(figure) {
        let function = Function {
            file: found[2].to_owned(),
            name: found[3].to_owned(),
        };
        functions.insert(found[1].to_owned(), function);
    }
    let of = |id: String| (functions.get(&id).cloned()).unwrap_or_else(|| panic!("{id}: no label"));
    let pairs = pairs(&node.replace_all(figure, "$1"));
    let arrows = pairs.into_iter().map(|(from, to)| (of(from), of(to)));
    arrows.collect()
}

/// The ends of each arrow of a flowchart without labels.
pub(super) fn pairs(figure: &str) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    for line in figure.lines().filter(|line| line.contains("-->")) {
        let names: Vec<_> = line.split("-->").map(|id| id.trim().to_owned()).collect();
        pairs.extend(names.windows(2).map(|two| (two[0].clone(), two[1].clone())));
    }
    pairs
}

/// The first flowchart below a heading of docs/architecture.md.
pub(super) fn figure_below(page: &str, heading: &str) -> String {
    let (_, section) = page.split_once(&format!("## {heading}\n")).expect(heading);
    let (_, figure) = section.split_once("```mermaid\n").expect(heading);
    let (figure, _) = figure.split_once("```").expect(heading);
    figure.to_owned()
}

/// The bodies of all functions with that name in a file: a trait may declare one, too.
fn bodies(text: &str, name: &str) -> Vec<String> {
    let start = Regex::new(&format!(r"(?m)^( *)[^/\n]*\bfn {name}\b")).expect("a pattern");
    let mut all = Vec::new();
    for found in start.captures_iter(text) {
        let from = found.get(0).expect("the whole").start();
        let end = format!("\n{}}}", &found[1]);
        let length = text[from..].find(&end).unwrap_or(text.len() - from);
        all.push(text[from..from + length].to_owned());
    }
    all
}

/// Why an arrow is wrong; `None`: it is right.
fn fault(arrow: &(Function, Function), read: impl Fn(&str) -> Option<String>) -> Option<String> {
    let (from, to) = arrow;
    for end in [from, to] {
        let there = read(&end.file).is_some_and(|text| !bodies(&text, &end.name).is_empty());
        if !there {
            return Some(format!("{} has no function {}", end.file, end.name));
        }
    }
    let named = Regex::new(&format!(r"\b{}\b", to.name)).expect("a pattern");
    let bodies = bodies(&read(&from.file)?, &from.name);
    // The first line has the function's own name, so it is left out.
    let calls = |body: &String| {
        let inside = body.split_once('{').map_or("", |(_, inside)| inside);
        named.is_match(inside)
    };
    let is_called = bodies.iter().any(calls);
    (!is_called).then(|| format!("{} does not name {}", from.name, to.name))
}

fn source(file: &str) -> Option<String> {
    let (member, rest) = file.split_once('/')?;
    let places = ["portable", "riscv"]
        .map(|storey| -> PathBuf { root().join(storey).join(member).join("src").join(rest) });
    places
        .iter()
        .find_map(|place| fs::read_to_string(place).ok())
}

#[test]
fn diagrams_show_calls_that_exist() {
    let page = fs::read_to_string(root().join("docs/architecture.md")).expect("the page");
    for heading in WANTED {
        let arrows = arrows(&figure_below(&page, heading));
        assert!(arrows.len() > 4, "{heading}: {arrows:?}");
        let faults: Vec<_> = arrows
            .iter()
            .filter_map(|arrow| fault(arrow, source))
            .collect();
        assert!(faults.is_empty(), "{heading}: {faults:#?}");
    }
}

#[test]
fn a_planted_arrow_is_found() {
    let read = |file: &str| {
        (file == "a/b.rs").then(|| "fn one() {\n    two();\n}\nfn two() {\n}\n".to_owned())
    };
    let faults = |figure| -> Vec<_> {
        let arrows = arrows(figure);
        arrows
            .iter()
            .filter_map(|arrow| fault(arrow, read))
            .collect()
    };
    let right = "flowchart\n    x[\"a/b.rs one\"] --> y[\"a/b.rs two\"]\n";
    assert_eq!(faults(right), [""; 0]);
    let turned = format!("{right}    y --> x\n");
    assert_eq!(faults(&turned), ["two does not name one"]);
    let gone = "flowchart\n    x[\"a/b.rs one\"] --> y[\"a/b.rs three\"]\n";
    assert_eq!(faults(gone), ["a/b.rs has no function three"]);
}
