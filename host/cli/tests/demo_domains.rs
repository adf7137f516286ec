//! `poorwill demo domains` with a QEMU that is a script: what is shown, and what is found out.

mod common;

use std::fs;
use std::process::Command;
use std::thread;

use common::{Outcome, World, names};

/// QEMU's tree of two sockets.
const TREE: &str = include_str!("common/two-sockets.dts");

/// A machine as the demo expects it: a trace of frames, the line that triggers sleeps, and a Linux
/// that answers commands. The third sleep, and later ones, end the program: its next start wakes. A
/// file keeps the frames' number. `ODD` changes it after a sleep with powered RAM, `OFF` after one
/// with the power off.
const STORY: &str = r#"
for word; do
    case $word in
        dumpdtb=*) cp "$(dirname "$0")/tree.dtb" "${word#dumpdtb=}"; exit ;;
        *,path=*) socket=${word#*,path=} socket=${socket%%,*} ;;
    esac
    [ "$before" != -D ] || trace=$word
    before=$word
done
exec perl -MIO::Socket::UNIX -MIO::Handle -MTime::HiRes=time -e '
    my ($socket, $file) = @ARGV;
    our ($number, $digest, $age, $asked) = (0, "abc", 255, 0);
    my $kept = "$file.kept";
    unlink $socket;
    my $supply = IO::Socket::UNIX->new(Listen => 1, Local => $socket);
    open my $trace, ">", $file or die; $trace->autoflush(1); $| = 1;
    sub told { print "@_\r\n" }
    sub frames {
        for my $frame (1 .. $_[0]) {
            my @bytes = unpack "C4", pack "V", $number++;
            my $register = 0;
            for my $write ((map { [16 + $register++, $_] } 8, 0x24, 0x60, @bytes, $age, $age), [1, 1]) {
                printf $trace "9@%.6f:memory_region_ops_write cpu 2 mr 0x5 addr 0x%x value 0x%x size 1 name \x27kvaser_pci-sja\x27\n",
                    time, 0x3002080 + $$write[0], $$write[1];
            }
        }
    }
    sub odd { ODD }
    sub off { OFF }
    sub wake {
        frames(5);
        my $mode = shift;
        told "poorwill: wake domain=$_ mode=$mode" for "critical", "linux";
        told "awake=0"; told "digest=$digest"; frames(5);
    }
    if (open my $before, "<", $kept) {
        ($number, $asked) = (<$before> + 0, 2);
        off(); wake("persist");
    } else {
        told "poorwill: cold boot: the machine has domains"; frames(300);
        told "Start it again with the same command";
        <STDIN> for 1 .. 3; told "digest=$digest";
    }
    while (my $line = $supply->accept) {
        while (sysread $line, my $byte, 1) {
            if ($byte eq "w") { odd(); wake("retain"); next }
            frames(5); told "poorwill: sleep refused: domain linux is not parked";
            <STDIN>; told "poorwill: park domain=linux"; told "poorwill: sleep mode=staged";
            next if ++$asked <= 2;
            sleep 4; told "poorwill: sleep mode=persist";
            open my $after, ">", $kept or die; print $after $number;
            exit 0;
        }
    }' "$socket" "$trace"
"#;

/// Plays it with two sleeps of each kind.
fn play(odd: &str, off: &str) -> (World, Outcome) {
    let world = World::with_qemu(&STORY.replace("ODD", odd).replace("OFF", off));
    for file in ["cache/guest/tiny.img", "critical"] {
        fs::write(world.path(file), "contents").unwrap();
    }
    fs::write(world.path("tree.dts"), TREE).unwrap();
    let [source, blob] = ["tree.dts", "tree.dtb"].map(|name| world.path(name));
    let mut compiler = Command::new("dtc");
    compiler
        .args(["-q", "-I", "dts", "-O", "dtb", "-o"])
        .args([blob, source]);
    assert!(compiler.status().unwrap().success());
    let arguments = ["demo", "domains", "--critical", "critical", "--sleeps", "2"];
    let outcome = world.run(&arguments);
    (world, outcome)
}

#[test]
fn two_domains_sleep_and_wake_twice_in_each_way() {
    let (world, outcome) = play("", "");
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    for words in [
        "frame 0 ",
        "frames 1 to 299",
        "Sleep 2 of 4",
        "s without power: the same command line",
        "no frame",
        "| wake 2 ",
        "| wake with the power off 2 |",
        "360 frames, 4 sleeps: no frame was lost, repeated or stale",
    ] {
        assert!(outcome.out.contains(words), "no {words:?}: {outcome:#?}");
    }
    assert_eq!(names(&world.path("cache")), ["guest"]);
}

#[test]
fn a_lost_frame_or_changed_contents_are_named() {
    let faults = [
        ("$number++", "", "one is lost or repeated"),
        ("$number--", "", "one is lost or repeated"),
        (
            "$digest = \"def\"",
            "",
            "contents changed: digest=abc before",
        ),
        (
            "told \"poorwill: domain linux ends: trap\"",
            "",
            "domain linux ends: trap",
        ),
        ("", "$number--", "one is lost or repeated"),
        ("", "$age = 0", "has data of before the power-on"),
        (
            "",
            "$digest = \"def\"",
            "contents changed: digest=abc before",
        ),
        (
            "",
            "told \"poorwill: cold boot: domain linux: it is bad\"",
            "cold boot: domain linux: it is bad",
        ),
    ];
    let check = |(odd, off, words): (&str, &str, &str)| {
        let (world, outcome) = play(odd, off);
        outcome.refuses(1, &[words]);
        let left = names(&world.path("cache"));
        assert!(left.iter().any(|name| name.ends_with(".log")), "{left:?}");
    };
    // At the same time, since the demo mostly waits.
    thread::scope(|scope| {
        for fault in faults {
            scope.spawn(move || check(fault));
        }
    });
}

#[test]
fn a_machine_that_cannot_be_is_refused() {
    let world = World::with_qemu("exit 0");
    fs::write(world.path("cache/guest/tiny.img"), "contents").unwrap();
    let demo = |more: &[&str]| world.run(&[&["demo", "domains"], more].concat());
    demo(&["--critical", "absent"]).refuses(1, &["cannot read critical guest absent"]);
    let sized = ["--critical", "firmware", "--memory", "300M"];
    demo(&sized).refuses(1, &["must be a multiple of 256 MiB"]);
    demo(&["--critical", "firmware", "--harts", "3"]).refuses(1, &["must be 1, 2 or 4"]);
}
