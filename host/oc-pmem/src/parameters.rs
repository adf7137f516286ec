//! All parameters of the model, with unit, range, source and base point.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use thiserror::Error;

use crate::time::Time;

/// The values of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Numbers with that many decimals: 4.1 with one decimal is stored as 41.
    Number {
        /// Digits after the point.
        decimals: u32,
        /// The least value.
        least: u64,
        /// The greatest value.
        most: u64,
    },
    /// One of these words, stored as its index.
    Word(&'static [&'static str]),
    /// Numbers of devices. Each takes 16 bits, and is stored as one more.
    Devices,
}

/// A parameter of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The name that `--set` takes.
    pub name: &'static str,
    /// Its meaning.
    pub about: &'static str,
    /// Its unit; empty for a word or a count.
    pub unit: &'static str,
    /// Its values.
    pub values: Values,
    /// Its value at the base point.
    pub base: u64,
    /// The base value's source. Sections and tables are LightPC's.
    pub source: &'static str,
}

/// Why a parameter cannot be set.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ParameterError {
    /// The text has no equals sign.
    #[error("`{0}` sets no parameter: write NAME=VALUE, such as write=8.8")]
    NoValue(String),
    /// There is no such parameter.
    #[error("the model has no parameter `{name}`; it has {known}")]
    Unknown {
        /// The given name.
        name: String,
        /// All names.
        known: String,
    },
    /// The value is no number, or has too many decimals, or no known word.
    #[error("{name}={value}: the value must be {wanted}")]
    Value {
        /// The parameter.
        name: &'static str,
        /// The given value.
        value: String,
        /// The range or the words.
        wanted: String,
    },
    /// A dead device that the machine does not have.
    #[error(
        "there is no device {device}: the DIMMs have 0 to {last}, two in each group; set dimms and groups before dead"
    )]
    NoDevice {
        /// The device's number.
        device: usize,
        /// The last device of all DIMMs.
        last: usize,
    },
}

const fn number(decimals: u32, least: u64, most: u64) -> Values {
    Values::Number {
        decimals,
        least,
        most,
    }
}

/// The most dead devices: each takes 16 bits of the stored value.
const MOST_DEAD: u64 = 4;

/// `off` and `on`, in this order.
const SWITCH: Values = Values::Word(&["off", "on"]);

macro_rules! parameters {
    ($($name:ident = $word:literal, $about:literal, $unit:literal, $values:expr, $base:expr, $source:literal;)*) => {
        /// The parameters' names, in the order of [`TABLE`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Name {
            $(#[doc = $about] $name,)*
        }

        /// The parameters.
        pub const TABLE: &[Parameter] = &[
            $(Parameter {
                name: $word,
                about: $about,
                unit: $unit,
                values: $values,
                base: $base,
                source: $source,
            },)*
        ];
    };
}

