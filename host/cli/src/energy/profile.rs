//! Profiles: the powers of a machine's phases, each with its source, as TOML.

use std::fs;
use std::io;
use std::path::Path;

use serde::Deserialize;
use thiserror::Error;
use uom::si::energy::joule;
use uom::si::f64::{Energy, Power, Time};
use uom::si::power::watt;
use uom::si::time::second;

use super::measured::MeasuredPart;
use super::model::{Mode, Phase};

/// A machine: what its modes take, as somebody measured or assumed it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The machine, in a line.
    pub title: String,
    /// What one must know to judge the figures.
    pub about: String,
    /// The publication that "Table" and "Figure" in the sources are of; or `given`.
    pub publication: String,
    /// Where images would be kept.
    pub device: Option<Device>,
    /// Its modes.
    pub modes: Vec<ModeProfile>,
}

/// One figure, with where it is from.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The figure, zero or more; its unit is in the field's name.
    pub value: f64,
    /// A table, a figure or a section of the publication; `given` or `assumed`,
    /// and why.
    pub source: String,
}

/// How fast a medium moves an image.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// What it is.
    pub name: String,
    /// Loading, in bytes for each second.
    pub read_bytes_per_second: Figure,
    /// Saving.
    pub write_bytes_per_second: Figure,
}

/// What a mode is to Poorwill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The machine runs on: nothing to enter or to leave.
    Awake,
    /// RAM stays powered.
    Retain,
    /// An image is saved, and the power is off.
    Persist,
    /// RAM is persistent itself, and the power is off.
    Cut,
    /// One hart is suspended.
    Hart,
    /// Off without an image; the OS boots.
    Off,
}

/// One mode.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModeProfile {
    /// Its name.
    pub name: String,
    /// What it is to Poorwill.
    pub kind: Kind,
    /// The power while it lasts.
    pub kept_watts: Figure,
    /// From the request until it lasts.
    #[serde(default)]
    pub enter: Vec<PhaseProfile>,
    /// From the wake event until the OS runs.
    #[serde(default)]
    pub leave: Vec<PhaseProfile>,
}

/// One phase: two of power, time and energy; or power alone, where the time is
/// taken from a measurement.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhaseProfile {
    /// What happens in it.
    pub name: String,
    /// Its power.
    pub watts: Option<Figure>,
    /// Its time.
    pub seconds: Option<Figure>,
    /// Its energy.
    pub joules: Option<Figure>,
    /// What of a measured sleep may take its place.
    pub measured: Option<MeasuredPart>,
    /// What it consists of, at the same power.
    #[serde(default)]
    pub parts: Vec<PartProfile>,
}

/// A part of a phase.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartProfile {
    /// What happens in it.
    pub name: String,
    /// Its time. One part of each phase has none: it is what the others leave.
    pub seconds: Option<Figure>,
    /// What of a measured sleep may take its place.
    pub measured: Option<MeasuredPart>,
    /// Whether the machine could do without: see [`Times::without_avoidable`].
    #[serde(default)]
    pub avoidable: bool,
}

/// Where the times of phases come from.
pub trait Times {
    /// How long this took; `None`: as long as the profile says.
    fn of(&self, part: MeasuredPart) -> Option<Time>;

    /// Whether what the machine could do without is left out.
    fn without_avoidable(&self) -> bool {
        false
    }
}

/// The times of the profile itself.
#[derive(Clone, Copy, Debug)]
pub struct Given;

impl Times for Given {
    fn of(&self, _: MeasuredPart) -> Option<Time> {
        None
    }
}

/// Why there is no profile.
#[derive(Debug, Error)]
pub enum ProfileError {
    /// Not one of those that are built in.
    #[error(
        "there is no profile {name:?}: the built-in ones are {known}; `--profile FILE` reads one of yours"
    )]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// Cannot be read.
    #[error("cannot read the profile {file}: {reason}")]
    Read {
        /// The file.
        file: String,
        /// The operating system's reason.
        reason: io::Error,
    },
    /// No TOML, a field that is missing, one that does not exist, or of another type.
    #[error("{file} is no profile: {reason}")]
    Malformed {
        /// The file.
        file: String,
        /// Where and why.
        reason: toml::de::Error,
    },
    /// A profile by its form, but not by what it says.
    #[error("{file}: {place}: {fault}")]
    Wrong {
        /// The file.
        file: String,
        /// Where in it.
        place: String,
        /// What is wrong there.
        fault: Fault,
    },
}

