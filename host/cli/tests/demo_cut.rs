//! `poorwill demo cut` with a QEMU that is a shell script: what is shown, and what is found
//! out.

mod common;

use std::fs;

use common::{Outcome, World, names};
use poorwill_sleep::cut::fake::FakeRecord;

/// A machine as the demo expects it, power-on by power-on; its power supply is heard once,
/// and then its memory has the record of that many cuts.
const STORY: &str = r#"
say() { printf '%s\r\n' "$*"; }
on=$(($(cat "$0.on" 2>/dev/null || echo 0) + 1)); echo $on >"$0.on"
for word; do case $word in
    *mem-path*) ram=${word#*mem-path\":\"} ram=${ram%%\"*} ;;
    *,control=*) socket=${word#*control=} socket=${socket%%,*} ;;
esac; done
keys=0123456789012345678901234567890123456789
copy=abcdefabcdefabcdefabcdefabcdefabcdefabcd
copies=$on written=$((on * 100))
if [ $on = 1 ]; then
    say "poorwill: cold boot: no image"
else
    say "poorwill: cut harts=2 bytes=6900 us=264 left_us=3960"; say "poorwill: go us=132"
fi
odd
held="keys=$keys copy=$copy copies=$copies counter=$((on * 10)) written=$written uptime_s=$on.5"
# As QEMU's, the power supply listens before the machine says anything that is waited for.
perl -MIO::Socket::UNIX -e '
    my $supply = IO::Socket::UNIX->new(Listen => 1, Local => shift);
    $| = 1; print "poorwill-redis: $_\r\n" for @ARGV; my $line = $supply->accept;
    <$line> eq "fail\n" or exit 1; print $line "ok\n"' "$socket" "held $held" copying || exit 5
dd if="$(dirname "$0")/record$on" of="$ram" bs=1M seek=64 conv=notrunc status=none
"#;

/// Plays it with two cuts; the last one is of a machine that `odd` makes so.
fn play(odd: &str) -> (World, Outcome) {
    let world = World::with_tree(&format!("odd() {{ {odd}; }}\n{STORY}"));
    fs::write(world.path("cache/guest/redis.img"), "contents").unwrap();
    let mut record = FakeRecord::new(&[true, true]);
    record.ticks = 2640;
    for cut in 1..=3 {
        record.stop().unwrap();
        fs::write(world.path(&format!("record{cut}")), record.bytes()).unwrap();
    }
    let outcome = world.run(&["demo", "cut", "--memory", "128M", "--cuts", "2"]);
    (world, outcome)
}

#[test]
fn a_machine_goes_on_twice() {
    let (world, outcome) = play(":");
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    for words in [
        "Power failure 2 of 2",
        "cut within 1.000 of 16.000 ms: 2 harts, 6900 bytes",
        "the same keys and copy; 3 copies, counter 30, 300 pieces on the disk, up 3.50 s",
        "|   2 |     2 |  6900 |    1.000 |  0.500 |",
    ] {
        assert!(outcome.out.contains(words), "no {words:?}: {outcome:#?}");
    }
    assert_eq!(names(&world.path("cache")), ["guest"]);
}

#[test]
fn what_was_lost_is_named() {
    let other = "f".repeat(40);
    for (odd, words) in [
        (format!("keys={other}"), "redis's keys changed"),
        (format!("copy={other}"), "the copy changed"),
        (
            "copies=1".to_owned(),
            "the copies did not advance: 2 before",
        ),
        (
            "written=1".to_owned(),
            "the disk did not advance: 200 before",
        ),
        (
            "say 'poorwill-redis: FAIL the copy failed'".to_owned(),
            "FAIL the copy failed",
        ),
        (
            "say 'poorwill: cold boot: cut: late'".to_owned(),
            "cold boot: cut: late",
        ),
        ("exit 78".to_owned(), "exit status: 78"),
    ] {
        let (world, outcome) = play(&format!("[ $on -lt 3 ] || {{ {odd}; }}"));
        outcome.refuses(1, &[words]);
        let left = names(&world.path("cache"));
        assert!(left.iter().any(|name| name.ends_with(".log")), "{left:?}");
    }
}

#[test]
fn a_cut_that_fails_is_named() {
    let (_, outcome) = play("[ $on -lt 2 ] || : >\"$(dirname \"$0\")/record2\"");
    outcome.refuses(1, &["switched itself off, without a cut"]);
    let (_, outcome) = play("[ $on -lt 2 ] || exit 0");
    outcome.refuses(1, &["exit status: 0"]);
}