parameters! {
    Clock = "clock", "clock of the harts", "GHz", number(3, 50, 10_000), 400, "table I (FPGA; its ASIC has 1.6)";
    Window = "window", "instructions from the oldest unfinished load on; 0: each miss is waited for", "", number(0, 0, 512), 64, "BOOM's reorder buffer of a small configuration (reference 45)";
    Misses = "misses", "outstanding misses of a hart", "", number(0, 1, 64), 2, "BOOM with caches of 16 KiB (reference 45)";
    Dram = "dram", "access to DRAM", "ns", number(3, 1_000, 1_000_000), 60_000, "assumed; swept from 40 to 100";
    Read = "read", "access to PRAM, reading", "x dram", number(2, 10, 10_000), 110, "table I";
    Write = "write", "access to PRAM, writing", "x dram", number(2, 10, 10_000), 410, "table I; 4.4 and 8.8 are V-A's 4 to 8 times a read";
    Link = "link", "transfer of a line between DIMM and controller", "ns", number(3, 0, 1_000_000), 3_333, "64 bytes at DDR4-2400";
    Rebuild = "rebuild-cycles", "combination of a line from its parity", "cycles", number(0, 0, 1_000), 1, "V-A";
    Dimms = "dimms", "DIMMs", "", number(0, 1, 64), 6, "table I";
    Groups = "groups", "groups of two PRAM devices in a DIMM", "", number(0, 1, 64), 4, "V-B, figure 13b";
    Banks = "banks", "DRAM banks in a DIMM", "", number(0, 1, 64), 16, "DDR4 (JESD79-4)";
    Recovery = "recovery", "time after an access in which its bank or group begins no other: its precharge. This and the next four are of `dram`, `lightpc-b-*` and `wide` alone", "ns", number(3, 0, 1_000_000), 0, "a device's input; DDR4-2400: 19.167";
    Channel = "channel", "between two accesses of a DIMM, whose lines share its channel", "ns", number(3, 0, 1_000_000), 0, "assumed: never busy; DDR4-2400: 3.333";
    Activates = "activates", "a DIMM begins at most four accesses in it", "ns", number(3, 0, 1_000_000), 0, "DDR4-2400, x8: 21.667 (tFAW)";
    Refresh = "refresh", "refresh of a DIMM, whose banks begin no access", "ns", number(3, 0, 1_000_000), 0, "DDR4, 4 Gbit: 260 (tRFC)";
    RefreshEvery = "refresh-every", "between the starts of two refreshes", "ns", number(3, 1_000_001, 1_000_000_000), 7_800_000, "DDR4 (tREFI)";
    Page = "page", "row buffer of a PRAM device", "bytes", Values::Word(&["32", "64", "128", "256", "512", "1024", "2048", "4096"]), 0, "V-B: a device's input; swept to 4096";
    Queue = "queue", "writes that wait in a queue", "", number(0, 1, 16), 4, "assumed";
    Early = "early-return", "a write is over once a row buffer has it", "", SWITCH, 1, "V-A";
    Reconstruct = "rebuild", "a read rebuilds a line whose devices are written", "", SWITCH, 1, "V-A";
    Parity = "parity", "place and cost of the parity", "", Values::Word(&["free", "striped", "halves"]), 1, "VIII; halves is V-A's reading";
    Gap = "gap", "writes between two moves of Start-Gap; 0: none", "", number(0, 0, 1_000_000), 100, "VIII (reference 53)";
    Randomise = "randomise", "the static randomiser", "", SWITCH, 1, "V-A";
    QueuedLines = "lsq-lines", "lines that wait in a PMEM DIMM", "", number(0, 1, 64), 64, "VANS (reference 19): 4 KiB";
    SramBlocks = "rmw-blocks", "blocks of 256 bytes in its SRAM", "", number(0, 1, 1_000_000), 64, "VANS: 16 KiB";
    DramPages = "ait-pages", "pages of 4 KiB in its DRAM", "", number(0, 1, 1_000_000), 4096, "VANS: 16 MiB";
    SramRead = "rmw-read", "its queue and its SRAM, reading", "ns", number(3, 0, 1_000_000), 135_000, "VANS: 180 cycles of 0.75 ns";
    SramWrite = "rmw-write", "its queue and its SRAM, writing", "ns", number(3, 0, 1_000_000), 7_500, "VANS: 10 cycles";
    Down = "rmw-to-ait", "way from its SRAM to its DRAM", "ns", number(3, 0, 1_000_000), 67_500, "VANS: 90 cycles";
    Up = "ait-to-rmw", "way back", "ns", number(3, 0, 1_000_000), 112_500, "VANS: 150 cycles";
    Dead = "dead", "dead PRAM devices: `2 x groups` for each DIMM, two for each group", "", Values::Devices, 0, "VIII; LightPC alone has parity";
    Memory = "memory", "main memory", "MiB", number(0, 1, 131_072), 2048, "the traced machine's";
}

/// A value for each parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters(Vec<u64>);

/// Where parity lies, and what it costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parity {
    Free,
    Striped,
    Halves,
}

impl Default for Parameters {
    fn default() -> Self {
        Parameters(TABLE.iter().map(|parameter| parameter.base).collect())
    }
}

