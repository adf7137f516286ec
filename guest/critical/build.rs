//! Links the program as a bare guest.

#[path = "../bare/link.rs"]
mod link;

fn main() {
    link::link();
}
