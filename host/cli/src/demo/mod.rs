//! The main job, shown from end to end: a Debian machine sleeps with the power
//! off, and wakes where it was; and one whose plug is pulled goes on.

mod compare;
mod cut;
mod figures;
mod machine;
mod screen;
mod stage;

pub(crate) use cut::{CutOptions, pull_the_plug};
pub(crate) use figures::Figures;
pub(crate) use screen::Screen;
pub(crate) use stage::{DemoOptions, play};
