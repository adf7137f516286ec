//! The project's prose, sentence by sentence: its docs, and the comments and messages of the
//! product. The house tests judge it, and `make sentences` draws from it.

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;
use std::{fs, io};

use regex_lite::Regex;

/// The kind of text that contains a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A page of the documentation.
    Doc,
    /// A comment of the product.
    Comment,
    /// A string of the product with at least three words.
    Message,
}

/// A sentence with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentence {
    /// Path of the file in the repository.
    pub file: String,
    /// The line at which its paragraph begins.
    pub line: usize,
    /// The kind of text that contains it.
    pub kind: Kind,
    /// Its words. Code is unchanged, and the addresses of links are left out.
    pub text: String,
}

impl Sentence {
    /// The number of words in its longest part. A colon or a semicolon ends a part, and code
    /// between backticks counts as one word.
    #[must_use]
    pub fn words(&self) -> usize {
        let mut outside = String::new();
        for (number, part) in self.text.split('`').enumerate() {
            outside.push_str(if number % 2 == 0 { part } else { "x" });
        }
        let (mut most, mut words) = (0, 0);
        for word in outside.split_whitespace() {
            words += 1;
            most = most.max(words);
            if word.ends_with([':', ';']) {
                words = 0;
            }
        }
        most
    }
}

/// A string literal of Rust, in one line.
static STRING: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#""((?:[^"\\]|\\.)*)""#).expect("a pattern"));

/// The end of a link's text, and its address.
static LINK_ADDRESS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\]\([^)]*\)").expect("a pattern"));

/// A paragraph: the line at which it begins, and its text.
type Paragraph = (usize, String);

/// All sentences of the docs and the product.
///
/// # Errors
///
/// git does not run, or a file cannot be read.
pub fn sentences(root: &Path) -> io::Result<Vec<Sentence>> {
    let mut all = Vec::new();
    for file in files(root)? {
        let Some(kind) = kind_of(&file) else {
            continue;
        };
        // git also lists a file whose removal is not committed yet.
        let Ok(text) = fs::read_to_string(root.join(&file)) else {
            continue;
        };
        all.extend(sentences_of(&file, kind, &text));
    }
    Ok(all)
}

/// The sentences of one file.
pub(crate) fn sentences_of(file: &str, kind: Kind, text: &str) -> Vec<Sentence> {
    let paragraphs = match kind {
        Kind::Doc => of_page(text).into_iter().map(|one| (kind, one)).collect(),
        Kind::Comment | Kind::Message => of_source(file, text),
    };
    let mut all = Vec::new();
    for (kind, (line, paragraph)) in paragraphs {
        all.extend(split(&paragraph).into_iter().map(|text| Sentence {
            file: file.to_owned(),
            line,
            kind,
            text,
        }));
    }
    all
}

/// The files in git's index.
///
/// # Errors
///
/// git does not run, or fails.
pub(crate) fn files(root: &Path) -> io::Result<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(root)
        .output()?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(io::Error::other(error));
    }
    let names = String::from_utf8_lossy(&output.stdout).into_owned();
    let names = names.split('\0').filter(|name| !name.is_empty());
    Ok(names.map(str::to_owned).collect())
}

/// The kind of a file's prose; `None`: the file is not read, as it is a test, the changelog, a
/// licence or data.
fn kind_of(file: &str) -> Option<Kind> {
    let is_test = |part: &str| part == "tests" || part == "fuzz" || part.starts_with("fake");
    if file.split('/').any(is_test) || file.ends_with("/tests.rs") {
        return None;
    }
    let page = file.strip_suffix(".md");
    match page {
        Some("CHANGELOG") => None,
        Some(_) => Some(Kind::Doc),
        None if [".rs", ".S", ".ld"].iter().any(|end| file.ends_with(end)) => Some(Kind::Comment),
        None if file == "Makefile" || file.starts_with("tools/") => Some(Kind::Comment),
        None => None,
    }
}

/// The paragraphs of a page: its list items and the cells of its tables, too, but no headings and no
/// code.
fn of_page(text: &str) -> Vec<Paragraph> {
    let mut all = Vec::new();
    let mut current: Option<Paragraph> = None;
    let mut is_code = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.starts_with("```") {
            is_code = !is_code;
        }
        if is_code || line.is_empty() || line.starts_with(['|', '#', '`', '<', '!']) {
            all.extend(current.take());
            if !is_code && line.starts_with('|') {
                all.extend(cells(line).into_iter().map(|cell| (number, cell)));
            }
            continue;
        }
        let item = line.strip_prefix("- ").or_else(|| {
            let (number, rest) = line.split_once(". ")?;
            number.parse::<u32>().ok().map(|_| rest)
        });
        if item.is_some() {
            all.extend(current.take());
        }
        extend(&mut current, number, item.unwrap_or(line));
    }
    all.extend(current);
    all
}

/// The cells of a table's row.
fn cells(row: &str) -> Vec<String> {
    // A bar in code has a backslash.
    let row = row.replace("\\|", "/");
    let cells = row.split('|').map(|cell| cell.trim().to_owned());
    cells
        .filter(|cell| cell.contains(char::is_alphabetic))
        .collect()
}

/// The comments and messages of a source file, without its unit tests.
fn of_source(file: &str, text: &str) -> Vec<(Kind, Paragraph)> {
    let is_rust = file.ends_with(".rs");
    let marks: &[&str] = match is_rust || file.ends_with(".S") || file.ends_with(".ld") {
        true => &["///", "//!", "//", "/*", "* "],
        false => &["#"],
    };
    let mut all = Vec::new();
    let mut current = None;
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim() == "mod tests {" {
            break;
        }
        let comment = marks
            .iter()
            .find_map(|mark| line.trim_start().strip_prefix(mark));
        if let Some(comment) = comment.map(str::trim).filter(|text| !text.is_empty()) {
            if comment.starts_with(['-', '|', '#', '*']) {
                all.extend(current.take().map(|one| (Kind::Comment, one)));
            }
            extend(&mut current, number, comment.trim_start_matches("- "));
            continue;
        }
        all.extend(current.take().map(|one| (Kind::Comment, one)));
        if is_rust {
            let strings = STRING.captures_iter(line);
            let strings = strings.map(|found| found[1].to_owned());
            let told = strings.filter(|text| text.split_whitespace().count() > 2);
            all.extend(told.map(|text| (Kind::Message, (number, text))));
        }
    }
    all.extend(current.map(|one| (Kind::Comment, one)));
    all
}

fn extend(current: &mut Option<Paragraph>, line: usize, text: &str) {
    let (_, all) = current.get_or_insert((line, String::new()));
    if !all.is_empty() {
        all.push(' ');
    }
    all.push_str(text);
}

/// The sentences of a paragraph.
fn split(paragraph: &str) -> Vec<String> {
    let paragraph = LINK_ADDRESS.replace_all(paragraph, "]");
    let mut all = vec![String::new()];
    for word in paragraph.split_whitespace() {
        let last = all.last_mut().expect("there is one");
        if !last.is_empty() {
            last.push(' ');
        }
        last.push_str(word);
        if word
            .trim_end_matches(['*', ')', '"'])
            .ends_with(['.', '!', '?'])
        {
            all.push(String::new());
        }
    }
    all.retain(|text| !text.is_empty());
    all
}
