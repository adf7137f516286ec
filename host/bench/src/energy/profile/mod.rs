//! Profiles: TOML files with the power of each phase of a machine's sleeps, each with its source.

mod error;
mod phases;

use std::fs;
use std::path::Path;

pub use error::{Fault, ProfileError};

use serde::Deserialize;
use uom::si::energy::joule;
use uom::si::f64::{Energy, Power, Time};
use uom::si::power::watt;
use uom::si::time::second;

use super::times::MeasuredPart;

/// A machine's profile, with measured or assumed figures for each mode.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// A line about the machine.
    pub title: String,
    /// Notes that help to judge the figures.
    pub about: String,
    /// The publication that "Table" and "Figure" in the sources refer to; or `given`.
    pub publication: String,
    /// The machine's medium for images.
    pub device: Option<Device>,
    pub modes: Vec<ModeProfile>,
}

/// A figure with its source.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The figure, zero or more; the field's name has its unit.
    pub value: f64,
    /// A table, a figure or a section of the publication; or `given` or `assumed`, with the reason.
    pub source: String,
}

/// The rates of a medium.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    pub name: String,
    /// Rate at which images are loaded.
    pub read_bytes_per_second: Figure,
    /// Rate at which images are saved.
    pub write_bytes_per_second: Figure,
}

/// Poorwill's counterpart of a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The machine runs on, so there is nothing to enter or leave.
    Awake,
    /// RAM stays powered.
    Retain,
    /// An image is saved, and the power is off.
    Persist,
    /// RAM is persistent, so nothing is saved, and the power is off.
    Cut,
    /// One hart is suspended.
    Hart,
    /// The power is off, and there is no image: the OS boots.
    Off,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModeProfile {
    pub name: String,
    pub kind: Kind,
    /// Power while the mode keeps the state.
    pub kept_watts: Figure,
    /// The phases from the request until the mode keeps the state.
    #[serde(default)]
    pub enter: Vec<PhaseProfile>,
    /// The phases from the wake event until the OS runs.
    #[serde(default)]
    pub leave: Vec<PhaseProfile>,
}

/// A phase, given by two of power, time and energy, or by its power and a measured time.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhaseProfile {
    pub name: String,
    pub watts: Option<Figure>,
    pub seconds: Option<Figure>,
    pub joules: Option<Figure>,
    /// The part of a measured sleep whose time may replace this phase's.
    pub measured: Option<MeasuredPart>,
    /// The phase's parts, all at its power.
    #[serde(default)]
    pub parts: Vec<PartProfile>,
}

/// A part of a phase.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartProfile {
    pub name: String,
    /// Time of the part. One part of each phase has no time, and takes the rest of the phase.
    pub seconds: Option<Figure>,
    /// The part of a measured sleep whose time may replace this part's.
    pub measured: Option<MeasuredPart>,
    /// Whether another implementation could avoid the part: see
    /// [`Times::without_avoidable`](super::times::Times::without_avoidable).
    #[serde(default)]
    pub avoidable: bool,
}

type Found = Result<(), (String, Fault)>;

impl Profile {
    /// Reads a profile.
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

    /// Parses `text`. Errors call its file `file`.
    ///
    /// # Errors
    ///
    /// [`ProfileError`].
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

    #[must_use]
    pub fn mode(&self, name: &str) -> Option<&ModeProfile> {
        self.modes.iter().find(|mode| mode.name == name)
    }

    /// The first mode of that kind.
    #[must_use]
    pub fn mode_of(&self, kind: Kind) -> Option<&ModeProfile> {
        self.modes.iter().find(|mode| mode.kind == kind)
    }

    /// All figures, with their places in the profile.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::builtin::{self, BUILT_IN};
    use crate::energy::times::Given;

    const HEAD: &str = "title = \"A machine\"\nabout = \"\"\npublication = \"given\"\n";
    const MODE: &str = "[[modes]]\nname = \"S3\"\nkind = \"retain\"\n\
                        kept_watts = { value = 2, source = \"given\" }\n";

    fn parse(text: &str) -> Result<Profile, ProfileError> {
        Profile::parse(text, "mine.toml")
    }

    /// A profile with one phase, described by `text`.
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
        malformed(
            parse("title"),
            &["mine.toml is not a valid profile", "line 1"],
        );
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
