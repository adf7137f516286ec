//! Traces that the plugin records in a real QEMU.

use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;
use std::{fs, hint, thread};

use crate::machine::{Ended, Machine, is_ready};
use poorwill_plugin::report::End;
use poorwill_plugin::{FAILED, TRACED};
use poorwill_trace::{Header, Kind, Reader, Record};

/// Number of the test's first line in RAM.
const FIRST: u32 = 0x10_0000 / 64;

/// The trace that a machine has left.
fn read(ended: &Ended) -> (Header, Vec<Record>) {
    let file = fs::File::open(ended.file("trace")).expect("a trace");
    let mut reader = Reader::new(file).expect("a header");
    let mut records = Vec::new();
    while let Some(record) = reader.next_record().expect("a record") {
        records.push(record);
    }
    (reader.header().clone(), records)
}

/// Requests for the test's lines, by their numbers.
fn of_data(records: &[Record]) -> Vec<(u16, Kind, u32)> {
    let data = (records.iter()).filter(|one| one.kind != Kind::Fetch && one.kind != Kind::Fence);
    data.map(|one| (one.hart, one.kind, one.line.wrapping_sub(FIRST)))
        .collect()
}

#[test]
fn a_program_after_the_mark_is_recorded() {
    if !is_ready() {
        return;
    }
    // The caches have two sets of two ways.
    let source = "
        li a0, DATA
        sd a1, 0(a0)
        slti x0, x0, 2000
        j 2f
        .align 6
    2:  ld a1, 0(a0)
        ld a1, 8(a0)
        sd a1, 128(a0)
        fence rw, rw
        addi a2, a0, 256
        cbo.zero (a2)
        addi a2, a0, 128
        cbo.flush (a2)
        sd a1, 62(a0)
        j 3f
        .option norvc
        .align 6
    3:  .rept 40
        addi a3, a3, 1
        .endr
    1:  j 1b
    ";
    let machine = Machine::new(source).without_caches();
    let ended = machine.run("l1=256,ways=2,trace-instructions=5000,trace=@/trace");
    assert_eq!(ended.report(TRACED).end, End::Traced);
    let (header, records) = read(&ended);
    assert_eq!((header.setting.harts, header.setting.cache), (1, 256));
    assert_eq!((header.setting.ways, header.setting.window), (2, 5000));
    assert!(
        (5000..7000).contains(&header.harts[0].instructions),
        "{header:?}"
    );
    // A store over two lines counts twice.
    assert_eq!((header.harts[0].loads, header.harts[0].stores), (2, 4));
    let expected = [
        (0, Kind::Load, 0),
        (0, Kind::Store, 2),
        (0, Kind::Store, 4),
        (0, Kind::Flush, 2),
        (0, Kind::Store, 0),
        (0, Kind::Store, 1),
    ];
    assert_eq!(of_data(&records), expected);
    // The second load hits, the store is the third instruction, and the fence the
    // fourth.
    let executed = records.iter().map(|record| record.instructions);
    let executed: Vec<_> = executed.collect();
    let kinds: Vec<_> = records.iter().map(|record| record.kind).collect();
    assert_eq!(
        kinds[..3],
        [Kind::Fetch, Kind::Load, Kind::Store],
        "{records:?}"
    );
    assert_eq!(executed[..3], [1, 1, 2], "the jump comes first");
    // A line has 16 instructions. A block counts several at once, but not over a line's end.
    let lines = kinds.iter().zip(&executed);
    let lines = lines.filter(|one| *one == (&Kind::Fetch, &16)).count();
    assert_eq!(lines, 2, "{records:?}");
    let fence = kinds.iter().position(|kind| *kind == Kind::Fence);
    assert_eq!(fence.map(|at| executed[at]), Some(1));
}

