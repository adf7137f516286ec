//! Checks the picture of the crates in docs/architecture.md: each crate of a storey is in one box, and
//! arrows lead to the boxes whose crates it uses.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use regex_lite::Regex;

use super::diagrams::{figure_below, pairs};
use super::modules::reachable;
use super::{Member, Storey, members, root};

/// What is wrong with a picture whose nodes have the form `id["folder: crate, crate"]`.
fn faults(figure: &str, members: &[Member]) -> Vec<String> {
    let node = Regex::new(r#"(\w+)\["(\w+): ([^"]+)"\]"#).expect("a pattern");
    let mut boxes = BTreeMap::new();
    let mut faults = Vec::new();
    for found in node.captures_iter(figure) {
        for name in found[3].split(", ") {
            let folder = format!("{}/{name}", &found[2]);
            if boxes.insert(folder.clone(), found[1].to_owned()).is_some() {
                faults.push(format!("{folder} is in two boxes"));
            }
        }
    }
    let arrows: BTreeSet<_> = pairs(&node.replace_all(figure, "$1")).into_iter().collect();
    let mut unused = arrows.clone();
    let folders: BTreeMap<_, _> = members.iter().map(|one| (&one.name, &one.folder)).collect();
    let of_storeys = |member: &&Member| Storey::of(&member.folder) != Storey::Beside;
    for member in members.iter().filter(of_storeys) {
        let Some(from) = boxes.get(&member.folder) else {
            faults.push(format!("{} is in no box", member.folder));
            continue;
        };
        for (used, _) in member.uses.iter().filter(|(_, only_tests)| !**only_tests) {
            let Some(to) = boxes.get(folders[used]) else {
                continue;
            };
            unused.remove(&(from.clone(), to.clone()));
            if from != to && !reachable(&arrows, from).contains(to) {
                faults.push(format!(
                    "no arrow from {from} to {to}: {} uses {used}",
                    member.name
                ));
            }
        }
    }
    faults.extend(
        unused
            .iter()
            .map(|(from, to)| format!("{from} does not use {to}")),
    );
    faults
}

fn figure() -> String {
    let page = fs::read_to_string(root().join("docs/architecture.md")).expect("the page");
    figure_below(&page, "The crates")
}

#[test]
fn the_picture_shows_who_uses_whom() {
    assert_eq!(faults(&figure(), &members()), [""; 0]);
}

#[test]
fn planted_faults_of_the_picture_are_found() {
    let (figure, members) = (figure(), members());
    for (from, to, fault) in [
        (
            "sleep --> images\n",
            "\n",
            "no arrow from sleep to images: ",
        ),
        (
            "--> trees[",
            "--> base\n base --> trees[",
            "base does not use trees",
        ),
        (", vault\"]", "\"]", "portable/vault is in no box"),
        (
            ", vault\"]",
            ", vault, sleep\"]",
            "portable/sleep is in two boxes",
        ),
    ] {
        let planted = figure.replacen(from, to, 1);
        let found = faults(&planted, &members);
        let is_found = found.iter().any(|found| found.starts_with(fault));
        assert!(planted != figure && is_found, "{fault}: {found:#?}");
    }
}
