//! Traces of programs' memory requests, and models of memory that execute them.

pub mod comparators;
mod error;
mod guest;
mod library;
mod model;
pub mod open_loop;
mod programs;
mod record;
pub mod sweep;

pub use error::TracesError;
pub use library::{Found, Kept, Library};
pub use model::{Account, Run, account, parameters_of, run};
pub use programs::{PROGRAMS, Processes, Program, Row, names};
pub use record::{Recording, USUAL_SKIP, USUAL_WINDOW, built};
