//! The demos: a Debian machine sleeps with the power off and wakes where it was, another machine
//! resumes after power failures, and two domains sleep together.

mod compare;
mod cut;
mod domains;
mod figures;
mod lost;
mod machine;
mod screen;
mod stage;

pub(crate) use cut::{CutOptions, pull_the_plug};
pub(crate) use domains::{DomainsOptions, sleep_together};
pub(crate) use figures::Figures;
pub(crate) use screen::Screen;
pub(crate) use stage::{DemoOptions, play};
