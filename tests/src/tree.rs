//! Damages device trees.

use std::fs;
use std::path::Path;

use anyhow::Context;

/// Damages the device tree in `file` at the start of the node with that name.
pub(crate) fn damage(file: &Path, node: &str) -> anyhow::Result<()> {
    let mut tree = fs::read(file)?;
    let begin = [&1_u32.to_be_bytes(), node.as_bytes(), &[0]].concat();
    let mut windows = tree.windows(begin.len());
    let at = windows.position(|bytes| bytes == begin);
    let at = at.with_context(|| format!("no node {node}"))?;
    tree[at..at + 4].fill(0xee);
    Ok(fs::write(file, tree)?)
}
