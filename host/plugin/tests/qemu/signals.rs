//! The power-fail line and the fair time base, on a real QEMU.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::machine::{DATA, Machine, is_ready};
use poorwill_plugin::report::{Cause, Report};

/// Source 60 reaches hart 0's machine mode; then `seen` jumps where it has.
const PLIC: &str = "
    .macro enable
    li a0, 0x0c000000
    li a1, 1
    sw a1, 60 * 4(a0)
    li a0, 0x0c002004
    li a1, 1 << 28
    sw a1, 0(a0)
    li a0, 0x0c200000
    sw zero, 0(a0)
    li a1, 1 << 11
    csrw mie, a1
    .endm
    .macro claim register
    li \\register, 0x0c200004
    lw \\register, 0(\\register)
    .endm
";

/// The same by message: APLIC to IMSIC, whose registers are reached by CSRs.
const APLIC: &str = "
    .macro enable
    li a0, 0x0c000000
    li a1, 4                    # sourcecfg[60]: a rising edge
    sw a1, 0x4 + 59 * 4(a0)
    li a1, 0x24000              # mmsiaddrcfg: the IMSIC's page; h: two bits of harts
    li a2, 0x0c001bc0
    sw a1, 0(a2)
    li a1, 2 << 12
    sw a1, 4(a2)
    li a2, 0x0c003004 + 59 * 4  # target[60]: hart 0, identity 60
    li a1, 60
    sw a1, 0(a2)
    li a2, 0x0c001edc           # setienum
    sw a1, 0(a2)
    li a1, 0x104                # domaincfg: enabled, by message
    sw a1, 0(a0)
    li a1, 0x70                 # eidelivery
    csrw 0x350, a1
    li a1, 1
    csrw 0x351, a1
    li a1, 0xc0                 # eie0
    csrw 0x350, a1
    li a1, 1 << 60
    csrw 0x351, a1
    li a1, 1 << 11
    csrw mie, a1
    .endm
    .macro claim register
    csrrw \\register, 0x35c, zero
    srli \\register, \\register, 16
    .endm
";

/// Hart 0 waits; the others fight for a word and for a lock, and are asked by it to tell
/// once more, so that whoever came first shows in what each executes.
const WATCH: &str = "
    li s0, DATA + 0x8000
    csrr t0, mhartid
    bnez t0, others
    enable
1:  wfi
    claim a0
    li a1, 60
    bne a0, a1, 1b
    slti x0, x0, 60
    li a2, 1
    addi a3, s0, 64
    amoadd.w zero, a2, (a3)
    li s1, 200
4:  store 64
    addi s1, s1, -1
    bnez s1, 4b
    slti x0, x0, 61
    off
    sleep
others:
2:  amoswap.w.aq a1, t0, (s0)
    bnez a1, 2b
    ld a2, 128(s0)
    add a2, a2, t0
    sd a2, 128(s0)
    rem a3, a2, t0
3:  addi a3, a3, -1
    bgtz a3, 3b
    amoswap.w.rl zero, zero, (s0)
    j 2b
";

fn watched(controller: &str, board: &'static str, arguments: &str) -> Report {
    let source = format!("{controller}{WATCH}");
    let machine = Machine::new(&source).harts(4).board(board);
    machine.run(arguments).report(0).clone()
}

#[test]
fn the_signal_arrives_and_every_run_is_the_same() {
    if !is_ready() {
        return;
    }
    for (controller, board) in [(PLIC, "virt"), (APLIC, "virt,aia=aplic-imsic")] {
        let arguments = "signal-at=3000123,hold-up=100000,grace=0";
        let first = watched(controller, board, arguments);
        let signal = first.signal.expect("a signal");
        assert_eq!((signal.cause, signal.time), (Cause::Time, Some(3_000_123)));
        let [seen, done] = first.marks[..] else {
            panic!("{:?}", first.marks);
        };
        assert_eq!((seen.hart, seen.number, done.number), (0, 60, 61));
        let latency = seen.time.expect("a time base") - 3_000_123;
        assert!(latency < 20, "hart 0 was woken at once: {latency}");
        // The others ran all the time, and none more than another.
        let end = first.time.expect("a time base");
        for hart in &first.harts[1..] {
            assert!(hart.instructions.abs_diff(end) <= 1010, "{first:?}");
        }
        assert!(first.harts[0].device_stores >= 1, "the power switch");
        assert_eq!(first.lines.as_ref().expect("caches").lost, 66);
        println!("{board}: {first:?}");
        assert_eq!(watched(controller, board, arguments), first);
    }
}

