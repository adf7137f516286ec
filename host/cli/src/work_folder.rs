use std::fs;
use std::path::Path;

use anyhow::Context;
use poorwill_machine::paths;
use tempfile::TempDir;

/// Creates a temporary folder in the cache, whose name begins with `command`. Also removes such
/// folders of processes that were killed.
pub(crate) fn work_folder(command: &str) -> anyhow::Result<TempDir> {
    let cache = paths::cache()?;
    fs::create_dir_all(&cache).with_context(|| format!("creating {}", cache.display()))?;
    for entry in fs::read_dir(&cache).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| {
            let (pid, _) = name
                .strip_prefix(command)?
                .strip_prefix('-')?
                .split_once('-')?;
            pid.parse::<u32>().ok()
        });
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    let prefix = format!("{command}-{}-", std::process::id());
    Ok(tempfile::Builder::new()
        .prefix(&prefix)
        .tempdir_in(&cache)?)
}
