use serde::{Deserialize, Serialize};

use crate::mean::Mean;

/// The figures of a machine with two domains, beside those of a machine with Linux alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Domains {
    /// Harts of each domain.
    pub harts: u32,
    /// RAM of each domain, in MiB.
    pub memory_mib: u64,
    /// Starts from the power-on.
    pub cold_boots: Vec<Start>,
    /// Starts from the byte that wakes the machine out of its sleep with powered RAM.
    pub wakes: Vec<Start>,
    /// Linux's part of each of these wakes: from the wake event that the firmware sees to redis's
    /// first answer, in ms.
    pub linux_ms: Vec<f64>,
    /// The same on the machine without domains.
    pub alone_ms: Vec<f64>,
    /// Frames on the bus. None of them is lost or repeated.
    pub frames: usize,
}

/// When each domain of the machine is back, in ms by the host's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// The critical guest's first frame.
    pub first_frame_ms: f64,
    /// Redis's first answer in Linux.
    pub answer_ms: f64,
}

/// A figure of each start.
pub(crate) type Figure = fn(&Start) -> f64;

pub(crate) const FIRST_FRAME: Figure = |start| start.first_frame_ms;
pub(crate) const ANSWER: Figure = |start| start.answer_ms;

impl Domains {
    pub(crate) fn of_wakes(&self, figure: Figure) -> Vec<f64> {
        self.wakes.iter().map(figure).collect()
    }

    pub(crate) fn of_cold_boots(&self, figure: Figure) -> Vec<f64> {
        self.cold_boots.iter().map(figure).collect()
    }

    /// How many times as long a cold boot takes as a wake.
    pub(crate) fn gain(&self, figure: Figure) -> Option<Mean> {
        Mean::ratio(&self.of_cold_boots(figure), &self.of_wakes(figure))
    }

    /// How many times as long Linux takes to wake as it does without domains.
    pub(crate) fn beside(&self) -> Option<Mean> {
        Mean::ratio(&self.linux_ms, &self.alone_ms)
    }
}

#[cfg(test)]
pub(crate) fn sample() -> Domains {
    let start = |first_frame_ms, answer_ms| Start {
        first_frame_ms,
        answer_ms,
    };
    Domains {
        harts: 2,
        memory_mib: 512,
        cold_boots: vec![start(300.0, 20_000.0), start(340.0, 22_000.0)],
        wakes: vec![start(3.0, 200.0), start(5.0, 220.0)],
        linux_ms: vec![190.0, 210.0],
        alone_ms: vec![200.0],
        frames: 4000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_means() {
        let sample = sample();
        let gain = sample.gain(FIRST_FRAME).unwrap();
        assert!((gain.mean - 80.0).abs() < 1e-9);
        assert_eq!(gain.interval, [60.0, 340.0 / 3.0]);
        assert!((sample.gain(ANSWER).unwrap().mean - 100.0).abs() < 1e-9);
        assert!((sample.beside().unwrap().mean - 1.0).abs() < 1e-9);
    }

    #[test]
    fn without_a_figure_there_is_no_ratio() {
        let none = Domains {
            alone_ms: Vec::new(),
            ..sample()
        };
        assert_eq!(none.beside(), None);
    }
}
