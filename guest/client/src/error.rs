//! What can go wrong.

use rustix::io::Errno;

/// Why there is no answer of redis after the event.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("usage: redis-client mem|disk|wake|line TEXT")]
    Usage,
    #[error("cannot write to /dev/kmsg ({0})")]
    Log(Errno),
    #[error("cannot say that all is prepared ({0})")]
    Text(Errno),
    #[error("cannot open {0} ({1}): can this kernel suspend?")]
    Open(&'static str, Errno),
    #[error("the kernel refuses to sleep ({0}); its log says why")]
    Refused(Errno),
    #[error("cannot read the kernel's count of sleeps ({0})")]
    Count(Errno),
    #[error("the kernel's count of sleeps is no number")]
    NoCount,
    #[error("the sleep failed; the kernel's log says why")]
    Failed,
    #[error("nobody has sent the machine to sleep within {0} s")]
    Awake(u32),
    #[error("cannot read a line ({0})")]
    Line(Errno),
    #[error("standard input has ended without a line")]
    NoLine,
    #[error("cannot connect to redis at 127.0.0.1:6379 ({0}): does it run?")]
    Connect(Errno),
    #[error("cannot ask redis ({0})")]
    Ask(Errno),
    #[error("redis has closed the connection")]
    Closed,
    #[error("redis answers something else than PONG")]
    Answer,
}
