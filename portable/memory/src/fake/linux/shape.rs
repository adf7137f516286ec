extern crate std;

use std::format;
use std::string::String;

/// The layout of a kernel's structures, from its note.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) page: u64,
    pub(super) lru: u64,
    pub(super) mapcount: u64,
    pub(super) private: u64,
    pub(super) node: u64,
    pub(super) node_zones: u64,
    pub(super) node_zone_count: u64,
    pub(super) node_start: u64,
    pub(super) node_spanned: u64,
    pub(super) zone_spanned: u64,
    pub(super) zone_areas: u64,
    pub(super) zone_stats: u64,
    pub(super) area: u64,
    pub(super) orders: u64,
    pub(super) lists: u64,
}

/// The layout of a small kernel's structures.
const SMALL: [(&str, u64); 23] = [
    ("SIZE(page)", 64),
    ("SIZE(pglist_data)", 4096),
    ("SIZE(zone)", 1024),
    ("SIZE(free_area)", 40),
    ("SIZE(list_head)", 16),
    ("SIZE(nodemask_t)", 8),
    ("OFFSET(page.lru)", 8),
    ("OFFSET(page._mapcount)", 48),
    ("OFFSET(page.private)", 40),
    ("OFFSET(pglist_data.node_zones)", 0),
    ("OFFSET(pglist_data.nr_zones)", 2048),
    ("OFFSET(pglist_data.node_start_pfn)", 2056),
    ("OFFSET(pglist_data.node_spanned_pages)", 2064),
    ("OFFSET(pglist_data.node_id)", 2072),
    ("OFFSET(zone.free_area)", 0),
    ("OFFSET(zone.vm_stat)", 440),
    ("OFFSET(zone.spanned_pages)", 512),
    ("OFFSET(free_area.free_list)", 0),
    ("OFFSET(list_head.next)", 0),
    ("OFFSET(list_head.prev)", 8),
    ("LENGTH(zone.free_area)", 11),
    ("LENGTH(free_area.free_list)", 2),
    ("NUMBER(NR_FREE_PAGES)", 0),
];

/// The lines of a small kernel's note about its structures.
pub(super) fn small() -> String {
    SMALL
        .map(|(key, value)| format!("{key}={value}\n"))
        .concat()
}

/// The value of a key in a note.
pub(super) fn said<'a>(note: &'a str, key: &str) -> &'a str {
    note.lines()
        .filter_map(|line| line.split_once('='))
        .find_map(|(name, value)| (name == key).then_some(value))
        .unwrap_or_else(|| panic!("the note has no {key}"))
}

impl Shape {
    /// Reads the layout from a note.
    pub(super) fn of(note: &str) -> Self {
        let number = |key| said(note, key).parse().expect("a number");
        Shape {
            page: number("SIZE(page)"),
            lru: number("OFFSET(page.lru)"),
            mapcount: number("OFFSET(page._mapcount)"),
            private: number("OFFSET(page.private)"),
            node: number("SIZE(pglist_data)"),
            node_zones: number("OFFSET(pglist_data.node_zones)"),
            node_zone_count: number("OFFSET(pglist_data.nr_zones)"),
            node_start: number("OFFSET(pglist_data.node_start_pfn)"),
            node_spanned: number("OFFSET(pglist_data.node_spanned_pages)"),
            zone_spanned: number("OFFSET(zone.spanned_pages)"),
            zone_areas: number("OFFSET(zone.free_area)"),
            zone_stats: number("OFFSET(zone.vm_stat)"),
            area: number("SIZE(free_area)"),
            orders: number("LENGTH(zone.free_area)"),
            lists: number("LENGTH(free_area.free_list)"),
        }
    }
}
