//! Finds the modules of a crate, and which modules each one names, from the source text.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use regex_lite::Regex;

/// The path of a module or an item in its crate. The crate itself has no segment.
type Names = Vec<String>;

/// The name of a module's own file among the names of its children.
const OWN_FILE: &str = "mod.rs";

/// A declaration of a module, or a re-export.
static JOINT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"mod \w+;|pub(\([a-z]+\))? use [^;]*;").expect("a pattern"));

/// The modules of a crate that have files of their own.
pub(super) struct Modules {
    /// For each path, the file's text without comments and unit tests.
    texts: BTreeMap<Names, String>,
    /// For each name that a `use` introduces into a module, the path that it stands for. `None`: one
    /// of another crate.
    known: BTreeMap<(Names, String), Option<Names>>,
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

    /// For each module, the pairs of its parts in which the first names the second ("a/b names c").
    /// The parts are its child modules and [`OWN_FILE`].
    fn parts(&self) -> BTreeMap<Names, BTreeSet<(String, String)>> {
        let mut edges: BTreeMap<Names, BTreeSet<(String, String)>> = BTreeMap::new();
        for (module, text) in &self.texts {
            let paths = mentions(text).into_iter();
            let mut targets: BTreeSet<_> = paths
                .filter_map(|path| self.module_of(absolute(module, &path, &self.texts)?))
                .filter(|target| !target.starts_with(module))
                .collect();
            targets.extend(self.used_children(module, text));
            for target in targets {
                let common = (module.iter().zip(&target))
                    .take_while(|(a, b)| a == b)
                    .count();
                let part = |path: &Names| path.get(common).cloned().unwrap_or(OWN_FILE.into());
                let edge = (part(module), part(&target));
                let place = module[..common].to_vec();
                edges.entry(place).or_default().insert(edge);
            }
        }
        edges
    }

    /// The modules below `module` that its own code uses. To declare or to re-export is no use.
    fn used_children(&self, module: &Names, text: &str) -> Vec<Names> {
        let own = JOINT.replace_all(text, "");
        let used = words(&own).into_iter().filter_map(|path| {
            let name = (module.clone(), path[0].clone());
            let path = match self.known.get(&name) {
                Some(to) => [to.as_ref()?.as_slice(), &path[1..]].concat(),
                // One word may be a variable with a child's name.
                None if path.len() == 1 => return None,
                None => absolute(module, &path, &self.texts)?,
            };
            let target = self.module_of(path)?;
            (target != *module && target.starts_with(module)).then_some(target)
        });
        used.collect()
    }

    /// The module that contains an item, with re-exports resolved. `None`: another crate has it.
    fn module_of(&self, mut path: Names) -> Option<Names> {
        // A limit, since re-exports may form a circle.
        for _ in 0..8 {
            let depth = (0..=path.len())
                .rev()
                .find(|depth| self.texts.contains_key(&path[..*depth]))
                .unwrap_or(0);
            let module = path[..depth].to_vec();
            let Some(name) = path.get(depth).cloned() else {
                return Some(module);
            };
            match self.known.get(&(module.clone(), name)) {
                Some(None) => return None,
                Some(Some(to)) if *to != path => {
                    path = [to.as_slice(), &path[depth + 1..]].concat();
                }
                _ => return Some(module),
            }
        }
        Some(path)
    }

    /// Groups of modules that name each other in a circle, in the form "a, b in c".
    pub(super) fn circles(&self) -> Vec<String> {
        let mut all = self.parts();
        for edges in all.values_mut() {
            edges.retain(|(from, to)| from != OWN_FILE && to != OWN_FILE);
        }
        let told = |(parent, edges): (Names, _)| {
            let groups = groups(&edges).into_iter();
            let told = groups.map(|group| format!("{} in {}", group.join(", "), name_of(&parent)));
            told.collect::<Vec<_>>()
        };
        all.into_iter().flat_map(told).collect()
    }

    /// Modules whose own file is in a circle with files of its folder, in the form "c (a, b)": it
    /// uses the children, and they use its items.
    pub(super) fn own_circles(&self) -> Vec<String> {
        let told = |(parent, edges): (Names, _)| {
            let own = |group: &Vec<String>| group.iter().any(|name| name == OWN_FILE);
            let mut group = groups(&edges).into_iter().find(own)?;
            group.retain(|name| name != OWN_FILE);
            Some(format!("{} ({})", name_of(&parent), group.join(", ")))
        };
        self.parts().into_iter().filter_map(told).collect()
    }
}

