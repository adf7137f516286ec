//! The control socket, by which a program raises and lowers the power-fail line of a running
//! machine.
//!
//! The command `fail` raises it, and `good` lowers it. The answer is `ok` or `error: ...`.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;

use crate::report::Cause;
use crate::session::Session;
use crate::signal;

/// Serves one connection after the other, in a thread of its own.
pub(crate) fn start(session: &'static Session, listener: UnixListener) -> io::Result<()> {
    let name = "power line".to_owned();
    let serve = move || {
        session.internals.register_thread();
        for connection in listener.incoming() {
            if let Err(reason) = connection.and_then(|stream| serve(session, stream)) {
                eprintln!("poorwill-plugin: the control socket: {reason}");
            }
        }
    };
    thread::Builder::new().name(name).spawn(serve)?;
    Ok(())
}

fn serve(session: &Session, stream: UnixStream) -> io::Result<()> {
    let mut answers = stream.try_clone()?;
    for line in BufReader::new(stream).lines() {
        let line = line?;
        // The power's end needs the big lock, too, so the answer is sent before QEMU exits.
        let _lock = session.internals.lock();
        let answer = match obey(session, &line) {
            Ok(()) => "ok\n".to_owned(),
            Err(reason) => format!("error: {reason}\n"),
        };
        answers.write_all(answer.as_bytes())?;
    }
    Ok(())
}

fn obey(session: &Session, command: &str) -> Result<(), String> {
    if session.model().has_ended() {
        return Err("the power is off".to_owned());
    }
    let done = match command {
        "fail" => signal::raise(session, Cause::Control, None),
        "good" => signal::lower(session),
        other => return Err(format!("`{other}` is neither `fail` nor `good`")),
    };
    done.map_err(|reason| reason.to_string())
}
