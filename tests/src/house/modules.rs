//! Finds the modules of a crate, and which modules each one names, from the source text.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The path of a module or an item in its crate. The crate itself has no segment.
type Names = Vec<String>;

/// The modules of a crate that have files of their own.
pub(super) struct Modules {
    /// For each path, the file's text without comments and unit tests.
    texts: BTreeMap<Names, String>,
    /// For each name that a `use` introduces into a module, the path that it stands for.
    known: BTreeMap<(Names, String), Names>,
}

impl Modules {
    /// Reads the sources in the folder `src` of a crate.
    pub(super) fn read(src: &Path) -> Self {
        let mut texts = BTreeMap::new();
        collect(src, &[], &mut texts);
        Self::of(texts)
    }

    /// Builds the modules from their texts.
    pub(super) fn of(texts: BTreeMap<Names, String>) -> Self {
        let texts: BTreeMap<_, _> = (texts.into_iter())
            .map(|(module, text)| (module, product_code(&text)))
            .collect();
        let mut known = BTreeMap::new();
        for (module, text) in &texts {
            for (at, _) in text.match_indices("use ") {
                if at > 0 && text.as_bytes()[at - 1].is_ascii_alphanumeric() {
                    continue;
                }
                for (path, name) in tree(&text[at + 4..]) {
                    let path = absolute(module, &path, &texts);
                    known.insert((module.clone(), name), path);
                }
            }
        }
        Modules { texts, known }
    }

    /// For each module, the pairs of its child modules in which the first names the second ("a/b
    /// names c").
    fn siblings(&self) -> BTreeMap<Names, BTreeSet<(String, String)>> {
        let mut edges: BTreeMap<Names, BTreeSet<(String, String)>> = BTreeMap::new();
        for (module, text) in &self.texts {
            for path in mentions(text) {
                let target = self.module_of(absolute(module, &path, &self.texts));
                let common = module
                    .iter()
                    .zip(&target)
                    .take_while(|(a, b)| a == b)
                    .count();
                if common < module.len() && common < target.len() {
                    let edge = (module[common].clone(), target[common].clone());
                    edges
                        .entry(module[..common].to_vec())
                        .or_default()
                        .insert(edge);
                }
            }
        }
        edges
    }

    /// The module that contains an item, with re-exports resolved.
    fn module_of(&self, mut path: Names) -> Names {
        // A limit, since re-exports may form a circle.
        for _ in 0..8 {
            let depth = (0..=path.len())
                .rev()
                .find(|depth| self.texts.contains_key(&path[..*depth]))
                .unwrap_or(0);
            let module = path[..depth].to_vec();
            let Some(name) = path.get(depth).cloned() else {
                return module;
            };
            match self.known.get(&(module.clone(), name)) {
                Some(to) if *to != path => {
                    path = [to.as_slice(), &path[depth + 1..]].concat();
                }
                _ => return module,
            }
        }
        path
    }

    /// Groups of modules that name each other in a circle, in the form "a, b in c".
    pub(super) fn circles(&self) -> Vec<String> {
        let mut circles = Vec::new();
        for (parent, edges) in self.siblings() {
            let names: BTreeSet<_> = edges.iter().flat_map(|(a, b)| [a, b]).collect();
            let mut told = BTreeSet::new();
            for name in &names {
                let from = reachable(&edges, name);
                if !from.contains(*name) || told.contains(*name) {
                    continue;
                }
                let together: Vec<_> = (from.iter())
                    .filter(|other| reachable(&edges, other).contains(*name))
                    .cloned()
                    .collect();
                told.extend(together.iter().cloned());
                let place = if parent.is_empty() {
                    "crate".into()
                } else {
                    parent.join("::")
                };
                circles.push(format!("{} in {place}", together.join(", ")));
            }
        }
        circles
    }
}

pub(super) fn reachable(edges: &BTreeSet<(String, String)>, start: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![start.to_owned()];
    while let Some(name) = open.pop() {
        for (_, to) in edges.iter().filter(|(from, _)| *from == name) {
            if found.insert(to.clone()) {
                open.push(to.clone());
            }
        }
    }
    found
}

fn collect(folder: &Path, module: &[String], texts: &mut BTreeMap<Names, String>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        let stem = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if path.is_dir() {
            // Files in `bin` are programs of their own.
            if stem != "bin" {
                collect(&path, &[module, &[stem]].concat(), texts);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let own = match stem.as_str() {
                "lib" | "main" | "mod" => module.to_vec(),
                _ => [module, &[stem]].concat(),
            };
            let text = fs::read_to_string(&path).expect("text");
            texts.entry(own).or_default().push_str(&text);
        }
    }
}

/// A file's text without comments, and without the unit tests at its end.
fn product_code(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    let lines = text[..end].lines();
    lines
        .map(|line| line.split("//").next().unwrap_or(""))
        .collect::<Vec<_>>()
        .join("\n")
}