#[test]
fn lines_displaced_by_reading_after_the_signal_survive() {
    if !is_ready() {
        return;
    }
    let source = format!(
        "{PLIC} enable
         store 32
     1:  claim a0
         beqz a0, 1b
         li a0, 0x80200000
         li a1, 128
     2:  ld a2, 0(a0)
         addi a0, a0, 64
         addi a1, a1, -1
         bnez a1, 2b
         off
         sleep"
    );
    for (loads, lost) in [("signalled", 0), ("never", 32)] {
        let arguments = format!("l1=4096,loads={loads},signal-at=5000");
        let ended = Machine::new(&source).run(&arguments);
        let report = ended.report(0);
        let lines = report.lines.as_ref().expect("caches");
        assert_eq!((lines.lost, lines.displaced), (lost, 32 - lost), "{loads}");
        let seen = report.harts[0].device_loads;
        assert_eq!(seen.is_some(), loads == "signalled", "{seen:?}");
    }
}

#[test]
fn an_instruction_raises_the_line() {
    if !is_ready() {
        return;
    }
    let source = format!(
        "{PLIC} enable
         li s1, 5
     1:  addi s1, s1, -1
         bnez s1, 1b
         claim a0
         add a1, a0, zero
         slti x0, x0, 7
         off
         sleep"
    );
    // `enable` and what is before the loop take as long as its address says.
    let at = |count: u64| {
        let machine = Machine::new(&source);
        let elf = machine.file("guest.elf");
        let address = symbol_after(&elf);
        let arguments = format!("signal-pc={address:#x},signal-count={count}");
        machine.run(&arguments).report(0).clone()
    };
    let first = at(1).signal.expect("a signal");
    let fourth = at(4).signal.expect("a signal");
    assert_eq!(first.cause, Cause::Instruction);
    let between = fourth.time.expect("a time") - first.time.expect("a time");
    assert_eq!(between, 6, "three turns of two instructions");
}

#[test]
fn the_line_falls_and_rises_again() {
    if !is_ready() {
        return;
    }
    // A PLIC's gateway takes a level again only once it has fallen or the claim is completed;
    // the line of an APLIC tells itself.
    let source = "
        .macro line
        li a0, 0x0c001d04
        lw a0, 0(a0)
        srliw a0, a0, 28
        andi a0, a0, 1
        .endm
        li a0, 0x0c000000
        li a1, 4                    # sourcecfg[60]: a rising edge
        sw a1, 0x4 + 59 * 4(a0)
    1:  li a0, 0x0c001c04           # setip[1]
        lw a1, 0(a0)
        beqz a1, 1b
        li a0, 0x0c001ddc           # clripnum
        li a1, 60
        sw a1, 0(a0)
        slti x0, x0, 1
        li s1, 5
    2:  addi s1, s1, -1
        bnez s1, 2b
        li a0, 0x0c001c04
        lw a1, 0(a0)
        beqz a1, 3f
        slti x0, x0, 2
    3:  off
        sleep";
    let at = |more: &dyn Fn(u64) -> String| {
        let machine = Machine::new(source).board("virt,aia=aplic");
        let address = symbol_after(&machine.file("guest.elf"));
        let arguments = format!("signal-at=5000,hold-up=100000{}", more(address));
        machine.run(&arguments).report(0).clone()
    };
    let once = at(&|_| String::new());
    assert_eq!((once.marks.len(), once.rose_again), (1, false));
    let twice = at(&|address| format!(",again-pc={address:#x},again-count=3"));
    assert_eq!((twice.marks.len(), twice.rose_again), (2, true));
    // It is the first rise that all is counted from.
    assert_eq!(twice.signal, once.signal);
}

