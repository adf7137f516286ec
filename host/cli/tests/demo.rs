//! The demo and `run` with a QEMU that is a shell script: what is shown, what
//! is found out, and what is left behind.

mod common;

use std::fs;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use common::{LIMIT, Outcome, World, names};
use rustix::process::{Pid, Signal, kill_process};

/// A machine as the demo expects it. `$slept` is set at the second power-on.
const STORY: &str = r#"
say() { printf '%s\r\n' "$*"; }
held="nonce_sha256=${nonce:-aa} counter=${counter:-1} redis_digest=bb files_sha256=cc"
if [ ! -e "$0.slept" ]; then
    say "poorwill: cold boot: no image"
    say "[    1.0] Run /init as init process"
    say "poorwill-guest: redis ready uptime_s=9.0"
    say "poorwill-demo: ready $held uptime_s=10.0"
    printf '\rpoorwill: sleeping 50 %%\rpoorwill: sleeping 100 %%\r\n'
    say "poorwill: sleep mode=persist used_bytes=3145728 saved_bytes=2097152 ms=20 new=key"
    touch "$0.slept"
    exit 0
fi
"#;

const WOKEN: &str = r#"
say "poorwill: wake loaded_bytes=2097152 ms=10"
say "poorwill-guest: redis ready uptime_s=11.0"
say "poorwill-demo: woke nonce_sha256=${nonce:-aa} counter=2 redis_digest=bb files_sha256=cc uptime_s=11.5 kernel_ms=1 kernel_down_ms=2"
"#;

fn play(script: &str) -> (World, Outcome) {
    let world = World::with_qemu(script);
    let outcome = world.run(&["demo"]);
    (world, outcome)
}

/// Nothing is left but the guest and, after a failure, the log.
#[track_caller]
fn check_left(world: &World, log: bool) {
    let left = names(&world.path("cache"));
    let logs = left.iter().filter(|name| name.ends_with(".log")).count();
    assert_eq!(
        (left.len(), logs),
        (1 + usize::from(log), usize::from(log)),
        "{left:?}"
    );
}

#[test]
fn the_whole_story() {
    let (world, outcome) = play(&format!("{STORY}{WOKEN}"));
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    for words in [
        "The power is off",
        "has ended",
        "nonce in a process's memory  the same (aa)",
        "counter beside the nonce     advanced from 1 to 2",
        "| poorwill: sleep mode=persist",
        "| QEMU starts",
        "The machine used 3.00 MiB",
    ] {
        assert!(outcome.out.contains(words), "no {words:?}: {outcome:#?}");
    }
    let bytes = outcome
        .out
        .lines()
        .find(|line| line.starts_with("| bytes"))
        .unwrap();
    assert_eq!(bytes.matches("2.00 MiB").count(), 2, "{bytes}");
    check_left(&world, false);
}

#[test]
fn what_was_lost_is_named() {
    let (world, outcome) = play(&format!("{STORY}nonce=zz\n{WOKEN}"));
    outcome.refuses(
        1,
        &["nonce in a process's memory changed: aa before, zz after"],
    );
    check_left(&world, true);
    let log = names(&world.path("cache"))
        .into_iter()
        .find(|name| name.ends_with(".log"))
        .unwrap();
    assert!(outcome.err.contains(&log), "{outcome:#?}");
    let log = fs::read_to_string(world.path("cache").join(log)).unwrap();
    assert!(
        log.contains("] poorwill: cold boot: no image\n") && log.contains("woke"),
        "{log}"
    );
}

#[test]
fn a_wake_that_is_a_cold_boot() {
    let (_, outcome) = play(&format!(
        "{STORY}say 'poorwill: cold boot: the image is damaged'; sleep 60"
    ));
    outcome.refuses(1, &["waking", "the console showed a failure before"]);
    assert!(
        outcome.out.contains("The last lines of the console"),
        "{outcome:#?}"
    );
}

#[test]
fn a_refused_sleep() {
    let story = STORY.replace(
        "    printf",
        "say 'poorwill-demo: FAIL the sleep was refused'; #",
    );
    let (_, outcome) = play(&story);
    outcome.refuses(1, &["going to sleep", "FAIL the sleep was refused"]);
}

#[test]
fn a_qemu_that_fails_is_quoted() {
    let (_, outcome) = play("echo 'qemu: cannot do that' >&2; exit 3");
    outcome.refuses(1, &["cold boot", "exit status: 3", "qemu: cannot do that"]);
    let script = STORY.replace("exit 0", "echo 'qemu: disk full' >&2; exit 4");
    let (_, outcome) = play(&script);
    outcome.refuses(1, &["exit status: 4", "qemu: disk full"]);
}

#[test]
fn what_a_killed_demo_left_is_removed() {
    let world = World::with_qemu(&format!("{STORY}{WOKEN}"));
    fs::create_dir_all(world.path("cache/demo-999999999-abc")).unwrap();
    let alive = format!("cache/demo-{}-abc", std::process::id());
    fs::create_dir_all(world.path(&alive)).unwrap();
    assert_eq!(world.run(&["demo"]).code, Some(0));
    assert!(!world.path("cache/demo-999999999-abc").exists());
    assert!(world.path(&alive).exists());
}

/// Ctrl-C: exit status 130, QEMU and every file gone.
#[test]
fn interrupted() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let world = World::with_qemu("echo $$ >\"$0.pid\"; exec sleep 60");
        let mut demo = world
            .poorwill(&["demo"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let qemu = wait_for_pid(&world);
        kill_process(Pid::from_child(&demo), signal).unwrap();
        assert_eq!(demo.wait().unwrap().code(), Some(130));
        assert!(
            !fs::exists(format!("/proc/{qemu}")).unwrap(),
            "QEMU is still there"
        );
        check_left(&world, false);
    }
}

