//! Published numbers that the arithmetic of energy must give.

use poorwill_bench::energy::account::Account;
use poorwill_bench::energy::builtin;
use poorwill_bench::energy::thesis::{Reading, Remade, remade};

/// The most that a number may be off, beyond what rounding explains.
const LIMIT: f64 = 0.02;

fn find<'r>(rows: &'r [Remade], reading: Reading, what: &str, printed: &str) -> &'r Remade {
    let mut of = rows.iter().filter(|row| row.reading == reading);
    of.find(|row| row.what.starts_with(what) && row.printed.text == printed)
        .unwrap_or_else(|| panic!("no row {what:?} {printed}"))
}

/// Every number of the thesis, with its deviation (`--nocapture` shows them).
#[test]
fn the_thesis_s_numbers_are_remade() {
    let rows = remade().unwrap();
    for row in &rows {
        let computed = &row.computed;
        println!(
            "{}: {} printed, {:.2} computed, {:+.2} % off, {:.2} % beyond rounding",
            row.what,
            row.printed.text,
            computed.value,
            computed.deviation(&row.printed) * 100.0,
            computed.beyond_rounding(&row.printed) * 100.0
        );
    }
    let off: Vec<_> = rows
        .iter()
        .filter(|row| row.reading == Reading::Printed)
        .filter(|row| row.computed.beyond_rounding(&row.printed) > LIMIT)
        .collect();
    assert!(off.is_empty(), "{off:#?}");
    // None is left out.
    let printed = rows.iter().filter(|row| row.reading == Reading::Printed);
    assert_eq!(printed.count(), 36, "the thesis's numbers");
}

/// Three estimates do not follow from what the text says of them: known, and
/// held to what does follow.
#[test]
fn what_the_thesis_s_text_says_gives_other_numbers_in_three_places() {
    let rows = remade().unwrap();
    let known = [
        ("break-even at 25 % (min), least", "15", 21.56),
        ("break-even at 25 % (min), most", "17", 23.85),
        ("break-even, all savings (min), least", "31", 29.96),
        ("break-even, all savings (min), most", "35", 33.22),
        ("break-even, all savings at 25 % (min), least", "12", 8.65),
        ("break-even, all savings at 25 % (min), most", "13", 9.49),
    ];
    for (what, printed, minutes) in known {
        let row = find(&rows, Reading::Literal, what, printed);
        assert!((row.computed.value - minutes).abs() < 0.005, "{row:#?}");
    }
    let literal = rows.iter().filter(|row| row.reading == Reading::Literal);
    assert_eq!(literal.count(), known.len());
}

/// The D1's own break-even, as given: 1040 µs.
#[test]
fn a_hart_s_suspend_breaks_even_where_it_is_said_to() {
    let profile = builtin::profile("d1-hart").unwrap();
    let account = Account::of("d1-hart", &profile, &[], None);
    let seconds = account.break_evens[0].seconds.unwrap();
    println!("hart suspend: {:.1} µs, given 1040 µs", seconds * 1e6);
    assert!((seconds - 1040e-6).abs() <= 5e-6, "{seconds}");
}
