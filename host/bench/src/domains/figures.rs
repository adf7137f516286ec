use serde::{Deserialize, Serialize};

/// The figures of a machine with two domains, beside those of a machine with Linux alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Domains {
    /// Harts of each domain.
    pub harts: u32,
    /// RAM of each domain, in MiB.
    pub memory_mib: u64,
    /// Starts from the power-on.
    pub cold_boots: Vec<Start>,
    /// Starts from the byte that wakes the machine out of its sleep with powered RAM.
    pub wakes: Vec<Start>,
    /// Wakes from the power-on, out of a sleep with the power off.
    pub persist_wakes: Vec<Start>,
    /// The same of the machine without domains.
    pub alone_persist_wakes: Vec<Start>,
    /// Linux's part of each wake from powered RAM: from the wake event that the firmware sees to redis's
    /// first answer, in ms.
    pub linux_ms: Vec<f64>,
    /// The same on the machine without domains.
    pub alone_ms: Vec<f64>,
    /// Frames on the bus. None of them is lost, repeated or stale.
    pub frames: usize,
}

/// When each domain of the machine is back, in ms by the host's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Start {
    /// The firmware begins: QEMU has started, or it has seen the byte.
    pub began_ms: Option<f64>,
    /// The firmware lets the first domain go on.
    pub released_ms: Option<f64>,
    /// The critical guest's first frame; `None`: the machine has no domains.
    pub first_frame_ms: Option<f64>,
    /// The firmware lets Linux go on.
    pub loaded_ms: Option<f64>,
    /// Redis's first answer in Linux.
    pub answer_ms: f64,
}

impl Start {
    /// From the firmware's begin to redis's first answer.
    pub(super) fn linux_ms(&self) -> f64 {
        self.answer_ms - self.began_ms.unwrap_or_default()
    }
}

/// A figure of each start.
pub(crate) type Figure = fn(&Start) -> Option<f64>;

pub(crate) const FIRST_FRAME: Figure = |start| start.first_frame_ms;
pub(crate) const ANSWER: Figure = |start| Some(start.answer_ms);

/// A figure of some starts.
pub(crate) fn of(starts: &[Start], figure: Figure) -> Vec<f64> {
    starts.iter().filter_map(figure).collect()
}

#[cfg(test)]
pub(crate) fn sample() -> Domains {
    let start = |first_frame_ms, answer_ms| Start {
        first_frame_ms: Some(first_frame_ms),
        answer_ms,
        ..Start::default()
    };
    let alone = |answer_ms| Start {
        began_ms: Some(150.0),
        loaded_ms: Some(400.0),
        answer_ms,
        ..Start::default()
    };
    Domains {
        harts: 2,
        memory_mib: 512,
        cold_boots: vec![start(300.0, 20_000.0), start(340.0, 22_000.0)],
        wakes: vec![start(3.0, 200.0), start(5.0, 220.0)],
        persist_wakes: vec![
            Start {
                began_ms: Some(200.0),
                released_ms: Some(250.0),
                loaded_ms: Some(500.0),
                ..start(300.0, 1000.0)
            };
            2
        ],
        alone_persist_wakes: vec![alone(1000.0), alone(1000.0)],
        linux_ms: vec![190.0, 210.0],
        alone_ms: vec![200.0],
        frames: 4000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_an_earlier_bench_are_read() {
        let text = r#"{"cold_boots": [{"first_frame_ms": 300.0, "answer_ms": 20000.0}]}"#;
        let read: Domains = serde_json::from_str(text).unwrap();
        assert_eq!(of(&read.cold_boots, FIRST_FRAME), [300.0]);
        assert_eq!(of(&read.cold_boots, ANSWER), [20_000.0]);
        assert!(read.persist_wakes.is_empty() && read.cold_boots[0].loaded_ms.is_none());
    }
}
