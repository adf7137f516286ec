use std::path::PathBuf;

use crate::compare::Size;
use crate::cut::Assumptions;

/// Options of measurements.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    pub firmware: PathBuf,
    /// Folder for disks. The caller removes it.
    pub folder: PathBuf,
    /// Number of sleeps and wakes.
    pub rounds: u32,
    /// Use fewer machines, for a short run.
    pub quick: bool,
    /// The kernel that is the guest when sealing is measured.
    pub test_kernel: PathBuf,
    /// The critical guest's program.
    pub critical: PathBuf,
    /// MiB of that guest's memory that are in use.
    pub sealed_mib: u32,
    /// The machines of the comparison.
    pub sizes: Vec<Size>,
    /// What is assumed of machines that are cut.
    pub assumed: Assumptions,
    /// Number of harts of these machines.
    pub harts: u32,
}
