//! The main job, shown from end to end: a Debian machine sleeps with the power
//! off, and wakes where it was.

mod compare;
mod figures;
mod screen;
mod stage;

pub use compare::{Compared, Held, compare};
pub use figures::{Column, Figures};
pub use screen::Screen;
pub use stage::{DemoOptions, play};