/// What may be wrong with a figure, a phase or a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// Below zero, infinite, or not a number.
    #[error("must be a finite number, zero or more")]
    NotANumber,
    /// A divisor.
    #[error("must be more than zero")]
    Zero,
    /// A source without a word.
    #[error("its source is empty: name a table, or write `given` or `assumed` and why")]
    NoSource,
    /// Too little or too much is known.
    #[error("give two of `watts`, `seconds` and `joules`, or `watts` and `measured`")]
    Undetermined,
    /// Parts need exactly one that takes the rest.
    #[error(
        "exactly one of its parts must be without `seconds`: it takes what the others leave of the phase's own `seconds`"
    )]
    NoRest,
    /// Parts are longer than their phase.
    #[error("its parts take longer than the whole")]
    PartsTooLong,
    /// Two modes under one name.
    #[error("another mode has the same name")]
    NameTaken,
    /// There is nothing to reckon with.
    #[error("there is no mode")]
    NoMode,
}

type Found = Result<(), (String, Fault)>;

impl Profile {
    /// Reads `file`.
    ///
    /// # Errors
    ///
    /// [`ProfileError`].
    pub fn read(file: &Path) -> Result<Self, ProfileError> {
        let name = file.display().to_string();
        match fs::read_to_string(file) {
            Ok(text) => Self::parse(&text, &name),
            Err(reason) => Err(ProfileError::Read { file: name, reason }),
        }
    }

    /// Reads `text`, of a file called `file`.
    ///
    /// # Errors
    ///
    /// [`ProfileError::Malformed`], [`ProfileError::Wrong`].
    pub fn parse(text: &str, file: &str) -> Result<Self, ProfileError> {
        let profile: Profile = toml::from_str(text).map_err(|reason| ProfileError::Malformed {
            file: file.to_owned(),
            reason,
        })?;
        match profile.check() {
            Ok(()) => Ok(profile),
            Err((place, fault)) => Err(ProfileError::Wrong {
                file: file.to_owned(),
                place,
                fault,
            }),
        }
    }

    /// The mode of this name.
    #[must_use]
    pub fn mode(&self, name: &str) -> Option<&ModeProfile> {
        self.modes.iter().find(|mode| mode.name == name)
    }

    /// The first mode of this kind.
    #[must_use]
    pub fn mode_of(&self, kind: Kind) -> Option<&ModeProfile> {
        self.modes.iter().find(|mode| mode.kind == kind)
    }

    /// Every figure in it, and where it stands.
    #[must_use]
    pub fn figures(&self) -> Vec<(String, &Figure)> {
        let mut figures = Vec::new();
        if let Some(device) = &self.device {
            let read = &device.read_bytes_per_second;
            figures.push(("device: read_bytes_per_second".to_owned(), read));
            let write = &device.write_bytes_per_second;
            figures.push(("device: write_bytes_per_second".to_owned(), write));
        }
        for mode in &self.modes {
            figures.push((format!("{}: kept_watts", mode.name), &mode.kept_watts));
            for (place, phase) in mode.phases() {
                phase.figures(&place, &mut figures);
            }
        }
        figures
    }

    fn check(&self) -> Found {
        for (place, figure) in self.figures() {
            figure.check().map_err(|fault| (place, fault))?;
        }
        if let Some(device) = &self.device {
            let figures = [
                &device.read_bytes_per_second,
                &device.write_bytes_per_second,
            ];
            if figures.iter().any(|figure| figure.value <= 0.0) {
                return Err(("device".into(), Fault::Zero));
            }
        }
        if self.modes.is_empty() {
            return Err(("modes".into(), Fault::NoMode));
        }
        for (index, mode) in self.modes.iter().enumerate() {
            if self.modes[..index]
                .iter()
                .any(|other| other.name == mode.name)
            {
                return Err((mode.name.clone(), Fault::NameTaken));
            }
            for (place, phase) in mode.phases() {
                phase.check().map_err(|fault| (place, fault))?;
            }
        }
        Ok(())
    }
}