impl Parameters {
    /// Sets a parameter from `NAME=VALUE`.
    ///
    /// # Errors
    ///
    /// [`ParameterError`].
    pub fn set(&mut self, text: &str) -> Result<(), ParameterError> {
        let split = text.split_once('=');
        let (name, value) = split.ok_or_else(|| ParameterError::NoValue(text.to_owned()))?;
        let at = TABLE.iter().position(|parameter| parameter.name == name);
        let at = at.ok_or_else(|| ParameterError::Unknown {
            name: name.to_owned(),
            known: names(TABLE.iter().map(|parameter| parameter.name)),
        })?;
        let parsed = TABLE[at].values.parse(value);
        let parsed = parsed.ok_or_else(|| ParameterError::Value {
            name: TABLE[at].name,
            value: value.to_owned(),
            wanted: TABLE[at].range(),
        })?;
        let before = core::mem::replace(&mut self.0[at], parsed);
        self.check_dead().inspect_err(|_| self.0[at] = before)
    }

    /// Whether the machine has all devices that are to be dead.
    fn check_dead(&self) -> Result<(), ParameterError> {
        let devices = 2 * self.count(Name::Dimms) * self.count(Name::Groups);
        match self.dead().find(|device| *device >= devices) {
            Some(device) => Err(ParameterError::NoDevice {
                device,
                last: devices - 1,
            }),
            None => Ok(()),
        }
    }

    /// The dead devices, counted over all DIMMs.
    pub(crate) fn dead(&self) -> impl Iterator<Item = usize> + use<> {
        dead_of(self.get(Name::Dead))
    }

    /// The stored value of a parameter: a number times a power of ten, or a word's index.
    #[must_use]
    pub fn get(&self, name: Name) -> u64 {
        self.0[name as usize]
    }

    /// The value of a parameter of [`TABLE`] as text.
    #[must_use]
    pub fn text(&self, parameter: &Parameter) -> String {
        let at = TABLE.iter().position(|known| known.name == parameter.name);
        parameter.write(at.map_or(parameter.base, |at| self.0[at]))
    }

    /// The parameters that differ from the base point.
    pub fn changed(&self) -> impl Iterator<Item = &'static Parameter> {
        let changed = TABLE.iter().zip(&self.0);
        changed.filter_map(|(parameter, value)| (parameter.base != *value).then_some(parameter))
    }

    /// Length of a cycle.
    #[must_use]
    pub fn cycle(&self) -> Time {
        Time(1_000_000 / self.get(Name::Clock))
    }

    pub(crate) fn count(&self, name: Name) -> usize {
        usize::try_from(self.get(name)).unwrap_or(usize::MAX)
    }

    pub(crate) fn is_on(&self, name: Name) -> bool {
        self.get(name) != 0
    }

    pub(crate) fn dram(&self) -> Time {
        Time(self.get(Name::Dram))
    }

    /// Transfer of a line between DIMM and controller.
    #[must_use]
    pub fn link(&self) -> Time {
        Time(self.get(Name::Link))
    }

    /// A read of PRAM.
    #[must_use]
    pub fn read(&self) -> Time {
        Time(self.get(Name::Dram) * self.get(Name::Read) / 100)
    }

    /// A write of PRAM.
    #[must_use]
    pub fn write(&self) -> Time {
        Time(self.get(Name::Dram) * self.get(Name::Write) / 100)
    }

    /// A parameter in nanoseconds with three decimals.
    pub(crate) fn time(&self, name: Name) -> Time {
        Time(self.get(name))
    }

    pub(crate) fn rebuild(&self) -> Time {
        self.cycle() * self.get(Name::Rebuild)
    }

    /// Lines of a row buffer's page, as a power of two: a device has 32 bytes of each line.
    pub(crate) fn page_lines(&self) -> u32 {
        u32::try_from(self.get(Name::Page)).unwrap_or_default()
    }

    pub(crate) fn parity(&self) -> Parity {
        match self.get(Name::Parity) {
            0 => Parity::Free,
            1 => Parity::Striped,
            _ => Parity::Halves,
        }
    }

    /// Lines of main memory.
    pub(crate) fn lines(&self) -> u64 {
        self.get(Name::Memory) << (20 - 6)
    }
}

