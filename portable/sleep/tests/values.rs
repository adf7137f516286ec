//! The values that outlive a start or a sleep in memory or in an image, and the words
//! for people that are made of them. Bytes are compared with ones written by hand:
//! images and memory are read by other versions too.

use poorwill_image::{Progress, StateError, StateSections, StateWriter, Workspace};
use poorwill_memory::{EntryPoint, Page};
use poorwill_sleep::retain::Source;
use poorwill_sleep::{
    Bar, BootAttempt, ColdBoot, Core, ImageUse, Job, MAX_RESETS, Moment, NoWake, Protection,
    REPORT_BYTES, Report, ReportText, ResetRow, Startup, StateRefusal, WakeReport, WarmResetRecord,
    Work,
};
use poorwill_store::Failure;
use proptest::prelude::*;
use zerocopy::{Immutable, IntoBytes};

const STATE_PAGES: usize = 1;

/// What `write` puts into a state, and what `read` makes of it.
fn through_state<R>(
    write: impl FnOnce(&mut StateWriter<'_>) -> Result<(), StateError>,
    read: impl FnOnce(&mut StateSections<'_>) -> R,
) -> (Vec<u8>, R) {
    let mut pages = [Page::ZERO; STATE_PAGES];
    let mut writer = StateWriter::new(&mut pages);
    write(&mut writer).unwrap();
    let length = writer.finish();
    let mut sections = StateSections::parse(&pages, length).unwrap();
    let result = read(&mut sections);
    assert!(sections.left().is_empty(), "a section was left");
    let bytes = pages.as_bytes()[..usize::try_from(length).unwrap()].to_vec();
    (bytes, result)
}

fn put(
    into: &mut StateWriter<'_>,
    (owner, version): (u32, u16),
    payload: &(impl IntoBytes + Immutable),
) -> Result<(), StateError> {
    into.section(owner, 0, version, payload)
}

/// A section as docs/image-format.md has it.
fn section(owner: [u8; 4], version: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = owner.to_vec();
    bytes.extend(version.to_le_bytes());
    bytes.extend(0u16.to_le_bytes());
    bytes.extend((payload.len() as u64).to_le_bytes());
    bytes.extend(payload);
    bytes
}

const VECTOR: EntryPoint = EntryPoint {
    address: 0x8020_0042,
    argument: 0x1234,
};

/// 100 s into the epoch, and 10 million ticks into the count.
const MOMENT: Moment = Moment {
    ticks: 10_000_000,
    now_ns: Some(100_000_000_000),
};

/// As on a machine of 10 MHz.
fn ticks_in(nanoseconds: u64) -> u64 {
    nanoseconds / 100
}

#[test]
fn the_core_has_its_place_in_an_image() {
    let core = Core::new(3, VECTOR, MOMENT, Some(77));
    let (bytes, read) = through_state(|into| put(into, Core::SECTION, &core), Core::read);
    let words = [3, 0x8020_0042, 0x1234, 10_000_000, 100_000_000_000, 77u64];
    let payload: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    assert_eq!(bytes, section(*b"CORE", 1, &payload));
    let read = read.unwrap();
    assert_eq!(
        (read.hart(), read.vector(), read.deadline()),
        (3, VECTOR, 77)
    );
    assert_eq!(read, core);
}

#[test]
fn what_a_core_lacks_has_words_of_its_own() {
    let moment = Moment {
        now_ns: None,
        ..MOMENT
    };
    let core = Core::new(0, VECTOR, moment, None);
    let words = core.as_bytes().as_chunks::<8>().0;
    assert_eq!(words[4], [0; 8], "no clock");
    assert_eq!(words[5], [0xff; 8], "no timer");
    assert_eq!(core.deadline(), u64::MAX);
}

#[test]
fn without_a_core_of_this_version_nothing_goes_on() {
    let (_, read) = through_state(|_| Ok(()), Core::read);
    assert_eq!(read, Err(StateRefusal::NoCore));
    let owner = u32::from_le_bytes(*b"CORE");
    for (version, words) in [(2, 6), (1, 5), (1, 7)] {
        let payload = vec![0u64; words];
        let write = |into: &mut StateWriter<'_>| into.section(owner, 0, version, &payload[..]);
        let (_, read) = through_state(write, Core::read);
        let refused = StateError::Payload {
            owner,
            version,
            found: 8 * words,
        };
        assert_eq!(read, Err(StateRefusal::Section(refused)));
    }
}

#[test]
fn time_goes_on_while_the_power_is_off() {
    let core = Core::new(0, VECTOR, MOMENT, None);
    let later = Some(102_000_000_000);
    assert_eq!(core.ticks_at(later, ticks_in), 30_000_000);
}

#[test]
fn time_goes_on_where_it_was_without_a_clock_or_with_one_set_back() {
    let core = Core::new(0, VECTOR, MOMENT, None);
    for now_ns in [None, MOMENT.now_ns, Some(99_000_000_000), Some(0)] {
        assert_eq!(core.ticks_at(now_ns, ticks_in), MOMENT.ticks);
    }
    let unknown = Moment {
        now_ns: None,
        ..MOMENT
    };
    let core = Core::new(0, VECTOR, unknown, None);
    assert_eq!(core.ticks_at(MOMENT.now_ns, ticks_in), MOMENT.ticks);
}

#[test]
fn time_does_not_wrap() {
    let late = Moment {
        ticks: u64::MAX - 5,
        ..MOMENT
    };
    let core = Core::new(0, VECTOR, late, None);
    assert_eq!(core.ticks_at(Some(u64::MAX), ticks_in), u64::MAX);
}

const WAKE: WakeReport = WakeReport {
    image: ImageUse::Once,
    generation: 7,
    loaded_bytes: 4096,
    load_ms: 12,
};

fn text_of(words: &str) -> ReportText {
    let mut text = [0; REPORT_BYTES];
    text[..words.len()].copy_from_slice(words.as_bytes());
    text
}

#[test]
fn each_way_to_come_up_has_its_words() {
    let cold = Startup::Cold(&ColdBoot::Key);
    let words = "cold boot: a key was pressed, and the snapshot does not wake";
    assert_eq!(cold.text(Protection::There), text_of(words));
    let image = Startup::Image(&WAKE);
    let words = "woken: generation 7 loaded_bytes=4096 load_ms=12";
    assert_eq!(image.text(Protection::There), text_of(words));
    let ram = Startup::Ram {
        source: Source::Alarm,
        slept_ms: 60_000,
    };
    let words = "woken: from RAM source=alarm slept_ms=60000";
    assert_eq!(ram.text(Protection::There), text_of(words));
}

#[test]
fn machine_mode_that_is_not_protected_is_told_behind_any_reason() {
    let text = |reason: &ColdBoot| {
        let text = Startup::Cold(reason).text(Protection::Missing);
        String::from_utf8(text.to_vec()).unwrap()
    };
    let note = "; machine mode is not protected";
    let short = text(&ColdBoot::Key);
    let words = "cold boot: a key was pressed, and the snapshot does not wake";
    assert_eq!(short.trim_end_matches('\0'), format!("{words}{note}"));
    let long = text(&ColdBoot::from(NoWake::Disabled {
        tries: u32::MAX,
        failure: Some(Failure::Reset(u32::MAX)),
    }));
    assert_eq!(long.trim_end_matches('\0').len(), REPORT_BYTES - 1);
    assert!(long.trim_end_matches('\0').ends_with(note), "{long}");
}

#[test]
fn words_that_do_not_fit_are_cut_before_the_last_byte() {
    let reason = ColdBoot::from(NoWake::Disabled {
        tries: u32::MAX,
        failure: Some(Failure::Reset(u32::MAX)),
    });
    let startup = Startup::Cold(&reason);
    let words = startup.to_string();
    assert!(words.len() >= REPORT_BYTES, "{} bytes fit", words.len());
    let text = startup.text(Protection::There);
    assert_eq!(
        text[..REPORT_BYTES - 1],
        words.as_bytes()[..REPORT_BYTES - 1]
    );
    assert_eq!(text[REPORT_BYTES - 1], 0);
}

#[test]
fn a_report_is_written_over_where_it_still_is() {
    let told = Report {
        address: 0x8220_0100,
        text: text_of("cold boot: no image"),
    };
    let startup = Startup::Image(&WAKE);
    let new = Report {
        text: startup.text(Protection::There),
        ..told
    };
    assert_eq!(
        told.succeed(&told.text, &startup, Protection::There),
        Some(new)
    );
    for changed in [0, 18, REPORT_BYTES - 1] {
        let mut found = told.text;
        found[changed] ^= 1;
        assert_eq!(
            told.succeed(&found, &startup, Protection::There),
            None,
            "byte {changed}"
        );
    }
}

fn read_report(sections: &mut StateSections<'_>) -> Result<Option<Report>, StateError> {
    let report = sections.take_payload(Report::SECTION, 0);
    report.map(Option::<&Report>::copied)
}

#[test]
fn a_report_has_its_place_in_an_image() {
    let report = Report {
        address: 0x8220_0100,
        text: text_of("cold boot: no image"),
    };
    let (bytes, read) = through_state(|into| put(into, Report::SECTION, &report), read_report);
    let mut payload = 0x8220_0100_u64.to_le_bytes().to_vec();
    payload.extend(report.text);
    assert_eq!(bytes, section(*b"REPT", 1, &payload));
    assert_eq!(read, Ok(Some(report)));
    let (_, none) = through_state(|_| Ok(()), read_report);
    assert_eq!(none, Ok(None));
}

#[test]
fn a_report_of_another_version_is_refused() {
    let owner = u32::from_le_bytes(*b"REPT");
    let write = |into: &mut StateWriter<'_>| into.section(owner, 0, 2, &[0u64; 17]);
    let (_, read) = through_state(write, read_report);
    let refused = StateError::Payload {
        owner,
        version: 2,
        found: 136,
    };
    assert_eq!(read, Err(refused));
}

const ATTEMPT: BootAttempt = BootAttempt {
    generation: 9,
    woken_at_ns: 1_700_000_000_000_000_000,
    trial_ms: 30_000,
};

#[test]
fn what_a_start_leaves_is_found_by_the_next() {
    for start in [
        WarmResetRecord::None,
        WarmResetRecord::Started,
        WarmResetRecord::OnTrial(ATTEMPT),
    ] {
        assert_eq!(WarmResetRecord::from_words(start.to_words()), start);
    }
    assert_eq!(WarmResetRecord::OnTrial(ATTEMPT).attempt(), Some(ATTEMPT));
    assert_eq!(WarmResetRecord::Started.attempt(), None);
    assert_eq!(WarmResetRecord::None.attempt(), None);
}

/// An update of the firmware must not lose a trial.
#[test]
fn an_attempt_keeps_its_words() {
    let words = WarmResetRecord::OnTrial(ATTEMPT).to_words();
    assert_eq!(words[0].to_le_bytes(), *b"started\0");
    assert_eq!(
        words[1..4],
        [ATTEMPT.generation, ATTEMPT.woken_at_ns, ATTEMPT.trial_ms]
    );
    let mut check = u64::from_le_bytes(*b"on trial");
    for word in &words[1..4] {
        check ^= word;
        check = check.wrapping_mul(1 << 23) | check >> 41;
        check = check.wrapping_add(check << 2);
    }
    assert_eq!(words[4], check);
}

#[test]
fn only_a_word_of_zero_says_that_there_was_no_start() {
    let left_over = [0, 1, 2, 3, 4];
    assert_eq!(
        WarmResetRecord::from_words(left_over),
        WarmResetRecord::None
    );
    let garbage = [1, 0, 0, 0, 0];
    assert_eq!(
        WarmResetRecord::from_words(garbage),
        WarmResetRecord::Started
    );
}

proptest! {
    /// One bit is enough to doubt an attempt.
    #[test]
    fn a_damaged_attempt_is_none(generation: u64, woken_at_ns: u64, trial_ms: u64, bit in 0usize..320) {
        let attempt = BootAttempt { generation, woken_at_ns, trial_ms };
        let mut words = WarmResetRecord::OnTrial(attempt).to_words();
        words[bit / 64] ^= 1 << (bit % 64);
        prop_assert_eq!(WarmResetRecord::from_words(words), WarmResetRecord::Started);
    }

    /// A bar never goes back, is never longer than it is, and is full in the end.
    #[test]
    fn a_bar_moves_on(total_pages in 0u64..1 << 40, steps in prop::collection::vec(0u64..1 << 41, 0..50)) {
        let mut bar = Bar::new(Job::Waking);
        let mut shown = bar.to_string();
        for done_pages in steps {
            let moved = bar.advance(Progress { done_pages, total_pages, moved_bytes: 0 });
            let now = bar.to_string();
            prop_assert_eq!(now.len(), shown.len());
            prop_assert_eq!(moved, now != shown);
            prop_assert!(now.matches('#').count() >= shown.matches('#').count());
            shown = now;
        }
        let all = Progress { done_pages: total_pages, total_pages, moved_bytes: 0 };
        bar.advance(all);
        let is_full = bar.to_string() == "waking [####################] 100 %";
        prop_assert_eq!(is_full, total_pages > 0 || bar.has_moved());
    }
}

#[test]
fn a_bar_is_drawn_when_it_has_got_on_by_a_step() {
    let at = |done_pages| Progress {
        done_pages,
        total_pages: 200,
        moved_bytes: 0,
    };
    let mut bar = Bar::new(Job::Sleeping);
    assert_eq!(bar.to_string(), "sleeping [....................]   0 %");
    assert!(!bar.advance(at(9)));
    assert!(!bar.has_moved());
    assert!(bar.advance(at(10)));
    assert!(bar.has_moved());
    assert_eq!(bar.to_string(), "sleeping [#...................]   5 %");
    assert!(!bar.advance(at(19)));
    assert!(!bar.advance(at(5)), "it does not go back");
    assert!(bar.advance(at(100)));
    assert_eq!(bar.to_string(), "sleeping [##########..........]  50 %");
}

#[test]
fn work_has_two_pages_beside_the_workspace() {
    for os_pages in [1, 1000, 1 << 22] {
        let pages = Work::pages_needed(os_pages);
        assert_eq!(pages, Workspace::pages_needed(os_pages) + 2);
    }
    let mut pages = [Page::ZERO; 5];
    let work = Work::take(&mut pages).unwrap();
    assert_eq!(work.workspace.len(), 3);
    *work.scratch = Page([1; 512]);
    *work.record = Page([2; 512]);
    work.workspace.fill(Page([3; 512]));
    let first = pages.each_ref().map(|page| page.0[0]);
    assert_eq!(first, [1, 2, 3, 3, 3]);
    assert!(Work::take(&mut pages[..1]).is_none());
}

#[test]
fn a_row_of_resets_ends() {
    let mut row = ResetRow::default();
    for _ in 0..MAX_RESETS {
        row = row.with_reset(0).expect("a few resets may help");
        assert_eq!(ResetRow::from_words(row.to_words()), row);
    }
    assert_eq!(row.with_reset(599_999), None);
    // A machine that has worked for a while begins a new row.
    let next = row.with_reset(600_000).expect("a new row");
    assert_eq!(Some(next), ResetRow::default().with_reset(0));
    // Other data, such as memory after a power-on, is no row.
    for words in [[0, 0], [u64::MAX; 2], [3, 3], [row.to_words()[0], 0]] {
        assert_eq!(
            ResetRow::from_words(words),
            ResetRow::default(),
            "{words:x?}"
        );
    }
    let [count, check] = row.to_words();
    assert_eq!(
        ResetRow::from_words([count - 1, check]),
        ResetRow::default()
    );
}