/// Killed without mercy, `poorwill` still takes QEMU with it.
#[test]
fn killed() {
    let world = World::with_qemu("echo $$ >\"$0.pid\"; exec sleep 60");
    for command in ["demo", "run"] {
        let _ = fs::remove_file(world.path("qemu.pid"));
        let mut poorwill = world
            .poorwill(&[command])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let qemu = wait_for_pid(&world);
        poorwill.kill().unwrap();
        poorwill.wait().unwrap();
        let until = Instant::now() + LIMIT;
        // An orphan is a zombie until init has collected it.
        while fs::read_to_string(format!("/proc/{qemu}/status"))
            .is_ok_and(|status| !status.contains("\nState:\tZ"))
        {
            assert!(Instant::now() < until, "{command}: QEMU is still there");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

fn wait_for_pid(world: &World) -> u32 {
    let until = Instant::now() + LIMIT;
    loop {
        let text = fs::read_to_string(world.path("qemu.pid")).unwrap_or_default();
        if let Some(pid) = text.strip_suffix('\n').and_then(|text| text.parse().ok()) {
            return pid;
        }
        assert!(Instant::now() < until, "QEMU was not started");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn run_makes_a_machine_once_and_starts_it_the_same_way() {
    let world = World::with_qemu("printf '%s\\n' \"$@\" >>\"$0.arguments\"");
    let first = world.run(&["run", "--append", "quiet", "--", "-s"]);
    assert_eq!(first.code, Some(0), "{first:#?}");
    assert!(
        first.err.contains("debian.disk") && first.err.contains("switched off"),
        "{first:#?}"
    );
    let made = fs::metadata(world.path("data/debian.disk"))
        .unwrap()
        .modified()
        .unwrap();
    let arguments = fs::read_to_string(world.path("qemu.arguments")).unwrap();
    assert!(
        arguments.contains("root=PARTLABEL=root rw console=ttyS0 quiet\n"),
        "{arguments}"
    );
    assert!(arguments.ends_with("-s\n"), "{arguments}");

    world.run(&["run", "--append", "quiet", "--", "-s"]);
    assert_eq!(
        fs::metadata(world.path("data/debian.disk"))
            .unwrap()
            .modified()
            .unwrap(),
        made
    );
    assert_eq!(
        fs::read_to_string(world.path("qemu.arguments")).unwrap(),
        arguments.repeat(2)
    );
}

#[test]
fn a_plic_machine_has_two_disks() {
    let world = World::with_qemu("printf '%s\\n' \"$@\" >\"$0.arguments\"");
    assert_eq!(
        world
            .run(&["run", "--interrupts", "plic", "--memory", "512M"])
            .code,
        Some(0)
    );
    assert_eq!(
        names(&world.path("data")),
        ["debian-plic-sleep.disk", "debian-plic.disk"]
    );
    let arguments = fs::read_to_string(world.path("qemu.arguments")).unwrap();
    assert!(
        arguments.contains("virtio-blk-pci,drive=disk0"),
        "{arguments}"
    );
    assert!(arguments.contains("nvme,drive=disk1"), "{arguments}");
    assert!(
        arguments.contains("poorwill.skip_modules=nvme"),
        "{arguments}"
    );
}

#[test]
fn run_says_when_qemu_fails() {
    let world = World::with_qemu("echo 'qemu: no' >&2; exit 1");
    world
        .run(&["run"])
        .refuses(1, &["qemu: no", "QEMU failed (exit status: 1)"]);
}

/// An appliance as its demo expects it, power-on by power-on.
const APPLIANCE: &str = r#"
say() { printf '%s\r\n' "$*"; }
on=$(($(cat "$0.on" 2>/dev/null || echo 0) + 1)); echo $on >"$0.on"
started() { say "poorwill-guest: shell ready"; say "poorwill-guest: shop ready answer=${answer:-42}"; }
case $on in
1) say "poorwill-appliance: prepared keys=1000000"; exit 0 ;;
2)
    say "poorwill: cold boot: no image"; started
    say "poorwill-appliance: ready root=overlay"
    read -r word; say "poorwill-appliance: hibernating"; exit 0 ;;
3) say "poorwill: cold boot: no image"; started; say "poorwill-appliance: resumed"; sleep 60 ;;
4)
    say "poorwill: cold boot: no image"; started; say "poorwill-appliance: ready root=overlay"
    read -r word; say "poorwill: sleep mode=snapshot ms=2"; exit 0 ;;
*)
    say "poorwill: wake loaded_bytes=2097152 ms=10 mode=snapshot"; more; started
    say "poorwill-snapshot: woken, first"; sleep 60 ;;
esac
"#;

#[test]
fn an_appliance_s_story() {
    let world = World::with_qemu(&format!("more() {{ :; }}\n{APPLIANCE}"));
    let outcome = world.run(&["demo", "snapshot", "--memory", "16M", "--wakes", "2"]);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    for words in [
        "Linux's own hibernation: 1",
        "the same answer each time, and every byte of the disk as it was",
        "| snapshot",
        "Each wake loads 2.00 MiB",
    ] {
        assert!(outcome.out.contains(words), "no {words:?}: {outcome:#?}");
    }
    check_left(&world, false);
}

#[test]
fn an_appliance_that_answers_otherwise_is_found_out() {
    let other = "more() { [ $on -lt 7 ] || answer=43; }";
    let world = World::with_qemu(&format!("{other}\n{APPLIANCE}"));
    let outcome = world.run(&["demo", "snapshot", "--memory", "16M", "--wakes", "3"]);
    outcome.refuses(1, &["the shop's answers differ"]);
    check_left(&world, true);
}
