//! The main job, shown from end to end: a Debian machine sleeps with the power
//! off, and wakes where it was.

mod compare;
mod figures;
mod screen;
mod stage;

pub(crate) use figures::Figures;
pub(crate) use screen::Screen;
pub(crate) use stage::{DemoOptions, play};