impl Parameter {
    /// The parameter's values as text.
    #[must_use]
    pub fn range(&self) -> String {
        match self.values {
            Values::Number {
                decimals,
                least,
                most,
            } => {
                let [least, most] = [least, most].map(|value| fixed(value, decimals));
                match decimals {
                    0 => format!("{least} to {most}"),
                    _ => format!("{least} to {most}, with at most {decimals} decimals"),
                }
            }
            Values::Word(words) => names(words.iter().copied()),
            Values::Devices => format!("none, or at most {MOST_DEAD} numbers from 0, as 0,9"),
        }
    }

    /// The base value as text.
    #[must_use]
    pub fn base_text(&self) -> String {
        self.write(self.base)
    }

    fn write(&self, value: u64) -> String {
        match self.values {
            Values::Number { decimals, .. } => fixed(value, decimals),
            Values::Word(words) => {
                let word = usize::try_from(value).ok().and_then(|at| words.get(at));
                word.copied().unwrap_or_default().to_owned()
            }
            Values::Devices if value == 0 => NO_DEVICE.to_owned(),
            Values::Devices => {
                let devices = dead_of(value).map(|device| device.to_string());
                devices.collect::<Vec<_>>().join(",")
            }
        }
    }
}

impl Values {
    fn parse(&self, text: &str) -> Option<u64> {
        match *self {
            Values::Number {
                decimals,
                least,
                most,
            } => {
                let value = parse_fixed(text, decimals)?;
                (least..=most).contains(&value).then_some(value)
            }
            Values::Word(words) => {
                let at = words.iter().position(|word| *word == text)?;
                u64::try_from(at).ok()
            }
            Values::Devices if text == NO_DEVICE => Some(0),
            Values::Devices => parse_devices(text),
        }
    }
}

/// The word for no dead device.
const NO_DEVICE: &str = "none";

/// The devices of a stored value: one more than each device's number, 16 bits each.
fn dead_of(value: u64) -> impl Iterator<Item = usize> {
    let lanes = (0..MOST_DEAD).map(move |lane| value >> (16 * lane) & 0xffff);
    lanes.filter_map(|lane| usize::try_from(lane).ok()?.checked_sub(1))
}

/// Reads different device numbers with commas between them, and stores them.
fn parse_devices(text: &str) -> Option<u64> {
    let mut value = 0;
    for (lane, number) in (0..).zip(text.split(',')) {
        let number = parse_fixed(number, 0).filter(|number| *number < 0xffff)?;
        let is_new = dead_of(value).all(|known| u64::try_from(known) != Ok(number));
        if lane >= MOST_DEAD || !is_new {
            return None;
        }
        value |= (number + 1) << (16 * lane);
    }
    Some(value)
}

fn names<'a>(all: impl Iterator<Item = &'a str>) -> String {
    all.collect::<Vec<_>>().join(", ")
}

/// Writes a number with decimals, without zeros at its end.
fn fixed(value: u64, decimals: u32) -> String {
    let unit = 10_u64.pow(decimals);
    let digits = usize::try_from(decimals).unwrap_or_default();
    let text = format!("{}.{:0digits$}", value / unit, value % unit);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Reads a number with at most that many decimals.
fn parse_fixed(text: &str, decimals: u32) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || !is_digits(part) {
        return None;
    }
    let part = part.trim_end_matches('0');
    let length = u32::try_from(part.len()).ok()?;
    let missing = 10_u64.pow(decimals.checked_sub(length)?);
    let part = match part {
        "" => 0,
        digits => digits.parse::<u64>().ok()?.checked_mul(missing)?,
    };
    let whole = whole.parse::<u64>().ok()?;
    whole.checked_mul(10_u64.pow(decimals))?.checked_add(part)
}

#[cfg(test)]
mod tests;