impl Figure {
    fn check(&self) -> Result<(), Fault> {
        if !self.value.is_finite() || self.value < 0.0 {
            Err(Fault::NotANumber)
        } else if self.source.trim().is_empty() {
            Err(Fault::NoSource)
        } else {
            Ok(())
        }
    }

    fn watts(&self) -> Power {
        Power::new::<watt>(self.value)
    }

    fn seconds(&self) -> Time {
        Time::new::<second>(self.value)
    }

    fn joules(&self) -> Energy {
        Energy::new::<joule>(self.value)
    }
}

impl ModeProfile {
    /// The mode with these times. `None` where the time of a phase is known
    /// neither from them nor from the profile.
    #[must_use]
    pub fn with(&self, times: &dyn Times) -> Option<Mode> {
        let phases = |phases: &[PhaseProfile]| -> Option<Vec<Phase>> {
            let each: Option<Vec<_>> = phases.iter().map(|phase| phase.with(times)).collect();
            each.map(|each| each.into_iter().flatten().collect())
        };
        Some(Mode {
            name: self.name.clone(),
            enter: phases(&self.enter)?,
            kept: self.kept_watts.watts(),
            leave: phases(&self.leave)?,
        })
    }

    /// Each phase, and where it stands.
    fn phases(&self) -> impl Iterator<Item = (String, &PhaseProfile)> {
        let ways = [("enter", &self.enter), ("leave", &self.leave)];
        ways.into_iter().flat_map(move |(way, phases)| {
            let place = move |phase: &PhaseProfile| format!("{}: {way}: {}", self.name, phase.name);
            phases.iter().map(move |phase| (place(phase), phase))
        })
    }

    /// Whether some of its times can come from a measurement.
    #[must_use]
    pub fn is_measurable(&self) -> bool {
        let measurable = |phase: &PhaseProfile| {
            phase.measured.is_some() || phase.parts.iter().any(|part| part.measured.is_some())
        };
        self.enter.iter().chain(&self.leave).any(measurable)
    }

    /// Whether the machine could do without some part.
    #[must_use]
    pub fn has_avoidable(&self) -> bool {
        let mut phases = self.enter.iter().chain(&self.leave);
        phases.any(|phase| phase.parts.iter().any(|part| part.avoidable))
    }
}

impl PhaseProfile {
    fn figures<'p>(&'p self, place: &str, figures: &mut Vec<(String, &'p Figure)>) {
        let own = [
            ("watts", &self.watts),
            ("seconds", &self.seconds),
            ("joules", &self.joules),
        ];
        for (unit, figure) in own {
            if let Some(figure) = figure {
                figures.push((format!("{place}: {unit}"), figure));
            }
        }
        for part in &self.parts {
            if let Some(figure) = &part.seconds {
                figures.push((format!("{place}: {}: seconds", part.name), figure));
            }
        }
    }

    fn check(&self) -> Result<(), Fault> {
        match (&self.watts, &self.seconds, &self.joules) {
            (Some(_), Some(_), None) => {}
            (Some(_), None, None) if self.measured.is_some() && self.parts.is_empty() => {}
            (None, Some(divisor), Some(_)) | (Some(divisor), None, Some(_)) => {
                if divisor.value <= 0.0 {
                    return Err(Fault::Zero);
                }
            }
            _ => return Err(Fault::Undetermined),
        }
        if self.parts.is_empty() {
            return Ok(());
        }
        let rests = self.parts.iter().filter(|part| part.seconds.is_none());
        if rests.count() != 1 || self.measured.is_some() {
            return Err(Fault::NoRest);
        }
        match self.rest() {
            Some(rest) if rest >= Time::default() => Ok(()),
            Some(_) => Err(Fault::PartsTooLong),
            None => Err(Fault::NoRest),
        }
    }

    fn power(&self) -> Option<Power> {
        match (&self.watts, &self.joules, &self.seconds) {
            (Some(watts), _, _) => Some(watts.watts()),
            (None, Some(joules), Some(seconds)) => Some(joules.joules() / seconds.seconds()),
            _ => None,
        }
    }

