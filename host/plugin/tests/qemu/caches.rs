//! What survives the end of the power, seen in the RAM that a real QEMU leaves.

use crate::machine::{Machine, OLD, is_ready};
use poorwill_plugin::report::End;
use poorwill_plugin::{CUT, FAILED};

/// Stores to 128 lines, and flushes every other.
const FLUSH_HALF: &str = "
    csrr t0, mhartid
    beqz t0, 1f
    sleep
1:  store 128
    li a0, DATA
    li a1, 64
2:  cbo.flush (a0)
    addi a0, a0, 128
    addi a1, a1, -1
    bnez a1, 2b
";

#[test]
fn what_was_flushed_and_fenced_survives_and_nothing_else() {
    if !is_ready() {
        return;
    }
    let source = format!("{FLUSH_HALF} fence rw, rw\n slti x0, x0, 5\n off\n sleep");
    let ended = Machine::new(&source).harts(2).run("");
    let report = ended.report(0);
    for number in 0..128 {
        let expected = if number % 2 == 0 { 1 } else { OLD };
        assert_eq!(ended.line(number), expected, "line {number}");
    }
    assert_eq!(report.end, End::PowerOff);
    let lines = report.lines.as_ref().expect("caches");
    assert_eq!((lines.flushed_by_line, lines.lost), (64, 64));
    assert_eq!(
        (lines.unchanged, lines.displaced, lines.device_written),
        (0, 0, 0)
    );
    assert_eq!(lines.lost_addresses[0], 0x8010_0040);
    assert_eq!((report.harts[0].lost, report.harts[1].lost), (64, 0));
    // Three, the loops, the fence and the mark; li of DATA takes two, of others one.
    let executed = 2 + 4 + 128 * 4 + 3 + 64 * 4 + 2;
    let [mark] = report.marks[..] else {
        panic!("one mark: {:?}", report.marks);
    };
    assert_eq!((mark.hart, mark.number), (0, 5));
    // The machine's own ROM comes before.
    let before = mark.instructions - executed;
    assert!(before < 20, "{before}");
    assert_eq!(mark.time, Some(mark.instructions));
    // The power switch: two instructions to load its address and value, and the store.
    assert_eq!(report.harts[0].instructions, mark.instructions + 4);
}

#[test]
fn without_the_fence_all_is_lost() {
    if !is_ready() {
        return;
    }
    let source = format!("{FLUSH_HALF} off\n sleep");
    let ended = Machine::new(&source).run("");
    let report = ended.report(0);
    assert_eq!((ended.line(0), ended.line(1)), (OLD, OLD));
    assert_eq!(report.lines.as_ref().expect("caches").lost, 128);
}

#[test]
fn a_full_cache_displaces_and_so_does_reading_once_loads_are_seen() {
    if !is_ready() {
        return;
    }
    // 4 KiB are 64 lines.
    let ended = Machine::new("store 128\n off\n sleep").run("l1=4096");
    let lines = ended.report(0).lines.clone().expect("caches");
    assert_eq!((lines.displaced, lines.lost), (64, 64));
    assert_eq!((ended.line(0), ended.line(127)), (1, OLD));

    let source = "
        store 32
        li a0, 0x80200000
        li a1, 64
    1:  ld a2, 0(a0)
        addi a0, a0, 64
        addi a1, a1, -1
        bnez a1, 1b
        off
        sleep";
    for (loads, lost) in [("always", 0), ("signalled", 32), ("never", 32)] {
        let ended = Machine::new(source).run(&format!("l1=4096,loads={loads}"));
        let lines = ended.report(0).lines.clone().expect("caches");
        assert_eq!((lines.lost, lines.displaced), (lost, 32 - lost), "{loads}");
    }
}

#[test]
fn the_flush_register_flushes_for_the_hart_that_writes_to_it() {
    if !is_ready() {
        return;
    }
    let source = "
        store 4
        li a0, 0x2010000
        li a1, DATA
        sd a1, 0x200(a0)
        addi a1, a1, 64
        srli a1, a1, 4
        sw a1, 0x240(a0)
        lw a2, 0(a0)
        fence
        off
        sleep";
    let ended = Machine::new(source).run("flush-register=0x2010000");
    let lines = ended.report(0).lines.clone().expect("caches");
    assert_eq!((lines.flushed_by_register, lines.lost), (2, 2));
    assert_eq!([0, 1, 2, 3].map(|line| ended.line(line)), [1, 1, OLD, OLD]);
}

