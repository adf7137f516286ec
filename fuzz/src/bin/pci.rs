//! The searches for devices and for functions in use, and acquiring and releasing devices: whatever
//! registers hold, they end, and leave everything as it was.
#![cfg_attr(fuzzing, no_main)]

use poorwill_fuzz::pci::{expect_cut, host, model};
use poorwill_fuzz::{Cases, Input};
use poorwill_memory::PhysRange;
use poorwill_pci::{HostBridge, acquire, find, in_use};

poorwill_fuzz::target!(max_len = 2048, run);

fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let host = host(&mut input);
    let model = model(&mut input, host.first_bus);
    let mut before = model.snapshot();
    let search = find(&model, &model, &host);
    model.assert_unchanged(&before);
    let read8 = |address| {
        assert!(is_inside(&host, address, 1), "{address:#x}");
        Some(4)
    };
    // An error names a damaged list.
    in_use(&model, &host, read8, |_| ()).unwrap_or_default();
    model.assert_unchanged(&before);
    for location in &search.devices {
        if let Ok(mut handle) = acquire(&model, &model, &host, location) {
            assert!(is_inside(&host, handle.cpu_address(), handle.length()));
            if input.one_in(3) {
                let bar = input.any::<u8>() % 6;
                let added = handle.add_memory(&model, &model, &host, location, bar);
                let inside = |range: PhysRange| is_inside(&host, range.start, range.length());
                assert!(added.map_or(true, inside));
            }
            let cut = input.one_in(4);
            if cut {
                handle.cut_dma(&model);
            }
            handle.release(&model, &model);
            if cut {
                expect_cut(&mut before, &model.snapshot());
            }
        }
        model.assert_unchanged(&before);
    }
}

/// Whether the CPU reaches all of the range through one window.
fn is_inside(host: &HostBridge, address: u64, length: u64) -> bool {
    host.windows.iter().any(|window| {
        let offset = address.checked_sub(window.cpu_address);
        offset
            .and_then(|offset| offset.checked_add(length))
            .is_some_and(|end| end <= window.length)
    })
}
