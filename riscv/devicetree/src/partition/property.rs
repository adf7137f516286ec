//! Properties of a partition's nodes. A wrong length is an error.

use dtoolkit::Node;
use dtoolkit::fdt::FdtNode;

use super::error::PartitionError;
use crate::node::{bytes_of, name_of};

/// A property of one cell.
pub(super) fn word(
    node: FdtNode<'_>,
    property: &'static str,
) -> Result<Option<u32>, PartitionError> {
    let mut cells = optional_cells(node, property)?;
    match (
        node.property(property).is_some(),
        cells.next(),
        cells.next(),
    ) {
        (false, ..) => Ok(None),
        (true, Some(word), None) => Ok(Some(word)),
        _ => Err(malformed(node, property)),
    }
}

/// A property of two cells.
pub(super) fn double(
    node: FdtNode<'_>,
    property: &'static str,
) -> Result<Option<u64>, PartitionError> {
    let Some(value) = node.property(property) else {
        return Ok(None);
    };
    let bytes = bytes_of(value).try_into();
    let bytes = bytes.map_err(|_| malformed(node, property))?;
    Ok(Some(u64::from_be_bytes(bytes)))
}

/// The cells of a property, which may be absent.
pub(super) fn optional_cells<'a>(
    node: FdtNode<'a>,
    property: &'static str,
) -> Result<impl Iterator<Item = u32> + Clone + use<'a>, PartitionError> {
    let bytes = node.property(property).map(bytes_of).unwrap_or_default();
    let (cells, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(malformed(node, property));
    }
    Ok(cells.iter().map(|bytes| u32::from_be_bytes(*bytes)))
}

/// The cells of a property, at least one.
pub(super) fn whole_cells<'a>(
    node: FdtNode<'a>,
    property: &'static str,
) -> Result<impl Iterator<Item = u32> + Clone + use<'a>, PartitionError> {
    let cells = optional_cells(node, property)?;
    match cells.clone().next() {
        Some(_) => Ok(cells),
        None => Err(malformed(node, property)),
    }
}

pub(super) fn missing(node: FdtNode<'_>, property: &'static str) -> PartitionError {
    PartitionError::Missing {
        node: name_of(node),
        property,
    }
}

pub(super) fn malformed(node: FdtNode<'_>, property: &'static str) -> PartitionError {
    PartitionError::Malformed {
        node: name_of(node),
        property,
    }
}

pub(super) fn unknown(node: FdtNode<'_>, property: &'static str, phandle: u32) -> PartitionError {
    PartitionError::UnknownPhandle {
        node: name_of(node),
        property,
        phandle,
    }
}