#[test]
fn t_heads_instructions_flush_a_line_and_a_harts_cache() {
    if !is_ready() {
        return;
    }
    // th.sxstatus allows them in machine mode. th.dcache.cva a0, .call, th.sync.
    let line = "store 8\n li a0, DATA\n .word 0x0255000b, 0x0180000b\n off\n sleep";
    let all = "store 8\n .word 0x0010000b, 0x0180000b\n off\n sleep";
    let cpu = ["-accel", "tcg,thread=single", "-cpu", "thead-c906"];
    for (source, by_line, by_all) in [(line, 1, 0), (all, 0, 8)] {
        let ended = Machine::new(source).with(&cpu).run("");
        let lines = ended.report(0).lines.clone().expect("caches");
        assert_eq!(
            (lines.flushed_by_line, lines.flushed_all),
            (by_line, by_all)
        );
        assert_eq!(lines.lost, 8 - by_line - by_all);
    }
}

#[test]
fn misaligned_stores_make_both_lines_dirty() {
    if !is_ready() {
        return;
    }
    // One across lines, and one across pages.
    let source = "
        li a0, DATA
        li a1, -1
        sd a1, 60(a0)
        li a0, DATA + 0x1000
        sd a1, -4(a0)
        off
        sleep";
    let ended = Machine::new(source).run("");
    let lines = ended.report(0).lines.clone().expect("caches");
    assert_eq!(
        (lines.lost, lines.device_written, lines.device_writes),
        (4, 0, 0)
    );
    for line in [0, 1, 63, 64] {
        assert_eq!(ended.line(line), OLD);
    }
}

#[test]
fn the_power_goes_when_the_hold_up_has_run_out() {
    if !is_ready() {
        return;
    }
    let source = "1: store 128\n j 1b";
    let arguments = "signal-at=100000,hold-up=54321";
    let ended = Machine::new(source).run(arguments);
    let report = ended.report(CUT);
    assert_eq!(report.end, End::HoldUp);
    assert_eq!(report.time, Some(154_321));
    assert_eq!(report.signal.expect("a signal").time, Some(100_000));
    // To the end of the block.
    let since = report.harts[0].since_signal.expect("a signal");
    assert!((54_310..54_340).contains(&since), "{since}");
    assert_eq!(report.lines.as_ref().expect("caches").lost, 128);
    assert_eq!(ended.line(0), OLD);
}

#[test]
fn what_cannot_be_is_refused() {
    if !is_ready() {
        return;
    }
    let ended = Machine::new("off\n sleep").run("holdup=5");
    assert_eq!(ended.status, Some(1));
    assert!(
        ended.errors.contains("there is no option `holdup`"),
        "{}",
        ended.errors
    );

    let many = ["-accel", "tcg,thread=multi"];
    let ended = Machine::new("off\n sleep").with(&many).run("");
    assert_eq!(ended.status, Some(FAILED));
    assert!(
        ended
            .errors
            .contains("start QEMU with -accel tcg,thread=single"),
        "{}",
        ended.errors
    );

    let counting = ["-accel", "tcg,thread=single", "-icount", "shift=0"];
    let ended = Machine::new("off\n sleep").with(&counting).run("");
    assert_eq!(ended.status, Some(FAILED));
    assert!(ended.errors.contains("-icount"), "{}", ended.errors);

    let ended = Machine::new("off\n sleep").run("irq=500,signal-at=5");
    assert_eq!(ended.status, Some(FAILED));
    assert!(
        ended.errors.contains("sources below 96"),
        "{}",
        ended.errors
    );
}

#[test]
fn a_reset_keeps_what_caches_hold() {
    if !is_ready() {
        return;
    }
    let source = "
        csrr t0, mhartid
        beqz t0, 1f
        sleep
    1:  li a0, DATA
        lbu a1, 0(a0)
        li a2, 1
        beq a1, a2, 2f
        store 4
        slti x0, x0, 1
        li t0, 0x100000
        li t1, 0x7777
        sw t1, 0(t0)
        sleep
    2:  slti x0, x0, 2
        li a0, DATA
        cbo.flush (a0)
        fence
        off
        sleep";
    let ended = Machine::new(source).harts(2).run("");
    let report = ended.report(0);
    let marks: Vec<_> = report.marks.iter().map(|mark| mark.number).collect();
    assert_eq!(marks, [1, 2]);
    assert_eq!(
        [0, 1, 2, 3].map(|line| ended.line(line)),
        [1, OLD, OLD, OLD]
    );
}
