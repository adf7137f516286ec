//! Words that were replaced by the field's own (docs/terminology.md). This test keeps them from
//! coming back with old branches and old habits.

use std::fs;
use std::path::Path;

use crate::prose;

/// A retired word or phrase, and its replacement.
type Retired = (&'static str, &'static str);

/// Whole words are compared, with upper and lower case as here.
const RETIRED: [Retired; 30] = [
    ("Epitaph", "PanicLine"),
    ("epitaph", "panic line"),
    ("Progression", "StridedFill"),
    ("Progressions", "StridedFills"),
    ("progression", "strided fill"),
    ("progressions", "strided fills"),
    ("Doubt", "FreeListError"),
    ("Crew", "Workers"),
    ("crew", "worker harts"),
    ("is_leads", "is_coordinators"),
    ("Lookout", "ScanCursor"),
    ("lookout", "ScanCursor"),
    ("Scouts", "LookAhead"),
    ("scouts", "LookAhead"),
    ("Stretch", "ScanBlock"),
    ("Loan", "BarMapper"),
    ("loan", "device handle"),
    ("Lent", "BarMapping"),
    ("hand_on", "fixup"),
    ("HandOnError", "FixupError"),
    ("PartitionGuard", "PartitionFingerprint"),
    ("PartitionGuards", "PartitionFingerprints"),
    ("Standing", "BootAttempts"),
    ("Spoilt", "PartiallyRestored"),
    ("spoilt", "partially restored"),
    ("SWITCHES", "RESET_CONTROL"),
    ("power::give_up", "power::fatal"),
    ("come by", "reached"),
    ("comes by", "reaches"),
    ("answer its bell", "handle its IPI"),
];

/// Files that may contain them: this list and the history.
const LEFT_OUT: [&str; 2] = ["tests/src/house/words.rs", "CHANGELOG.md"];

/// The retired words in `text`, each with its line.
fn found(name: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for (word, now) in RETIRED {
            if has_word(line, word) {
                found.push(format!("{name}:{number}: {word:?} is {now:?} now"));
            }
        }
    }
    found
}

fn has_word(line: &str, word: &str) -> bool {
    let is_part =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let bytes = line.as_bytes();
    line.match_indices(word).any(|(at, _)| {
        let before = at.checked_sub(1).and_then(|at| bytes.get(at));
        !is_part(before) && !is_part(bytes.get(at + word.len()))
    })
}

/// The files that are checked: code, pages and the Makefile.
fn sources(root: &Path) -> Vec<String> {
    let ends = [".rs", ".S", ".ld", ".md", "Makefile"];
    let mut files = prose::files(root).expect("git runs");
    files.retain(|file| ends.iter().any(|end| file.ends_with(end)));
    files
}

#[test]
fn retired_words_stay_away() {
    let root = super::root();
    let sources = sources(root);
    assert!(sources.len() > 200, "all sources are listed");
    let mut all = Vec::new();
    for name in sources {
        if LEFT_OUT.contains(&name.as_str()) {
            continue;
        }
        // git also lists a file whose removal is not committed yet.
        if let Ok(text) = fs::read_to_string(root.join(&name)) {
            all.extend(found(&name, &text));
        }
    }
    assert!(all.is_empty(), "{all:#?}");
}

#[test]
fn a_planted_word_is_found() {
    let text = "a\nlet doubt = Doubt::NoNote; // that was come by\n";
    let wanted = [
        "a.rs:2: \"Doubt\" is \"FreeListError\" now",
        "a.rs:2: \"come by\" is \"reached\" now",
    ];
    assert_eq!(found("a.rs", text), wanted);
    assert_eq!(
        found("a.rs", "Doubts, undoubted, is_Doubt, outcome bytes"),
        [""; 0]
    );
}
