//! Figures of "Decelerating Suspend and Resume in Operating Systems" (Zhai, Guo, Li and Lin, 2017), by
//! its slides. They are of other machines.

/// A mobile machine: the times of its suspend and its resume in ms, and its drivers for devices.
pub(crate) struct Machine {
    pub(crate) name: &'static str,
    pub(crate) suspend_ms: f64,
    pub(crate) resume_ms: f64,
    pub(crate) drivers: Option<u32>,
}

/// Slides 6 and 8.
pub(crate) const MACHINES: [Machine; 4] = [
    machine("Nexus 5", 119.0, 88.0, Some(187)),
    machine("Gear", 191.0, 159.0, Some(120)),
    machine("Note 4", 231.0, 316.0, Some(116)),
    machine("Panda", 262.0, 492.0, None),
];

const fn machine(
    name: &'static str,
    suspend_ms: f64,
    resume_ms: f64,
    drivers: Option<u32>,
) -> Machine {
    Machine {
        name,
        suspend_ms,
        resume_ms,
        drivers,
    }
}

/// Slide 16: the slow-down of the translator that they began with.
pub(crate) const FIRST: f64 = 20.0;

/// Slide 20: the translated code's cycles by those of native code on the weak core.
pub(crate) const OPTIMISED: f64 = 2.0;

/// Slide 23: a pair of cores, with their power in mW.
pub(crate) struct Cores {
    pub(crate) name: &'static str,
    pub(crate) little_mw: f64,
    pub(crate) big_mw: f64,
}

pub(crate) const CORES: [Cores; 3] = [
    cores("Exynos 5430 (A7, A15)", 85.0, 750.0),
    cores("Exynos 5433 (A53, A57)", 189.0, 1480.0),
    cores("OMAP 4460 (M3, A9)", 21.1, 672.0),
];

const fn cores(name: &'static str, little_mw: f64, big_mw: f64) -> Cores {
    Cores {
        name,
        little_mw,
        big_mw,
    }
}
