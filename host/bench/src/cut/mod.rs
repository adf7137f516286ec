//! Stop and Go: what they take on measured machines, and on planned ones.

mod plan;
mod supply;
mod work;

pub use plan::{MOST_CACHE, MOST_CORES, MOST_FUNCTIONS, Plan, PlanError, Question, plan};
pub use supply::{SUPPLIES, Supply, SupplyError};
pub use work::Work;
