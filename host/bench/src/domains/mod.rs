//! Measures a machine with two domains: a critical guest that sends CAN frames, and a Debian with
//! redis. The machine's cold boots are compared with its wakes from powered RAM, and with the power
//! off. Linux's wakes are compared with those of a machine without domains.
//!
//! Both machines take turns, because a host's speed changes within minutes: at each wake with the
//! power off, and after each ten wakes from powered RAM.

mod alone;
pub(crate) mod figures;
pub mod frames;
mod setting;
mod together;

use poorwill_machine::{Qemu, paths};

pub use figures::{Domains, Start};

use crate::BenchOptions;
use alone::Alone;
use setting::{MEMORY, Setting};
use together::Together;

/// Wakes of each kind after each cold boot.
const TURN: usize = 10;

/// Measures `options.rounds` wakes of each kind. After an error, `results` has the figures up to it.
pub(crate) fn measure(
    options: &BenchOptions,
    results: &mut Option<Domains>,
    tell: &dyn Fn(&str),
) -> anyhow::Result<()> {
    let setting = Setting {
        options,
        qemu: Qemu::find()?,
        guest: paths::Guest::find(paths::Kernel::Stock)?,
    };
    let figures = results.insert(Domains {
        harts: options.harts,
        memory_mib: MEMORY.in_mib(),
        ..Domains::default()
    });
    let wakes = options.rounds as usize;
    while figures.wakes.len() < wakes {
        let turn = TURN.min(wakes - figures.wakes.len());
        measure_turn(&setting, turn, figures)?;
        tell(&format!(
            "{} of {wakes} wakes of each kind",
            figures.wakes.len()
        ));
    }
    Ok(())
}

/// Boots both machines, and adds the figures of `wakes` wakes of each kind. While one runs, the
/// other is off.
fn measure_turn(setting: &Setting<'_>, wakes: usize, figures: &mut Domains) -> anyhow::Result<()> {
    let (mut together, booted) = Together::boot(setting)?;
    figures.cold_boots.push(booted);
    together.sleep()?;
    let mut alone = Alone::boot(setting)?;
    alone.sleep()?;
    for _ in 0..wakes {
        figures.persist_wakes.push(together.wake()?);
        together.sleep()?;
        figures.alone_persist_wakes.push(alone.wake()?);
        alone.sleep()?;
    }
    together.wake_to_retain()?;
    for _ in 0..wakes {
        let woken = together.rest_and_wake()?;
        figures.wakes.push(woken);
        figures.linux_ms.push(woken.linux_ms());
    }
    figures.frames += together.end()?;
    alone.wake_to_retain()?;
    for _ in 0..wakes {
        figures.alone_ms.push(alone.rest_and_wake()?.linux_ms());
    }
    Ok(())
}
