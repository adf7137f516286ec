use serde::Serialize;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Target {
    pub what: String,
    pub limit: Limit,
    /// One value for each measured case.
    pub values: Vec<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

/// The value of one case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Value {
    pub case: String,
    /// The ratio.
    pub value: f64,
    /// Whether it is within the limit.
    pub met: bool,
    /// The 95 % confidence interval; `None`: there is only one measurement.
    pub interval: Option<[f64; 2]>,
}

/// Whether a target is met, from the best verdict to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    Met,
    /// The target is not met, but the limit is within the confidence interval.
    Unclear,
    /// The target is not met, or was not measured.
    Missed,
}

impl Verdict {
    /// The verdict as text, such as `met`.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Verdict::Met => "met",
            Verdict::Unclear => "unclear",
            Verdict::Missed => "NOT MET",
        }
    }
}

impl Value {
    fn verdict(&self, limit: Limit) -> Verdict {
        let ends = self.interval.unwrap_or([self.value; 2]);
        match self.met {
            true => Verdict::Met,
            false if ends.into_iter().any(|end| limit.holds(end)) => Verdict::Unclear,
            false => Verdict::Missed,
        }
    }

    /// The value as text: `0.84 (0.79 to 0.92)`.
    #[must_use]
    pub fn text(&self) -> String {
        let interval = self
            .interval
            .map(|[low, high]| format!(" ({low:.2} to {high:.2})"));
        format!("{:.2}{}", self.value, interval.unwrap_or_default())
    }
}

impl Limit {
    #[must_use]
    pub fn holds(self, value: f64) -> bool {
        match self {
            Limit::AtMost(most) => value <= most,
            Limit::AtLeast(least) => value >= least,
        }
    }

    /// The limit as text: `at most 1.1`.
    #[must_use]
    pub fn text(self) -> String {
        match self {
            Limit::AtMost(most) => format!("at most {most}"),
            Limit::AtLeast(least) => format!("at least {least}"),
        }
    }
}

impl Target {
    /// The worst case's verdict. Without a case, the target is missed.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let worst = self.worst().map(|worst| worst.verdict(self.limit));
        worst.unwrap_or(Verdict::Missed)
    }

    /// The value that is furthest beyond the limit, or else closest to it.
    #[must_use]
    pub fn worst(&self) -> Option<&Value> {
        let badness = |value: &Value| match self.limit {
            Limit::AtMost(_) => value.value,
            Limit::AtLeast(_) => -value.value,
        };
        self.values.iter().max_by(|one, other| {
            let verdicts = one.verdict(self.limit).cmp(&other.verdict(self.limit));
            verdicts.then(badness(one).total_cmp(&badness(other)))
        })
    }
}

pub(super) fn value(case: &str, value: f64, limit: Limit) -> Value {
    Value {
        case: case.into(),
        value,
        met: limit.holds(value),
        interval: None,
    }
}
