//! The interpreter over hostile memory: whatever the OS's registers, page tables and instructions
//! are, a virtual hart accesses nothing but the OS's memory and devices, ends its turn in time, and
//! has a state that a hart can have.
#![cfg_attr(fuzzing, no_main)]

use poorwill_fuzz::virtual_hart::{check, draw, fill_tables, put_code};
use poorwill_fuzz::{Cases, Input};
use poorwill_translate::fake::FakeHost;
use poorwill_translate::{Mode, Stop, VirtualHart};

poorwill_fuzz::target!(max_len = 4096, run);

const TURNS: u64 = 8;
const MOST: u64 = 200;

fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (host, mut hart) = draw(&mut input);
    fill_tables(&mut input, &host, &mut hart);
    let steps: u64 = input.any();
    put_code(input, &host);
    for turn in 0..TURNS {
        host.time.set(host.time.get() + (steps >> (8 * turn) & 0xf));
        host.interrupts.set(steps >> (8 * turn + 4) & 1 != 0);
        take_turn(&mut hart, &host, 1 + (steps >> (8 * turn) & 0xff) % MOST);
    }
}

fn take_turn(hart: &mut VirtualHart, host: &FakeHost, most: u64) {
    let before = (hart.counts, hart.x, hart.pc, hart.csrs, hart.mode);
    let stop = hart.run(host, most);
    let counts = hart.counts;
    let done = counts.instructions + counts.exceptions;
    let done = done - before.0.instructions - before.0.exceptions;
    assert!(done <= most, "{done} of {most}");
    assert!(stop != Stop::Turn || done == most, "{done} of {most}");
    if done == 0 && counts.interrupts == before.0.interrupts {
        let after = (hart.counts, hart.x, hart.pc, hart.csrs, hart.mode);
        assert_eq!(after, before, "a stop has no effect");
    }
    check(hart);
    match stop {
        Stop::Call => {
            assert_eq!(hart.mode, Mode::Supervisor);
            hart.answer(0, most);
        }
        // The lent hart executes it.
        Stop::Unknown => hart.pc = hart.pc.wrapping_add(2 + (most & 2)) & !1,
        Stop::User => assert_eq!(hart.mode, Mode::User),
        Stop::Turn | Stop::Pauses | Stop::Waits => {}
        Stop::Lost | Stop::Differs(_) => unreachable!("no code is translated"),
    }
}