#[test]
fn a_range_of_instructions_raises_the_line_from_a_time_on() {
    if !is_ready() {
        return;
    }
    let source = format!(
        "{PLIC} enable
     1:  addi s1, s1, -1
         claim a0
         beqz a0, 1b
         off
         sleep"
    );
    let at = |from: u64, count: u64| {
        let machine = Machine::new(&source);
        let start = symbol_after(&machine.file("guest.elf"));
        // Of the turn's instructions the first two: `c.addi`, and `lui` of four bytes.
        let end = start + 6;
        let arguments =
            format!("signal-pc={start:#x}-{end:#x},signal-from={from},signal-count={count}");
        let signal = machine.run(&arguments).report(0).signal;
        signal.and_then(|signal| signal.time).expect("a time")
    };
    let times = [1, 2, 3, 4, 5].map(|count| at(20_000, count));
    assert!((20_000..22_000).contains(&times[0]), "{times:?}");
    let steps = times.windows(2).map(|two| two[1] - two[0]);
    let steps: Vec<_> = steps.collect();
    // In turns from the one to the other, and back.
    assert_eq!((steps[0], steps[1]), (steps[2], steps[3]), "{times:?}");
    assert!(
        steps.contains(&1) && steps.iter().max() > Some(&1),
        "{times:?}"
    );
}

/// The address of the loop's first instruction: `c.addi s1, -1`.
fn symbol_after(elf: &std::path::Path) -> u64 {
    let bytes = std::fs::read(elf).expect("it is read");
    let at = bytes
        .windows(2)
        .position(|two| two == [0xfd, 0x14])
        .expect("it is there");
    // The text begins a page into the file.
    0x8000_0000 + at as u64 - 0x1000
}

#[test]
fn counters_count_the_harts_own_instructions() {
    if !is_ready() {
        return;
    }
    // Each hart: mcycle, minstret, then both again; then mcycle after a write.
    let source = "
        csrr t0, mhartid
        slli t0, t0, 6
        li a0, DATA
        add a0, a0, t0
        csrr a1, mcycle
        csrr a2, minstret
        nop
        csrr a3, cycle
        csrr a4, instret
        li a5, 1000
        csrw mcycle, a5
        csrr a5, mcycle
        sub a2, a2, a1
        sub a3, a3, a1
        sub a4, a4, a1
        sb a2, 0(a0)
        sb a3, 1(a0)
        sb a4, 2(a0)
        sd a5, 8(a0)
        cbo.flush (a0)
        fence
        slti x0, x0, 3
        bnez t0, 1f
        li t0, 100000
    2:  addi t0, t0, -1
        bnez t0, 2b
        off
    1:  sleep";
    let ended = Machine::new(source).harts(3).run("");
    assert_eq!(ended.report(0).marks.len(), 3);
    for hart in 0..3 {
        let read = [0, 1, 2, 8, 9].map(|byte| ended.byte(hart, byte));
        let [low, high] = 1000_u16.to_le_bytes();
        assert_eq!(read, [1, 3, 4, low, high]);
    }
}

#[test]
fn idle_harts_sleep_until_a_timer_in_no_time() {
    if !is_ready() {
        return;
    }
    // A timer a second ahead: 10 million ticks.
    let source = "
        li a0, 0x200bff8
        ld a1, 0(a0)
        li a2, 10000000
        add a1, a1, a2
        csrr t0, mhartid
        slli t0, t0, 3
        li a0, 0x2004000
        add a0, a0, t0
        sd a1, 0(a0)
        li a1, 1 << 7
        csrw mie, a1
        wfi
        slti x0, x0, 9
        bnez t0, 1f
        li a2, 1000
    2:  addi a2, a2, -1
        bnez a2, 2b
        off
    1:  sleep";
    let run = || {
        Machine::new(source)
            .harts(4)
            .run("grace=0")
            .report(0)
            .clone()
    };
    let report = run();
    assert_eq!(report.marks.len(), 4);
    for mark in &report.marks {
        let time = mark.time.expect("a time base");
        assert!((1_000_000_000..1_000_003_000).contains(&time), "{time}");
        assert!(mark.instructions < 100);
    }
    assert_eq!(run(), report);
}