    fn time(&self) -> Option<Time> {
        match (&self.seconds, &self.joules, &self.watts) {
            (Some(seconds), _, _) => Some(seconds.seconds()),
            (None, Some(joules), Some(watts)) => Some(joules.joules() / watts.watts()),
            _ => None,
        }
    }

    /// What the parts with times leave.
    fn rest(&self) -> Option<Time> {
        let known = self.parts.iter().filter_map(|part| part.seconds.as_ref());
        Some(self.time()? - known.map(Figure::seconds).sum::<Time>())
    }

    fn with(&self, times: &dyn Times) -> Option<Vec<Phase>> {
        let power = self.power()?;
        let phase = |name: &str, time| Phase {
            name: name.to_owned(),
            power,
            time,
        };
        if self.parts.is_empty() {
            let measured = self.measured.and_then(|part| times.of(part));
            return Some(vec![phase(&self.name, measured.or_else(|| self.time())?)]);
        }
        let rest = self.rest()?;
        let kept = self
            .parts
            .iter()
            .filter(|part| !(part.avoidable && times.without_avoidable()));
        let phases = kept.map(|part| {
            let measured = part.measured.and_then(|part| times.of(part));
            let given = part.seconds.as_ref().map_or(rest, Figure::seconds);
            phase(&part.name, measured.unwrap_or(given))
        });
        Some(phases.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::builtin::{self, BUILT_IN};

    const HEAD: &str = "title = \"A machine\"\nabout = \"\"\npublication = \"given\"\n";
    const MODE: &str = "[[modes]]\nname = \"S3\"\nkind = \"retain\"\n\
                        kept_watts = { value = 2, source = \"given\" }\n";

    fn parse(text: &str) -> Result<Profile, ProfileError> {
        Profile::parse(text, "mine.toml")
    }

    /// A profile with one phase of this text.
    fn phase(text: &str) -> Result<Profile, ProfileError> {
        parse(&format!(
            "{HEAD}{MODE}[[modes.enter]]\nname = \"down\"\n{text}"
        ))
    }

    #[track_caller]
    fn faulty(found: Result<Profile, ProfileError>, expected: Fault, at: &str) {
        match found {
            Err(ProfileError::Wrong { place, fault, .. }) => {
                assert_eq!(fault, expected, "{place}");
                assert!(place.contains(at), "{place}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn malformed(found: Result<Profile, ProfileError>, words: &[&str]) {
        let Err(error @ ProfileError::Malformed { .. }) = found else {
            panic!("{found:?}")
        };
        let text = error.to_string();
        for word in words {
            assert!(text.contains(word), "no {word:?}: {text}");
        }
    }

    #[test]
    fn every_built_in_profile_is_sound_and_tells_all_its_sources() {
        for (name, _) in BUILT_IN {
            let profile = builtin::profile(name).unwrap();
            let figures = profile.figures();
            assert!(figures.len() >= 4, "{name}");
            for (place, figure) in figures {
                let known = ["Table ", "Figure ", "Section ", "given: ", "assumed: "];
                assert!(
                    known.iter().any(|start| figure.source.starts_with(start)),
                    "{name}: {place}: {}",
                    figure.source
                );
            }
            assert!(
                !profile.title.is_empty() && !profile.about.is_empty(),
                "{name}"
            );
            assert!(!profile.publication.is_empty(), "{name}");
        }
        let unknown = builtin::profile("other").unwrap_err().to_string();
        assert!(
            unknown.contains("\"other\"") && unknown.contains("d1-hart"),
            "{unknown}"
        );
    }

    #[test]
    fn a_phase_is_known_by_two_of_power_time_and_energy() {
        let [watts, seconds, joules] = [("watts", 4), ("seconds", 3), ("joules", 12)]
            .map(|(unit, value)| format!("{unit} = {{ value = {value}, source = \"given\" }}\n"));
        for text in [
            format!("{watts}{seconds}"),
            format!("{seconds}{joules}"),
            format!("{watts}{joules}"),
        ] {
            let mode = phase(&text).unwrap().modes[0].with(&Given).unwrap();
            assert_eq!(mode.enter[0].power.get::<watt>(), 4.0, "{text}");
            assert_eq!(mode.enter[0].time.get::<second>(), 3.0, "{text}");
        }
        let measured = phase(&format!("{watts}measured = \"save\"\n")).unwrap();
        assert_eq!(measured.modes[0].with(&Given), None);
        for text in [
            String::new(),
            watts.clone(),
            seconds.clone(),
            joules.clone(),
            format!("{watts}{seconds}{joules}"),
            format!("{seconds}measured = \"save\"\n"),
        ] {
            faulty(phase(&text), Fault::Undetermined, "S3: enter: down");
        }
    }

    #[test]
    fn parts_take_their_times_and_one_the_rest() {
        let whole = "watts = { value = 4, source = \"given\" }\n\
                     seconds = { value = 3, source = \"given\" }\n";
        let two = "parts = [{ name = \"a\", seconds = { value = 1, source = \"given\" } }, \
                   { name = \"b\" }]\n";
        let mode = phase(&format!("{whole}{two}")).unwrap().modes[0]
            .with(&Given)
            .unwrap();
        let times: Vec<f64> = mode
            .enter
            .iter()
            .map(|phase| phase.time.get::<second>())
            .collect();
        assert_eq!(times, [1.0, 2.0]);
        let none = two.replace("{ name = \"b\" }", "");
        faulty(phase(&format!("{whole}{none}")), Fault::NoRest, "down");
        let both = two.replace("{ name = \"b\" }", "{ name = \"b\" }, { name = \"c\" }");
        faulty(phase(&format!("{whole}{both}")), Fault::NoRest, "down");
        let long = two.replace("value = 1", "value = 3.1");
        faulty(
            phase(&format!("{whole}{long}")),
            Fault::PartsTooLong,
            "down",
        );
    }

    #[test]
    fn figures_are_finite_not_negative_and_have_a_source() {
        for value in ["-1", "-0.001", "nan", "inf"] {
            let text = format!("watts = {{ value = {value}, source = \"given\" }}");
            faulty(phase(&text), Fault::NotANumber, "S3: enter: down: watts");
        }
        faulty(
            phase("watts = { value = 1, source = \" \" }"),
            Fault::NoSource,
            "S3: enter: down: watts",
        );
        malformed(
            phase("watts = { value = 1 }"),
            &["mine.toml", "missing field `source`"],
        );
        malformed(phase("watts = 1"), &["line "]);
        malformed(
            phase("watts = { value = \"1\", source = \"given\" }"),
            &["invalid type: string"],
        );
        let zero = "joules = { value = 1, source = \"given\" }\n\
                    seconds = { value = 0, source = \"given\" }\n";
        faulty(phase(zero), Fault::Zero, "S3: enter: down");
    }

    #[test]
    fn fields_are_neither_missing_nor_unknown() {
        malformed(parse(""), &["missing field `title`"]);
        malformed(parse("title"), &["mine.toml is no profile", "line 1"]);
        malformed(
            parse(&format!("{HEAD}colour = 1\n{MODE}")),
            &["unknown field `colour`"],
        );
        malformed(phase("volts = 1"), &["unknown field `volts`"]);
        malformed(phase("measured = \"tea\""), &["unknown variant `tea`"]);
        malformed(
            parse(&format!("{HEAD}{}", MODE.replace("retain", "doze"))),
            &["`doze`"],
        );
        faulty(parse(&format!("{HEAD}modes = []")), Fault::NoMode, "modes");
        faulty(
            parse(&format!("{HEAD}{MODE}{MODE}")),
            Fault::NameTaken,
            "S3",
        );
        let device = "[device]\nname = \"d\"\n\
                      read_bytes_per_second = { value = 0, source = \"given\" }\n\
                      write_bytes_per_second = { value = 1, source = \"given\" }\n";
        faulty(
            parse(&format!("{HEAD}{device}{MODE}")),
            Fault::Zero,
            "device",
        );
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = Profile::read(Path::new("/nowhere.toml"))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("/nowhere.toml") && error.contains("No such file"),
            "{error}"
        );
    }
}
