//! Measures a machine with two domains: a critical guest that sends CAN frames, and a Debian with
//! redis. The machine's cold boots are compared with its wakes, with powered RAM and with the power
//! off, and Linux's wakes with those of a machine without domains.
//!
//! Both machines take turns, because a host's speed changes within minutes.

mod alone;
pub(crate) mod figures;
pub mod frames;
mod setting;
mod together;

use poorwill_machine::{Qemu, paths};

pub use figures::{Domains, Start};

use crate::BenchOptions;
use setting::{MEMORY, Setting};

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
        together::measure(&setting, turn, figures)?;
        alone::measure(&setting, turn, figures)?;
        tell(&format!(
            "{} of {wakes} wakes of each kind",
            figures.wakes.len()
        ));
    }
    Ok(())
}
