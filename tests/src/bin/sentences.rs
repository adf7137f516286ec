//! `make sentences`: draws sentences at random from docs, comments and messages, so that a reader
//! can judge the project's English. `COUNT=20` is their number; `SEED=` repeats a draw.

use std::env;
use std::path::Path;

use poorwill_tests::prose;

/// The number in an environment variable.
fn number(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

fn main() -> std::io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut all = prose::sentences(&root)?;
    // One or two words are a name and not a sentence.
    all.retain(|sentence| sentence.words() > 2);
    let seed = number("SEED").unwrap_or_else(|| fastrand::u64(1..1_000_000));
    let mut random = fastrand::Rng::with_seed(seed);
    random.shuffle(&mut all);
    println!("{} sentences; SEED={seed} repeats this draw", all.len());
    let count = number("COUNT").unwrap_or(20);
    for one in all
        .iter()
        .take(usize::try_from(count).unwrap_or(usize::MAX))
    {
        println!("{:?} {}:{}: {}", one.kind, one.file, one.line, one.text);
    }
    Ok(())
}
