//! Progress of long work, on standard error. Nothing is shown if that is not a terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar that counts bytes.
#[must_use]
pub(crate) fn bytes(message: &str, total: u64) -> ProgressBar {
    let template = "{msg} [{bar:30}] {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec}";
    let style = ProgressStyle::with_template(template).map_or_else(
        |_| ProgressStyle::default_bar(),
        |style| style.progress_chars("=> "),
    );
    ProgressBar::new(total)
        .with_style(style)
        .with_message(message.to_owned())
}

/// A line with the current step of long work, and the elapsed time.
#[must_use]
pub(crate) fn steps(total: u64) -> ProgressBar {
    let style =
        ProgressStyle::with_template("[{elapsed_precise}] part {pos} of {len} done: {wide_msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(total).with_style(style);
    bar.enable_steady_tick(std::time::Duration::from_secs(1));
    bar
}
