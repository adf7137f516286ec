//! The commands of QEMU's control protocol that we give, as QEMU's `qapi/*.json`
//! define them: what they are called, what they take, and what is read of the
//! answer. A crate generated from that schema has all of it, and compiles for a
//! minute.

use qapi_spec::{Command, Dictionary};
use serde::{Deserialize, Serialize};

/// Gives each command its name and the type of its answer.
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

/// Ends the greeting: other commands may follow.
#[derive(Serialize)]
pub(super) struct Capabilities {}

/// A break on the line of a character device.
#[derive(Serialize)]
pub(super) struct SendBreak<'a> {
    pub(super) id: &'a str,
}

/// Lets a stopped machine go on.
#[derive(Serialize)]
pub(super) struct Continue {}

/// Stops the machine.
#[derive(Serialize)]
pub(super) struct Stop {}

/// Resets the machine.
#[derive(Serialize)]
pub(super) struct SystemReset {}

/// Ends QEMU.
#[derive(Serialize)]
pub(super) struct Quit {}

/// Whether the machine runs.
#[derive(Serialize)]
pub(super) struct QueryStatus {}

/// The answer to [`QueryStatus`].
#[derive(Deserialize)]
pub(super) struct Status {
    pub(super) running: bool,
}

/// How a machine is written to a file, and read.
#[derive(Serialize)]
pub(super) struct SetCapabilities {
    pub(super) capabilities: [Capability; 1],
}

/// One way to write it, on or off.
#[derive(Serialize)]
pub(super) struct Capability {
    pub(super) capability: &'static str,
    pub(super) state: bool,
}

/// How fast it may be.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct SetParameters {
    /// Bytes in a second.
    pub(super) max_bandwidth: u64,
}

/// Writes the machine.
#[derive(Serialize)]
pub(super) struct Migrate {
    pub(super) uri: String,
}

/// Reads a machine into one that waits for it.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Incoming {
    pub(super) uri: String,
    /// Otherwise it stays, and says why.
    pub(super) exit_on_error: bool,
}

/// How far writing or reading is.
#[derive(Serialize)]
pub(super) struct QueryMigrate {}

/// The answer to [`QueryMigrate`], without its figures.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Migration {
    /// None before there is something to write or to read.
    pub(super) status: Option<Progress>,
    /// Why it failed.
    pub(super) error_desc: Option<String>,
}

/// Where a migration stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Progress {
    /// All of it is done.
    Completed,
    /// It did not work.
    Failed,
    /// Somebody stopped it.
    Cancelled,
    /// Still under way, in one of a dozen stages.
    #[serde(other)]
    UnderWay,
}

/// One line from QEMU: the answer to a command, or news of the machine.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Message<T> {
    /// What the command returned, or why it did not.
    Answer(qapi_spec::Response<T>),
    /// Nobody here asked for it.
    Event {
        /// Which; there is nothing to do about it.
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
