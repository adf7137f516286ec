//! The errors of the redis client.

use rustix::io::Errno;

/// Why redis did not answer after the event.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("usage: redis-client mem|disk|wake|line TEXT")]
    Usage,
    #[error("cannot write to /dev/kmsg ({0}): run it as root")]
    Log(Errno),
    #[error("cannot write to standard output ({0})")]
    Text(Errno),
    #[error("cannot open {0} ({1}): can this kernel suspend?")]
    Open(&'static str, Errno),
    #[error("the kernel refuses to sleep ({0}); its log says why")]
    Refused(Errno),
    #[error("cannot read the kernel's count of sleeps ({0})")]
    Count(Errno),
    #[error("the kernel's count of sleeps is not a number")]
    NoCount,
    #[error("the sleep failed; the kernel's log says why")]
    Failed,
    #[error("the machine did not sleep within {0} s")]
    Awake(u32),
    #[error("cannot read from standard input ({0})")]
    Line(Errno),
    #[error("standard input ended before a line")]
    NoLine,
    #[error("cannot connect to redis at 127.0.0.1:6379 ({0}): does it run?")]
    Connect(Errno),
    #[error("cannot send to redis ({0})")]
    Ask(Errno),
    #[error("redis closed the connection")]
    Closed,
    #[error("redis's answer is not PONG")]
    Answer,
}