#[test]
fn a_running_machine_is_told_over_the_socket() {
    if !is_ready() {
        return;
    }
    // Bit 28 of `in_clrip[1]` is the line itself, of a source that is active when high.
    let source = "
        .macro line
        li a0, 0x0c001d04
        lw a0, 0(a0)
        srliw a0, a0, 28
        andi a0, a0, 1
        .endm
        li a0, 0x0c000000
        li a1, 6
        sw a1, 0x4 + 59 * 4(a0)
        li s0, DATA
        sb zero, 1(s0)
    1:  line
        beqz a0, 1b
        slti x0, x0, 1
        sb zero, 0(s0)
    2:  line
        bnez a0, 2b
        slti x0, x0, 2
        off
        sleep";
    let mut running = Machine::new(source)
        .board("virt,aia=aplic")
        .start("control=@/control,hold-up=1000000000000");
    running.until(|running| (running.byte(DATA + 1) == 0).then_some(()));
    let socket = running.file("control");
    let stream = UnixStream::connect(&socket).expect("it listens");
    let mut answers = BufReader::new(stream.try_clone().expect("a copy"));
    let mut ask = |command: &str| {
        let mut stream = &stream;
        writeln!(stream, "{command}").expect("it is sent");
        let mut answer = String::new();
        answers.read_line(&mut answer).expect("it is answered");
        answer
    };
    assert_eq!(ask("bad"), "error: `bad` is neither `fail` nor `good`\n");
    assert_eq!(ask("fail"), "ok\n");
    running.until(|running| (running.byte(DATA) == 0).then_some(()));
    assert_eq!(ask("good"), "ok\n");
    let ended = running.wait();
    let report = ended.report(0);
    assert_eq!(report.signal.expect("a signal").cause, Cause::Control);
    let marks: Vec<_> = report.marks.iter().map(|mark| mark.number).collect();
    assert_eq!(marks, [1, 2]);
    assert!(report.harts[0].device_loads.expect("loads are seen") > 1);
    assert!(!socket.exists());
}

#[test]
fn without_the_time_base_caches_and_line_work_too() {
    if !is_ready() {
        return;
    }
    let source = format!("{PLIC} enable\n 1: claim a0\n beqz a0, 1b\n store 4\n off\n sleep");
    let mut running = Machine::new(&source).start("time=off,control=@/control");
    let socket = running.file("control");
    let answer = running.until(|_| {
        let mut stream = UnixStream::connect(&socket).ok()?;
        writeln!(stream, "fail").ok()?;
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).ok()?;
        (answer == "ok\n").then_some(answer)
    });
    assert_eq!(answer, "ok\n");
    let ended = running.wait();
    let report = ended.report(0);
    assert_eq!(
        (report.time, report.signal.expect("a signal").time),
        (None, None)
    );
    assert_eq!(report.lines.as_ref().expect("caches").lost, 4);
    assert!(report.harts[0].since_signal.expect("a signal") > 0);
}

/// Both harts wait; the line alone wakes hart 0, which then works for 8,000 instructions.
const IDLE: &str = "
    csrr t0, mhartid
    slli t1, t0, 3
    li t2, 0x2004000            # mtimecmp
    add t1, t1, t2
    timer
    bnez t0, 2f
    enable
    li s0, DATA
    sb zero, 1(s0)
1:  wfi
    claim a0
    beqz a0, 1b
    slti x0, x0, 60
    li s1, 4000
3:  addi s1, s1, -1
    bnez s1, 3b
    off
2:  sleep
";

#[test]
fn an_idle_machine_is_told_over_the_socket() {
    if !is_ready() {
        return;
    }
    // No timer at all, or one that never rings, as an OS leaves it that has nothing to do.
    let never = "li t2, -1\n sd t2, 0(t1)";
    for (controller, board) in [(PLIC, "virt"), (APLIC, "virt,aia=aplic-imsic")] {
        for (timer, grace) in [("", 200), (never, 200), (never, 0)] {
            let source = format!(".macro timer\n {timer}\n .endm\n {controller} {IDLE}");
            let mut running = Machine::new(&source)
                .harts(2)
                .board(board)
                .start(&format!("control=@/control,hold-up=100000,grace={grace}"));
            running.until(|running| (running.byte(DATA + 1) == 0).then_some(()));
            // Long enough for time to jump, if it does.
            std::thread::sleep(Duration::from_millis(100));
            let stream = UnixStream::connect(running.file("control")).expect("it listens");
            writeln!(&stream, "fail").expect("it is sent");
            let mut answer = String::new();
            let mut answers = BufReader::new(&stream);
            answers.read_line(&mut answer).expect("it is answered");
            assert_eq!(answer, "ok\n");
            let ended = running.wait();
            let report = ended.report(0);
            let [mark] = report.marks[..] else {
                panic!("{board} {timer}: {:?}", report.marks);
            };
            let signal = report.signal.and_then(|signal| signal.time);
            let signal = signal.expect("a time");
            // QEMU's own timers, which run while it has not seen yet that all harts are idle,
            // take time on by 100 ms each.
            let day = 86400 * 1_000_000_000;
            assert!(signal < day, "time went on to its end: {signal}");
            let latency = mark.time.expect("a time base") - signal;
            assert!(latency < 100, "hart 0 was woken at once: {latency}");
        }
    }
}
