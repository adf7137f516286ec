//! Stop and Go: what they take on measured machines, and on planned ones.

mod counted;
#[cfg(test)]
pub(crate) mod fake;
mod figures;
mod inputs;
mod lines;
mod machine;
mod measure;
mod plan;
mod results;
mod supply;
mod traced;
mod work;

pub use counted::{Figures, MOST_GO, MOST_STOP, measure as count};
pub use figures::{Bound, PARTS, bounds, ms, parts};
pub use inputs::Inputs;
pub use machine::{Load, Subject};
pub use measure::{CutOptions, measure, subjects};
pub use plan::{
    MOST_CACHE, MOST_CORES, MOST_FUNCTIONS, Plan, PlanError, Question, plan, written_back,
};
pub use results::Cuts;
pub use supply::{SUPPLIES, Supply, SupplyError};
pub use traced::{Assumptions, Cut, Measured, Phase};
pub use work::Work;
