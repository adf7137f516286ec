//! Links the program as a bare guest.

#[path = "../../guest/bare/link.rs"]
mod link;

fn main() {
    link::link();
}