/// A kernel is in the upper half, and firmware executes untranslated, so this machine has no program.
#[test]
fn returns_of_programs_alone_are_counted() {
    if !is_ready() {
        return;
    }
    // An Sv39 table at DATA + 0x1000 maps the gigabyte of RAM to address 0x40000000 for S-mode.
    let source = "
        li a0, DATA + 0x1000
        li a1, (0x80000000 >> 12 << 10) | 0xcf
        sd a1, 8(a0)
        sd a1, 16(a0)
        li a2, -1
        csrw pmpaddr0, a2
        li a2, 0x1f
        csrw pmpcfg0, a2
        srli a0, a0, 12
        li a2, 8 << 60
        or a0, a0, a2
        csrw satp, a0
        sfence.vma
        la a3, 1f
        li a4, 0x40000000
        sub a5, a3, a4
        csrw mepc, a5
        li a2, 1 << 11
        csrs mstatus, a2
        li a2, 1 << 12
        csrc mstatus, a2
        slti x0, x0, 2000
        call 4f
        mret
        .align 6
    1:  li a0, DATA - 0x40000000
    2:  call 3f
        j 2b
        .align 6
    3:  sd a1, 0(a0)
        sd a1, 8(a0)
        sd a1, 64(a0)
        ret
    4:  li a0, DATA
        sd a1, 256(a0)
        ret
    ";
    let machine = Machine::new(source).without_caches();
    let ended = machine.run("trace-instructions=6000,trace=@/trace");
    ended.report(TRACED);
    let (header, _) = read(&ended);
    let returns = header.harts[0].returns;
    let counted: Vec<_> = returns
        .iter()
        .map(|class| (class.count, class.lines))
        .collect();
    let (count, lines) = counted[2];
    // The loop takes six instructions or seven, and the window ends up to 1000 late.
    assert!((800..1200).contains(&count), "{counted:?}");
    assert_eq!(lines, 2 * count);
    assert!((counted.iter().enumerate()).all(|(class, one)| class == 2 || one.0 == 0));
    assert_eq!(header.pages, 2, "of code and of data");
}

#[test]
fn harts_take_each_others_dirty_lines_and_each_run_is_the_same() {
    if !is_ready() {
        return;
    }
    let source = "
        li a0, DATA
        csrr t0, mhartid
        bnez t0, 2f
        slti x0, x0, 2000
        li a3, 100
    1:  addi a1, a1, 1
        sd a1, 0(a0)
        fence w, w
        sd a1, 64(a0)
        addi a3, a3, -1
        bnez a3, 1b
    5:  j 5b
    2:  ld a2, 64(a0)
        fence r, r
        ld a4, 0(a0)
        j 2b
    ";
    let run = || {
        let machine = Machine::new(source).harts(2).without_caches();
        let ended = machine.run("trace-instructions=20000,trace=@/trace");
        ended.report(TRACED);
        (
            fs::read(ended.file("trace")).expect("a trace"),
            read(&ended).1,
        )
    };
    let (bytes, records) = run();
    let data = of_data(&records);
    let taken = data.windows(2).filter(
        |two| matches!(two, [(1, Kind::WriteBack, line), (1, Kind::Load, same)] if line == same),
    );
    assert!(
        taken.count() > 0,
        "hart 1 reads what hart 0 has written: {data:?}"
    );
    assert_eq!(run().0, bytes, "a second run has the same bytes");
}

