//! Physical memory protection: plans, and registers that hold them.

mod access;
mod plan;
mod regions;
mod registers;
mod translated;
