//! The output of `status`.

use core::fmt;

use poorwill_store::{Configuration, SlotId, SlotState, SlotStatus};

use crate::duration::Milliseconds;

/// The lines about the configuration.
pub(crate) struct Sleeping(pub(crate) Configuration);

impl fmt::Display for Sleeping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sleeping(configuration) = self;
        write!(f, "sleep mode   {}", configuration.modes())?;
        match configuration.stage_after_ms() {
            Some(0) | None => writeln!(f)?,
            Some(ms) => writeln!(f, ", persists after {}", Milliseconds(ms))?,
        }
        let delay = Milliseconds(configuration.stage_delay_ms);
        writeln!(f, "stage delay  {delay}")?;
        match configuration.break_even_ms {
            0 => writeln!(f, "break-even   not set"),
            ms => writeln!(f, "break-even   {}", Milliseconds(ms)),
        }
    }
}

/// The lines about both slots.
pub(crate) struct Slots<'s>(pub(crate) &'s [SlotStatus; 2]);

impl fmt::Display for Slots<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Slots(slots) = self;
        for (id, slot) in SlotId::BOTH.iter().zip(*slots) {
            write!(f, "slot {id}       ")?;
            let record = match slot {
                SlotStatus::New => {
                    writeln!(f, "never used")?;
                    continue;
                }
                SlotStatus::Unusable(error) => {
                    writeln!(f, "unusable: {error}")?;
                    continue;
                }
                SlotStatus::Record(record) => record,
            };
            write!(f, "sleep {}, ", record.generation)?;
            match record.state {
                SlotState::Committed => write!(f, "may wake")?,
                SlotState::Consumed { failure: None, .. } => write!(f, "woken")?,
                SlotState::Consumed {
                    failure: Some(failure),
                    ..
                } => write!(f, "its wake failed: {failure}")?,
                SlotState::Discarded(reason) => write!(f, "discarded: {reason}")?,
                SlotState::Snapshot(attempts) => {
                    f.write_str("snapshot")?;
                    if !record.name.is_empty() {
                        write!(f, " {:?}", record.name.as_str())?;
                    }
                    write!(f, ", {attempts}")?;
                }
            }
            write!(f, ", image of {} bytes", record.image_bytes)?;
            match record.sleep_ms {
                0 => writeln!(f)?,
                ms => writeln!(f, ", saved in {ms} ms")?,
            }
        }
        Ok(())
    }
}

/// The line about the firmware's last report, whose bytes are in the device tree.
pub(crate) struct Told<'t>(pub(crate) Option<&'t [u8]>);

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Told(Some(bytes)) = self else {
            return f.write_str("no report: is it Poorwill?");
        };
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        for byte in text {
            let shown = match byte {
                b' '..=b'~' => char::from(*byte),
                _ => '?',
            };
            fmt::Write::write_char(f, shown)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::format;
    use std::string::ToString;

    use poorwill_store::{
        BootAttempts, DiscardReason, Failure, Name, RecordError, SleepMode, SlotRecord,
    };

    use super::*;

    #[test]
    fn every_mode_is_shown() {
        let shown_as = |mode: Option<SleepMode>, break_even_ms| {
            let configuration = Configuration {
                mode,
                stage_delay_ms: 90_000,
                break_even_ms,
                ..Configuration::default()
            };
            Sleeping(configuration).to_string()
        };
        let shown = |mode, break_even_ms| shown_as(Some(mode), break_even_ms);
        let rest = "stage delay  1min 30s\nbreak-even   not set\n";
        assert_eq!(
            shown(SleepMode::Persist, 0),
            format!("sleep mode   persist\n{rest}")
        );
        assert_eq!(
            shown_as(None, 0),
            format!("sleep mode   persist, or cut where RAM is persistent\n{rest}")
        );
        assert_eq!(
            shown(SleepMode::Cut, 0),
            format!("sleep mode   cut, or persist where RAM is not persistent\n{rest}")
        );
        assert_eq!(
            shown(SleepMode::Retain, 0),
            format!("sleep mode   retain\n{rest}")
        );
        assert_eq!(
            shown(SleepMode::Staged, 0),
            format!("sleep mode   staged, persists after 1min 30s\n{rest}")
        );
        assert_eq!(
            shown(SleepMode::Auto, 3_300_000),
            "sleep mode   auto, persists after 55min\n\
             stage delay  1min 30s\nbreak-even   55min\n"
        );
    }

    fn record(state: SlotState) -> SlotStatus {
        SlotStatus::Record(SlotRecord {
            state,
            generation: 12,
            slot_offset: 0,
            slot_bytes: 0,
            header_checksum: 0,
            image_bytes: 240_000_000,
            sleep_ms: 650,
            name: Name::NONE,
            parts: None,
        })
    }

    #[test]
    fn every_state_of_a_slot_is_shown() {
        let consumed = |failure| {
            record(SlotState::Consumed {
                failure,
                reported: false,
            })
        };
        let cases = [
            (SlotStatus::New, "never used"),
            (
                SlotStatus::Unusable(RecordError::Damaged),
                "unusable: the slot's record is damaged",
            ),
            (
                record(SlotState::Committed),
                "sleep 12, may wake, image of 240000000 bytes, saved in 650 ms",
            ),
            (
                consumed(None),
                "sleep 12, woken, image of 240000000 bytes, saved in 650 ms",
            ),
            (
                consumed(Some(Failure::TimedOut(5))),
                "sleep 12, its wake failed: the device did not answer within 5 ms, \
                 image of 240000000 bytes, saved in 650 ms",
            ),
            (
                record(SlotState::Snapshot(BootAttempts::WELL)),
                "sleep 12, snapshot, wakes well, image of 240000000 bytes, saved in 650 ms",
            ),
            (
                record(SlotState::Snapshot(BootAttempts {
                    proven: true,
                    tries: 2,
                    failure: Some(Failure::Reset(70)),
                })),
                "sleep 12, snapshot, failed wakes in a row: 2, the last one: \
                 the OS was reset within 70 ms of it, image of 240000000 bytes, saved in 650 ms",
            ),
            (
                record(SlotState::Discarded(DiscardReason::NewSleep)),
                "sleep 12, discarded: the machine slept again, image of 240000000 bytes, saved in 650 ms",
            ),
        ];
        for (slot, text) in cases {
            let wanted = format!("slot 0       {text}\nslot 1       never used\n");
            assert_eq!(Slots(&[slot, SlotStatus::New]).to_string(), wanted);
        }
    }

    #[test]
    fn what_the_firmware_told_is_shown_as_text() {
        let shown = |bytes| Told(Some(bytes)).to_string();
        assert_eq!(
            shown(b"woken: generation 12 load_ms=41\0\0"),
            "woken: generation 12 load_ms=41"
        );
        assert_eq!(shown(b"cold boot\x1b[2J\n\xff"), "cold boot?[2J??");
        assert_eq!(shown(b""), "");
        assert!(Told(None).to_string().contains("no report"));
    }
}
