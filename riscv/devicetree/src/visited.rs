use dtoolkit::Node;
use dtoolkit::fdt::FdtNode;

/// The place of a visited node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    /// The console's path.
    pub(crate) console: Option<&'a str>,
    /// The number of buses above it, without the root.
    pub(crate) depth: u8,
    /// These map its addresses to those of the CPU.
    pub(crate) is_mapped: bool,
}

impl Place<'_> {
    /// The place of the nodes below this one.
    pub(crate) fn below(self, node: FdtNode<'_>) -> Self {
        let is_bus = || node.children().next().is_some();
        Place {
            depth: self.depth + 1,
            is_mapped: self.is_mapped && is_bus() && node.property("ranges").is_some(),
            ..self
        }
    }
}