/// All paths in `text` that begin in the crate.
fn mentions(text: &str) -> Vec<Names> {
    let mut found = Vec::new();
    for word in ["crate::", "super::"] {
        for (at, _) in text.match_indices(word) {
            let before = text[..at].chars().next_back().unwrap_or(' ');
            if before.is_alphanumeric() || before == '_' || before == ':' || before == '$' {
                continue;
            }
            found.extend(tree(&text[at..]).into_iter().map(|(path, _)| path));
        }
    }
    found
}

/// The paths of a tree as in `use a::{b, c as d}`, each with the name that it introduces. A glob
/// introduces none.
fn tree(text: &str) -> Vec<(Names, String)> {
    let mut found = Vec::new();
    branch(text.trim_start(), &[], &mut found);
    found
}

/// Reads one branch. Returns the bytes of `text` that it takes.
fn branch(text: &str, above: &[String], found: &mut Vec<(Names, String)>) -> usize {
    let mut path = above.to_vec();
    let mut at = 0;
    loop {
        let rest = &text[at..];
        if let Some(group) = rest.strip_prefix('{') {
            return at + 1 + branches(group, &path, found);
        }
        let length = rest
            .find(|letter: char| !letter.is_alphanumeric() && letter != '_')
            .unwrap_or(rest.len());
        if length == 0 {
            return at;
        }
        path.push(rest[..length].to_owned());
        at += length;
        match text[at..].strip_prefix("::") {
            Some(next)
                if next.starts_with(|l: char| l.is_alphanumeric() || l == '_' || l == '{') =>
            {
                at += 2;
            }
            _ => break,
        }
    }
    let name = path.last().cloned().unwrap_or_default();
    let name = match text[at..].trim_start().strip_prefix("as ") {
        Some(alias) => {
            let end = alias.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
            alias[..end.unwrap_or(alias.len())].to_owned()
        }
        None => name,
    };
    found.push((path, name));
    at
}

/// Reads the branches between braces, after the opening one.
fn branches(text: &str, above: &[String], found: &mut Vec<(Names, String)>) -> usize {
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let skipped = rest.len()
            - rest
                .trim_start_matches(|l: char| l.is_whitespace() || l == ',')
                .len();
        at += skipped;
        if text[at..].starts_with('}') {
            return at + 1;
        }
        let taken = branch(&text[at..], above, found);
        // Skips an alias, or text that cannot be a path.
        at += taken
            + text[at + taken..]
                .find([',', '}'])
                .unwrap_or(text.len() - at - taken);
    }
    at
}

/// Converts a path to one from the crate's root.
fn absolute(module: &[String], path: &[String], texts: &BTreeMap<Names, String>) -> Names {
    let mut base = module.to_vec();
    let mut rest = path;
    while let Some((first, behind)) = rest.split_first() {
        match first.as_str() {
            "crate" => base.clear(),
            "self" => {}
            "super" => drop(base.pop()),
            _ => break,
        }
        rest = behind;
    }
    // The first segment of `use child::Item` may be a child of this module. Paths of other crates
    // are not found.
    let relative = rest.len() == path.len();
    let child = || [module, &path[..1]].concat();
    if relative && !texts.contains_key(&child()) {
        return Names::new();
    }
    [base.as_slice(), rest].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        let module = |path: &str| {
            path.split('/')
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect()
        };
        let files = files
            .iter()
            .map(|(path, text)| (module(path), (*text).to_owned()));
        Modules::of(files.collect()).circles()
    }

    #[test]
    fn modules_that_name_one_another_are_found() {
        let found = circles(&[
            ("", "mod a; mod b; mod c;"),
            ("a", "use crate::b::{self, B};"),
            ("b", "fn f() { super::c::g(); }"),
            ("c", "use crate::{x::Y, a as z};"),
        ]);
        assert_eq!(found, ["a, b, c in crate"]);
    }

    #[test]
    fn a_re_export_hides_nobody() {
        let found = circles(&[
            ("", "mod a; mod b; pub use b::inner::Thing as Other;"),
            ("a", "use crate::Other; pub struct A;"),
            ("b", "pub mod inner;"),
            ("b/inner", "use crate::a::A; pub struct Thing;"),
        ]);
        assert_eq!(found, ["a, b in crate"]);
    }

    #[test]
    fn a_module_and_its_own_children_are_no_circle() {
        let found = circles(&[
            ("", "mod a;"),
            ("a", "mod one; mod two; use one::One; pub struct A;"),
            (
                "a/one",
                "use super::A; use super::two::Two; // super::two names super::one",
            ),
            (
                "a/two",
                "pub struct Two;\n#[cfg(test)]\nmod tests {\n use super::super::one::One;\n}",
            ),
        ]);
        assert_eq!(found, [""; 0]);
    }
}
