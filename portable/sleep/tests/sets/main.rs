//! Sets: the images of all domains of a machine, which sleep and wake together.

#![allow(clippy::cast_possible_truncation, reason = "small numbers")]

mod damage;
mod machine;
mod mishaps;
mod save;
mod wake;
