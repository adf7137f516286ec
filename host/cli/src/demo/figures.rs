use std::time::Duration;

use poorwill_bench::table::table;
use poorwill_machine::console::Fields;
use poorwill_machine::size::Bytes;

/// The times of a sleep, a wake or a cold boot. `None`: not measured by itself, but counted in
/// another row, which the text below the table names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Column {
    /// QEMU's own start, up to the firmware's first instruction.
    pub(crate) emulator: Option<Duration>,
    /// The firmware's part, without `transfer`.
    pub(crate) firmware: Option<Duration>,
    /// The firmware's save or load.
    pub(crate) transfer: Option<Duration>,
    /// The kernel's part.
    pub(crate) kernel: Option<Duration>,
    /// The rest: initial RAM file system, systemd and redis.
    pub(crate) userland: Option<Duration>,
    /// The whole time, by the host's clock.
    pub(crate) total: Duration,
    /// Bytes saved or loaded.
    pub(crate) bytes: Option<Bytes>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// From `systemctl suspend` to QEMU's end.
    pub(crate) sleep: Column,
    /// From QEMU's start to redis's first answer.
    pub(crate) wake: Column,
    /// From QEMU's start to redis's first answer.
    pub(crate) cold_boot: Column,
    /// RAM that the OS used, as the firmware counted it.
    pub(crate) used: Option<Bytes>,
}

impl Column {
    /// The times of a sleep that took `total`. `sleep` has the firmware's figures. `woke` has the
    /// kernel's part, which the guest reports after the wake.
    #[must_use]
    pub(crate) fn of_sleep(total: Duration, sleep: &Fields, woke: &Fields) -> Self {
        let kernel = woke.milliseconds("kernel_down_ms");
        let (firmware, transfer) = firmware_parts(sleep, "save_ms");
        let userland = rest(total, &[firmware, transfer, kernel]);
        let bytes = sleep.number("saved_bytes").map(Bytes);
        Column {
            emulator: None,
            firmware,
            transfer,
            kernel,
            userland,
            total,
            bytes,
        }
    }

    /// The times of a wake. From power-on, the firmware's line came after `handed_over`, and
    /// redis's answer after `total`.
    #[must_use]
    pub(crate) fn of_wake(
        handed_over: Duration,
        total: Duration,
        wake: &Fields,
        woke: &Fields,
    ) -> Self {
        let kernel = woke.milliseconds("kernel_ms");
        let (firmware, transfer) = firmware_parts(wake, "load_ms");
        let emulator = rest(handed_over, &[firmware, transfer]);
        let userland = rest(total.saturating_sub(handed_over), &[kernel]);
        let bytes = wake.number("loaded_bytes").map(Bytes);
        Column {
            emulator,
            firmware,
            transfer,
            kernel,
            userland,
            total,
            bytes,
        }
    }

    /// The times of a cold boot. The arguments are times from power-on: to the end of the
    /// firmware's part, to the kernel's first program, and to redis's answer.
    #[must_use]
    pub(crate) fn of_cold_boot(
        handed_over: Duration,
        first_program: Option<Duration>,
        total: Duration,
    ) -> Self {
        Column {
            emulator: Some(handed_over),
            kernel: first_program.map(|at| at.saturating_sub(handed_over)),
            userland: Some(total.saturating_sub(first_program.unwrap_or(handed_over))),
            total,
            ..Column::default()
        }
    }
}

/// The firmware's time without the transfer, and the transfer's, if the line has both.
fn firmware_parts(line: &Fields, transfer: &str) -> (Option<Duration>, Option<Duration>) {
    match (line.milliseconds("ms"), line.milliseconds(transfer)) {
        (Some(all), Some(part)) => (Some(all.saturating_sub(part)), Some(part)),
        // The line has no transfer time. Nearly all of the firmware's time is transfer.
        (all, _) => (None, all),
    }
}

fn rest(total: Duration, parts: &[Option<Duration>]) -> Option<Duration> {
    let parts = parts.iter().flatten().sum();
    Some(total.saturating_sub(parts))
}

impl Figures {
    /// A table with the seconds and bytes of sleep, wake and cold boot.
    #[must_use]
    pub(crate) fn table(&self) -> String {
        let columns = [&self.sleep, &self.wake, &self.cold_boot];
        let mut table = table(["seconds", "sleep", "wake", "cold boot"], 1);
        let mut row = |name: &str, of: &dyn Fn(&Column) -> String| {
            table.add_row([name.to_owned()].into_iter().chain(columns.map(of)));
        };
        row("QEMU starts", &|column| seconds(column.emulator));
        row("firmware", &|column| seconds(column.firmware));
        row("firmware saves, loads", &|column| seconds(column.transfer));
        row("kernel", &|column| seconds(column.kernel));
        row("userland", &|column| seconds(column.userland));
        row("total", &|column| seconds(Some(column.total)));
        row("bytes", &|column| {
            column.bytes.map_or("-".into(), |bytes| bytes.to_string())
        });
        table.to_string()
    }
}

fn seconds(time: Option<Duration>) -> String {
    time.map_or("-".into(), |time| format!("{:.3}", time.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn fields(line: &str) -> Fields {
        Fields::parse(line, "").unwrap()
    }

    #[test]
    fn a_sleep_is_divided_without_remainder() {
        let sleep = fields("used_bytes=1 saved_bytes=2048 ms=500 save_ms=480");
        let column = Column::of_sleep(ms(900), &sleep, &fields("kernel_down_ms=50"));
        assert_eq!(column.firmware, Some(ms(20)));
        assert_eq!(column.transfer, Some(ms(480)));
        assert_eq!(column.kernel, Some(ms(50)));
        assert_eq!(column.userland, Some(ms(350)));
        assert_eq!(column.bytes, Some(Bytes(2048)));
    }

    #[test]
    fn a_wake_is_divided_at_the_firmware_s_line() {
        let wake = fields("loaded_bytes=4096 ms=170");
        let column = Column::of_wake(ms(400), ms(700), &wake, &fields("kernel_ms=100"));
        assert_eq!(column.emulator, Some(ms(230)));
        assert_eq!((column.firmware, column.transfer), (None, Some(ms(170))));
        assert_eq!(
            (column.kernel, column.userland),
            (Some(ms(100)), Some(ms(200)))
        );
    }

    #[test]
    fn clocks_that_disagree_do_not_give_negative_times() {
        let wake = fields("ms=900");
        let column = Column::of_wake(ms(400), ms(300), &wake, &fields("kernel_ms=100"));
        assert_eq!(
            (column.emulator, column.userland),
            (Some(ms(0)), Some(ms(0)))
        );
    }

    #[test]
    fn table_has_a_row_for_each_part() {
        let figures = Figures {
            cold_boot: Column::of_cold_boot(ms(300), Some(ms(2300)), ms(12_700)),
            ..Figures::default()
        };
        let table = figures.table();
        let kernel = table.lines().find(|line| line.contains("kernel")).unwrap();
        assert_eq!(
            kernel.split('|').map(str::trim).collect::<Vec<_>>(),
            ["", "kernel", "-", "-", "2.000", ""]
        );
        assert!(
            table.contains("12.700") && table.contains("10.400"),
            "{table}"
        );
    }
}
