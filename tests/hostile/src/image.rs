//! The guest's image in memory.

unsafe extern "C" {
    #[link_name = "_start"]
    static START: u64;
}

/// The program's first word.
pub(crate) fn start() -> *const u64 {
    &raw const START
}