/// Harts that all wait are woken at one instant, and one of them is the first, whatever the host does
/// beside them.
#[test]
fn harts_that_wake_together_run_in_the_same_order_each_time() {
    if !is_ready() {
        return;
    }
    // Each hart waits for the next multiple of 64 ticks, and then takes the line. Hart 1 is the last to wait,
    // as it needs more than a window.
    let source = "
        li a0, DATA
        csrr t0, mhartid
        li t1, 128
        csrw mie, t1
        slli t1, t0, 3
        li t2, 0x2004000
        add t2, t2, t1
        li t3, 0x200bff8
        bnez t0, 1f
        slti x0, x0, 2000
    1:  ld t1, 0(t3)
        ori t1, t1, 63
        addi t1, t1, 1
        sd t1, 0(t2)
        wfi
        ld a1, 0(a0)
        addi a1, a1, 1
        sd a1, 0(a0)
        addi t1, t0, -1
        bnez t1, 1b
        li t1, 750
    2:  addi t1, t1, -1
        bnez t1, 2b
        j 1b
    ";
    let run = || {
        let machine = Machine::new(source).harts(4).without_caches();
        let ended = machine.run("grace=0,trace-instructions=20000000,trace=@/trace");
        ended.report(TRACED);
        read(&ended).1
    };
    // The host's other work ends with the test, also if that fails.
    let test = Arc::new(());
    for _ in 0..3 * thread::available_parallelism().map_or(2, NonZero::get) {
        let test = Arc::downgrade(&test);
        thread::spawn(move || {
            // Each awakening may interrupt QEMU's threads.
            while test.strong_count() > 0 {
                thread::sleep(Duration::from_micros(50));
                (0..20_000).for_each(|_| hint::spin_loop());
            }
        });
    }
    let runs = [run(), run(), run()];
    let taken = (runs[0].iter()).filter(|one| one.kind == Kind::WriteBack);
    assert!(taken.count() > 10_000, "harts take the line");
    assert!(runs[1..].iter().all(|other| *other == runs[0]));
}

#[test]
fn no_trace_stays_of_a_machine_that_ends_early() {
    if !is_ready() {
        return;
    }
    for (source, words) in [
        (
            "slti x0, x0, 2000\n off\n sleep",
            "ended before its window was full",
        ),
        ("off\n sleep", "ended before its window was full"),
    ] {
        let machine = Machine::new(source).without_caches();
        let ended = machine.run("trace=@/trace");
        assert_eq!(ended.status, Some(FAILED), "{}", ended.errors);
        assert!(ended.errors.contains(words), "{}", ended.errors);
        for name in ["trace", "trace.part"] {
            assert!(!ended.file(name).exists(), "{name}");
        }
    }
}

#[test]
fn a_folder_that_does_not_exist_is_named() {
    if !is_ready() {
        return;
    }
    let machine = Machine::new("slti x0, x0, 2000\n1: j 1b").without_caches();
    let ended = machine.run("trace=@/none/trace");
    assert_eq!(ended.status, Some(FAILED), "{}", ended.errors);
    let words = ["none/trace cannot be written", "No such file"];
    assert!(
        words.iter().all(|word| ended.errors.contains(word)),
        "{}",
        ended.errors
    );
}

/// A file system without room, which needs root to make.
#[test]
fn a_full_disk_leaves_no_part() {
    if !is_ready() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=64k", "none"])
        .arg(folder.path())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        eprintln!("passed over: no small file system can be made");
        return;
    }
    // Each load misses, in an order that does not compress.
    let source = "
        slti x0, x0, 2000
        li a0, DATA
        li a3, 0x5851f42d4c957f2d
        li a5, 0x1ffffc0
    1:  mul a2, a2, a3
        addi a2, a2, 1
        srli a4, a2, 20
        and a4, a4, a5
        add a4, a4, a0
        ld a1, 0(a4)
        j 1b
    ";
    let machine = Machine::new(source).without_caches();
    let file = folder.path().join("trace");
    let ended = machine.run(&format!("trace={}", file.display()));
    let left = fs::read_dir(folder.path()).map(Iterator::count);
    let unmounted = std::process::Command::new("umount")
        .arg(folder.path())
        .status();
    assert!(unmounted.is_ok_and(|status| status.success()));
    assert_eq!(ended.status, Some(FAILED), "{}", ended.errors);
    assert!(ended.errors.contains("No space left"), "{}", ended.errors);
    assert_eq!(left.expect("a folder"), 0);
}
