//! The rules of English that a machine can check (CONTRIBUTING.md, "English"), the length of
//! the pages, and the links between them.

use std::collections::BTreeSet;
use std::fs;

use regex_lite::Regex;

use super::root;
use crate::prose::{self, Kind, Sentence};

/// Words that hide the actor, the quantity or the time, and the remedy for each.
const BANNED: [(&str, &str); 5] = [
    ("nobody|somebody|anybody|whoever", "name the actor"),
    ("whatever", "name it"),
    ("so many|so much|as many|as much", "a number, or \"each\""),
    ("(is|are|was|were|be) none", "\"no\" and the noun"),
    (
        r"behind (a|an|the|each|every|any|this|that|it|its|another) (\w+ )?(sleep|cut|wake|reset|power-on|power-off|persist|retain|start|save|load|boot|restore|snapshot|commit)s?",
        "\"after\" for time",
    ),
];

/// The most words of a sentence.
const MOST_WORDS: usize = 25;

/// The most words of each page, as counted by `wc -w`.
const MOST_OF_PAGE: [(&str, usize); 3] = [
    ("docs/architecture.md", 2540),
    ("docs/cut.md", 2500),
    ("docs/testing.md", 1500),
];

/// The most words outside of tables of the page whose tables are results.
const MOST_OF_RESULTS: (&str, usize) = ("docs/memory.md", 1500);

/// The most words of all pages together, without tables and code.
const MOST_OF_ALL: usize = 21_600;

fn judge(sentence: &Sentence, banned: &[(Regex, &str)]) -> Vec<String> {
    let Sentence {
        file, line, text, ..
    } = sentence;
    let mut faults = Vec::new();
    let outside = without_code(text);
    for (pattern, instead) in banned {
        if let Some(found) = pattern.find(&outside) {
            faults.push(format!(
                "{file}:{line}: {:?}: {instead}: {text}",
                found.as_str()
            ));
        }
    }
    let words = sentence.words();
    if words > MOST_WORDS {
        faults.push(format!("{file}:{line}: {words} words: {text}"));
    }
    faults
}

fn banned() -> Vec<(Regex, &'static str)> {
    let pattern = |words| Regex::new(&format!(r"\b({words})\b")).expect("a pattern");
    BANNED
        .map(|(words, instead)| (pattern(words), instead))
        .into()
}

fn without_code(text: &str) -> String {
    let outside = text.split('`').step_by(2);
    outside.collect::<Vec<_>>().join("`")
}

#[test]
fn prose_keeps_the_rules() {
    let sentences = prose::sentences(root()).expect("git runs");
    assert!(sentences.len() > 5000, "all sources are read");
    let banned = banned();
    let faults: Vec<_> = sentences
        .iter()
        .flat_map(|one| judge(one, &banned))
        .collect();
    assert!(faults.is_empty(), "{} faults: {faults:#?}", faults.len());
}

#[test]
fn a_planted_fault_is_found() {
    let found = |kind, file: &str, text: &str| -> usize {
        let sentences = prose::sentences_of(file, kind, text);
        sentences
            .iter()
            .flat_map(|one| judge(one, &banned()))
            .count()
    };
    let page = "# So many\n\nIt starts. Nobody\nknows `so many` of it.\n\n| `so many` |\n|---|\n";
    assert_eq!(
        found(Kind::Doc, "a.md", page),
        0,
        "headings and code are not judged"
    );
    assert_eq!(found(Kind::Doc, "a.md", "| a | so many |\n|---|---|\n"), 1);
    assert_eq!(found(Kind::Doc, "a.md", "It starts, and nobody\nknows."), 1);
    let source = "/// It runs, whatever comes, behind the next sleep.\nfn f() { say(\"as many as there are\") }\nmod tests {\n// nobody\n";
    assert_eq!(found(Kind::Comment, "a.rs", source), 3);
    let long = "word ".repeat(MOST_WORDS + 1);
    assert_eq!(found(Kind::Doc, "a.md", &long), 1);
    let halves = format!("{}; {}", "word ".repeat(20).trim(), "word ".repeat(20));
    assert_eq!(found(Kind::Doc, "a.md", &halves), 0);
}

/// The pages, with their texts.
fn pages() -> Vec<(String, String)> {
    let files = prose::files(root()).expect("git runs");
    let pages = files.into_iter().filter(|file| file.ends_with(".md"));
    pages
        .filter_map(|file| Some((file.clone(), fs::read_to_string(root().join(file)).ok()?)))
        .collect()
}

#[test]
fn pages_stay_short() {
    let pages = pages();
    for (name, most) in MOST_OF_PAGE {
        let page = pages.iter().find(|(file, _)| file == name);
        let words = page.map(|(_, text)| text.split_whitespace().count());
        assert!(
            words.is_some_and(|words| words <= most),
            "{name}: {words:?} of {most} words"
        );
    }
    let (name, most) = MOST_OF_RESULTS;
    let page = pages.iter().find(|(file, _)| file == name);
    let words = page.map(|(_, text)| words_outside_tables(text));
    assert!(
        words.is_some_and(|words| words <= most),
        "{name}: {words:?} of {most} words"
    );
    let all: usize = (pages.iter().filter(|(file, _)| file != "CHANGELOG.md"))
        .map(|(_, text)| words_outside_tables(text))
        .sum();
    assert!(all <= MOST_OF_ALL, "{all} of {MOST_OF_ALL} words");
}

fn words_outside_tables(text: &str) -> usize {
    let mut is_code = false;
    let lines = text.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence && !line.starts_with('|')
    });
    lines.map(|line| line.split_whitespace().count()).sum()
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| -> String {
        let title = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = |letter: &char| letter.is_alphanumeric() || " -_".contains(*letter);
        title
            .chars()
            .filter(kept)
            .map(|letter| if letter == ' ' { '-' } else { letter })
            .collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn links_lead_somewhere() {
    let pages = pages();
    let link = Regex::new(r"\]\(([^)\s]+)\)").expect("a pattern");
    let mut broken = Vec::new();
    for (file, text) in &pages {
        for target in link.captures_iter(text).map(|found| found[1].to_owned()) {
            if target.contains("://") {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let folder = root().join(file);
            let place = if path.is_empty() {
                folder.clone()
            } else {
                folder.with_file_name(path)
            };
            let is_there = match fs::read_to_string(&place) {
                Ok(page) => anchor.is_empty() || anchors(&page).contains(anchor),
                Err(_) => place.is_dir(),
            };
            if !is_there {
                broken.push(format!("{file}: {target}"));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}
