//! Instants at which the power fails: executions of the code that was compiled from a source file
//! of the firmware, or of a symbol.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use gimli::{Dwarf, EndianSlice, LineProgramHeader, LittleEndian, UnitRef};
use object::{Object, ObjectSection, ObjectSymbol, SectionKind};
use serde::Deserialize;

/// The code at whose execution the power fails.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instant {
    /// The end of a source file's path, such as `sbi/hsm.rs`; or a symbol, of which the first
    /// instructions count; or `all` of machine mode.
    #[serde(rename = "in")]
    within: String,
    /// The least number of these instructions that are executed before the power fails.
    #[serde(default)]
    least: u64,
    /// The most. The number is random, from `least` to `most`.
    most: u64,
}

/// Bytes of code that count after a symbol. By then entry.S has saved a hart's registers.
const SYMBOL_BYTES: u64 = 128;

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

impl Instant {
    /// The plugin's arguments. `name` is the start of their names: `signal` or `again`.
    ///
    /// # Errors
    ///
    /// The firmware file has no such code.
    pub(crate) fn arguments(&self, name: &str, firmware: &Path) -> anyhow::Result<String> {
        let count = fastrand::u64(self.least..=self.most) + 1;
        let ranges = find(firmware, &self.within)?;
        let ranges = ranges
            .iter()
            .map(|Range { start, end }| format!("{start:#x}-{end:#x}"));
        let ranges: Vec<_> = ranges.collect();
        Ok(format!(
            "{name}-pc={},{name}-count={count}",
            ranges.join("+")
        ))
    }
}

/// The address of a symbol.
///
/// # Errors
///
/// The firmware file has no such symbol.
pub(crate) fn symbol(firmware: &Path, name: &str) -> anyhow::Result<u64> {
    Ok(find(firmware, name)?[0].start)
}

/// The addresses of a source file's or a symbol's code: ascending ranges that do not touch.
fn find(firmware: &Path, within: &str) -> anyhow::Result<Vec<Range<u64>>> {
    let bytes = fs::read(firmware).with_context(|| firmware.display().to_string())?;
    let elf = object::File::parse(&*bytes)?;
    let found = match within {
        "all" => of_all(&elf),
        source if source.contains('.') => of_source(&elf, source)?,
        symbol => of_symbol(&elf, symbol),
    };
    let found = in_order(found);
    ensure!(!found.is_empty(), "the firmware has no {within}");
    Ok(found)
}

fn of_all(elf: &object::File<'_>) -> Vec<Range<u64>> {
    let code = elf
        .sections()
        .filter(|section| section.kind() == SectionKind::Text);
    let ranges = code.map(|code| code.address()..code.address() + code.size());
    ranges.collect()
}

fn of_symbol(elf: &object::File<'_>, name: &str) -> Vec<Range<u64>> {
    let symbol = elf.symbols().find(|symbol| symbol.name() == Ok(name));
    let start = symbol.map(|symbol| symbol.address());
    start
        .map(|start| start..start + SYMBOL_BYTES)
        .into_iter()
        .collect()
}

fn of_source(elf: &object::File<'_>, path: &str) -> anyhow::Result<Vec<Range<u64>>> {
    let load = |id: gimli::SectionId| {
        let section = elf.section_by_name(id.name());
        let data = section.map_or(Ok(&[][..]), |section| section.data())?;
        Ok::<_, object::Error>(EndianSlice::new(data, LittleEndian))
    };
    let dwarf = Dwarf::load(load)?;
    let mut units = dwarf.units();
    let mut found = Vec::new();
    while let Some(header) = units.next()? {
        let unit = dwarf.unit(header)?;
        found.extend(of_unit(unit.unit_ref(&dwarf), path)?);
    }
    Ok(found)
}

/// The addresses of a source file's code in one compilation unit. A row of the line table reaches
/// to the next row.
fn of_unit(unit: UnitRef<'_, Bytes<'_>>, path: &str) -> anyhow::Result<Vec<Range<u64>>> {
    let Some(program) = unit.line_program.clone() else {
        return Ok(Vec::new());
    };
    let mut rows = program.rows();
    let (mut found, mut open) = (Vec::new(), None);
    while let Some((header, row)) = rows.next_row()? {
        if let Some(start) = open.take()
            && start < row.address()
        {
            found.push(start..row.address());
        }
        // A path's end matches by whole names only.
        let is_there = !row.end_sequence()
            && name_of(unit, header, row.file_index())?.is_some_and(|name| name.ends_with(path));
        open = is_there.then(|| row.address());
    }
    Ok(found)
}

/// The path of a source file in a unit.
fn name_of<'a>(
    unit: UnitRef<'_, Bytes<'a>>,
    header: &LineProgramHeader<Bytes<'a>>,
    index: u64,
) -> gimli::Result<Option<PathBuf>> {
    let Some(file) = header.file(index) else {
        return Ok(None);
    };
    let text = |value| {
        let text = unit.attr_string(value)?;
        Ok::<_, gimli::Error>(text.to_string_lossy().into_owned())
    };
    let folder = file.directory(header).map(text).transpose()?;
    let name = text(file.path_name())?;
    Ok(Some(PathBuf::from(folder.unwrap_or_default()).join(name)))
}

/// Sorts ranges, and joins those that touch.
fn in_order(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_are_one() {
        let ranges = vec![8..9, 1..3, 3..4, 2..3, 6..7];
        assert_eq!(in_order(ranges), [1..4, 6..7, 8..9]);
    }

    #[test]
    fn code_is_found_by_its_source() {
        let own = std::env::current_exe().unwrap();
        let found = find(&own, "src/instant.rs").unwrap();
        assert!(!found.is_empty());
        let wrong = find(&own, "src/not_there.rs").unwrap_err().to_string();
        assert!(wrong.contains("no src/not_there.rs"), "{wrong}");
    }
}
