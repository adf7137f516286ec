//! The commands of QEMU's control protocol that are used here, as QEMU's `qapi/*.json` define them.
//! The crate that is generated from that schema takes a minute to compile.

use qapi_spec::{Command, Dictionary};
use serde::{Deserialize, Serialize};

/// Defines the name and the answer's type of each command.
macro_rules! commands {
    ($($type:ty = $name:literal -> $answer:ty;)*) => {$(
        impl Command for $type {
            type Ok = $answer;
            const NAME: &'static str = $name;
            const ALLOW_OOB: bool = false;
        }
    )*};
}

commands! {
    Capabilities = "qmp_capabilities" -> Dictionary;
    SendBreak<'_> = "chardev-send-break" -> Dictionary;
    Continue = "cont" -> Dictionary;
    Stop = "stop" -> Dictionary;
    Quit = "quit" -> Dictionary;
    SystemReset = "system_reset" -> Dictionary;
    QueryStatus = "query-status" -> Status;
    SetCapabilities = "migrate-set-capabilities" -> Dictionary;
    SetParameters = "migrate-set-parameters" -> Dictionary;
    Migrate = "migrate" -> Dictionary;
    Incoming = "migrate-incoming" -> Dictionary;
    QueryMigrate = "query-migrate" -> Migration;
}

/// Ends QEMU's greeting. Before it QEMU refuses all other commands.
#[derive(Serialize)]
pub(super) struct Capabilities {}

/// Sends a serial break on a character device's line.
#[derive(Serialize)]
pub(super) struct SendBreak<'a> {
    pub(super) id: &'a str,
}

#[derive(Serialize)]
pub(super) struct Continue {}

#[derive(Serialize)]
pub(super) struct Stop {}

#[derive(Serialize)]
pub(super) struct SystemReset {}

#[derive(Serialize)]
pub(super) struct Quit {}

#[derive(Serialize)]
pub(super) struct QueryStatus {}

#[derive(Deserialize)]
pub(super) struct Status {
    pub(super) running: bool,
}

/// Turns format options on or off, for later saves and restores.
#[derive(Serialize)]
pub(super) struct SetCapabilities {
    pub(super) capabilities: [Capability; 1],
}

/// A format option.
#[derive(Serialize)]
pub(super) struct Capability {
    pub(super) capability: &'static str,
    pub(super) state: bool,
}

/// Sets the speed limit of saves and restores.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct SetParameters {
    /// Bytes a second.
    pub(super) max_bandwidth: u64,
}

/// Saves the machine (QEMU: migrates it) to a file.
#[derive(Serialize)]
pub(super) struct Migrate {
    pub(super) uri: String,
}

/// Restores a machine into a QEMU that waits for one.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Incoming {
    pub(super) uri: String,
    /// `false`: QEMU stays after an error, and reports it.
    pub(super) exit_on_error: bool,
}

/// Asks for the progress of saving or restoring.
#[derive(Serialize)]
pub(super) struct QueryMigrate {}

/// The answer to [`QueryMigrate`]; the figures in it are ignored.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Migration {
    /// `None` before the start.
    pub(super) status: Option<Progress>,
    /// Why it failed.
    pub(super) error_desc: Option<String>,
}

/// The progress of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Progress {
    Completed,
    Failed,
    Cancelled,
    /// In one of QEMU's dozen intermediate stages.
    #[serde(other)]
    UnderWay,
}

/// A line from QEMU.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Message<T> {
    /// The command's result or error.
    Answer(qapi_spec::Response<T>),
    /// An event, which is ignored.
    Event {
        /// Never read; only an event has this field, so it distinguishes events from answers.
        #[serde(rename = "event")]
        _name: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use qapi_spec::Execute;

    fn line<C: Command>(command: &C) -> String {
        serde_json::to_string(&Execute::<&C>::from(command)).unwrap()
    }

    #[test]
    fn commands_are_written_as_the_schema_has_them() {
        assert_eq!(
            line(&Capabilities {}),
            r#"{"execute":"qmp_capabilities","arguments":{}}"#
        );
        assert_eq!(
            line(&SetParameters { max_bandwidth: 5 }),
            r#"{"execute":"migrate-set-parameters","arguments":{"max-bandwidth":5}}"#
        );
        assert_eq!(
            line(&Incoming {
                uri: "file:a".into(),
                exit_on_error: false
            }),
            r#"{"execute":"migrate-incoming","arguments":{"uri":"file:a","exit-on-error":false}}"#
        );
    }

    #[test]
    fn answers_errors_and_events_are_told_apart() {
        let read = |text| serde_json::from_str::<Message<Migration>>(text).unwrap();
        let Message::Answer(answer) = read(r#"{"return":{"status":"active","ram":{"total":7}}}"#)
        else {
            panic!("an answer");
        };
        assert_eq!(answer.result().unwrap().status, Some(Progress::UnderWay));
        let Message::Answer(answer) =
            read(r#"{"error":{"class":"GenericError","desc":"no such file"}}"#)
        else {
            panic!("an answer");
        };
        assert_eq!(answer.result().err().unwrap().desc, "no such file");
        let event = r#"{"timestamp":{"seconds":1,"microseconds":2},"event":"STOP"}"#;
        assert!(matches!(read(event), Message::Event { .. }));
    }
}