fn name_of(module: &Names) -> String {
    match module.is_empty() {
        true => "crate".into(),
        false => module.join("::"),
    }
}

/// Groups of names that reach each other.
fn groups(edges: &BTreeSet<(String, String)>) -> Vec<Vec<String>> {
    let names: BTreeSet<_> = edges.iter().map(|(from, _)| from).collect();
    let mut groups: Vec<Vec<String>> = Vec::new();
    for name in names {
        let from = reachable(edges, name);
        if from.contains(name) && !groups.iter().flatten().any(|other| other == name) {
            let back = from.into_iter();
            let back = back.filter(|other| reachable(edges, other).contains(name));
            groups.push(back.collect());
        }
    }
    groups
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

/// A comment, a string, or a quotation mark as a character.
static NO_CODE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"(?s)//[^\n]*|'\\?"'|"(?:[^"\\]|\\.)*""#).expect("a pattern"));

/// A file's text without comments and strings, and without the unit tests at its end.
fn product_code(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    NO_CODE.replace_all(&text[..end], "").into_owned()
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

/// All paths in `text`, with their groups resolved.
fn words(text: &str) -> Vec<Names> {
    let mut found = Vec::new();
    let mut before = ' ';
    for (at, letter) in text.char_indices() {
        let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
        if is_word(letter) && !is_word(before) && !":.'".contains(before) {
            found.extend(tree(&text[at..]).into_iter().map(|(path, _)| path));
        }
        before = letter;
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

/// Converts a path to one from the crate's root. `None`: it leads to another crate.
fn absolute(module: &[String], path: &[String], texts: &BTreeMap<Names, String>) -> Option<Names> {
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
    // The first segment of `use child::Item` may be a child of this module.
    let relative = rest.len() == path.len();
    let child = || [module, &path[..1]].concat();
    if relative && !texts.contains_key(&child()) {
        return None;
    }
    Some([base.as_slice(), rest].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules(files: &[(&str, &str)]) -> Modules {
        let module = |path: &str| {
            path.split('/')
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect()
        };
        let files = files
            .iter()
            .map(|(path, text)| (module(path), (*text).to_owned()));
        Modules::of(files.collect())
    }

    #[test]
    fn modules_that_name_one_another_are_found() {
        let found = modules(&[
            ("", "mod a; mod b; mod c;"),
            ("a", "use crate::b::{self, B};"),
            ("b", "fn f() { super::c::g(); }"),
            ("c", "use crate::{x::Y, a as z};"),
        ]);
        assert_eq!(found.circles(), ["a, b, c in crate"]);
        assert_eq!(found.own_circles(), [""; 0]);
    }

    #[test]
    fn a_re_export_hides_nobody() {
        let found = modules(&[
            ("", "mod a; mod b; pub use b::inner::Thing as Other;"),
            ("a", "use crate::Other; pub struct A;"),
            ("b", "pub mod inner;"),
            ("b/inner", "use crate::a::A; pub struct Thing;"),
        ]);
        assert_eq!(found.circles(), ["a, b in crate"]);
    }

    #[test]
    fn a_module_that_only_joins_its_children_is_in_no_circle() {
        let found = modules(&[
            ("", "mod a;"),
            (
                "a",
                "mod one; mod two; use core::fmt; pub(crate) use one::One; pub struct A;",
            ),
            (
                "a/one",
                "use super::{A, fmt}; use super::two::Two; const S: &str = \"super::one\";",
            ),
            (
                "a/two",
                "pub struct Two; // super::one\n#[cfg(test)]\nmod tests {\n use super::super::one::One;\n}",
            ),
        ]);
        assert_eq!(found.circles(), [""; 0]);
        assert_eq!(found.own_circles(), [""; 0]);
    }

    #[test]
    fn a_module_that_uses_the_users_of_its_items_is_found() {
        let uses = [
            "use one::One;",
            "pub use one::One; fn f() { One::new() }",
            "fn f() { one::f(); }",
            "fn f() { self::one::f(); }",
            "use crate::a::one::{self, One};",
        ];
        for one in uses {
            let text = format!("mod one; mod two; pub struct A; {one}");
            let found = modules(&[
                ("", "mod a;"),
                ("a", &text),
                ("a/one", "use super::two::Two;"),
                ("a/two", "use crate::a::A;"),
            ]);
            assert_eq!(found.own_circles(), ["a (one, two)"], "{one}");
            assert_eq!(found.circles(), [""; 0]);
        }
    }
}
