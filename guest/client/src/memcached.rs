//! A client that keeps memcached busy. `memcached-client SOCKET fill` sets each key once;
//! `memcached-client SOCKET read|write NUMBER` reads or sets random keys, with four requests under
//! way, until memcached ends. NUMBER is the seed of its choices.
#![no_std]
#![no_main]

use core::ffi::CStr;
use core::fmt::{self, Write};

use arrayvec::{ArrayString, ArrayVec};
use poorwill_guest_entry::{Arguments, STDERR, Stream, exit};
use rustix::fd::OwnedFd;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use rustix::net::{connect, recv, send, socket_with};
use thiserror::Error;

poorwill_guest_entry::start!(main);

const KEYS: u64 = 20_000;
/// Bytes of a value.
const VALUE: usize = 128;
/// Requests that are sent before their answers are read.
const DEPTH: usize = 4;
/// Room for these requests, or for their answers: a line, a value and its end.
const ROOM: usize = DEPTH * (VALUE + 64);

/// The ends of memcached's answers.
const STORED: &[u8] = b"STORED\r\n";
const VALUE_END: &[u8] = b"\r\nEND\r\n";

#[derive(Debug, Error)]
enum Error {
    #[error("usage: memcached-client SOCKET fill, or SOCKET read|write NUMBER")]
    Usage,
    #[error("memcached cannot be reached: {0}")]
    Connect(Errno),
    #[error("a request cannot be sent: {0}")]
    Send(Errno),
    #[error("no answer can be read: {0}")]
    Receive(Errno),
    #[error("memcached has closed the connection")]
    Closed,
    #[error("memcached answers something else")]
    Answer,
}

/// What a client asks for.
#[derive(Clone, Copy)]
enum Kind {
    Get,
    Set,
}

/// Returns the exit status.
fn main(arguments: Arguments) -> u8 {
    let word = |at| arguments.get(at).and_then(|word: &CStr| word.to_str().ok());
    match run(arguments.get(1), word(2), word(3)) {
        Ok(()) => 0,
        Err(error) => {
            complain(&error);
            1
        }
    }
}

fn run(socket: Option<&CStr>, verb: Option<&str>, number: Option<&str>) -> Result<(), Error> {
    let (socket, verb) = socket.zip(verb).ok_or(Error::Usage)?;
    let client = Client::connect(socket)?;
    if verb == "fill" {
        let mut first = 0;
        while first < KEYS {
            client.ask(Kind::Set, |at| first + at)?;
            first += DEPTH as u64;
        }
        return Ok(());
    }
    let kind = match verb {
        "read" => Kind::Get,
        "write" => Kind::Set,
        _ => return Err(Error::Usage),
    };
    let seed = number.and_then(|number| number.parse::<u64>().ok());
    let mut state = seed.ok_or(Error::Usage)?;
    loop {
        client.ask(kind, |_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % KEYS
        })?;
    }
}

struct Client {
    socket: OwnedFd,
}

impl Client {
    fn connect(path: &CStr) -> Result<Self, Error> {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
            .map_err(Error::Connect)?;
        let address = SocketAddrUnix::new(path).map_err(Error::Connect)?;
        connect(&socket, &address).map_err(Error::Connect)?;
        Ok(Client { socket })
    }

    /// Sends requests for the keys, and reads the answers.
    fn ask(&self, kind: Kind, mut key: impl FnMut(u64) -> u64) -> Result<(), Error> {
        let mut text = ArrayString::<ROOM>::new();
        for at in 0..DEPTH as u64 {
            let key = key(at);
            // The room is for the longest requests.
            let _fits = match kind {
                Kind::Get => write!(text, "get key:{key:012}\r\n"),
                Kind::Set => write!(
                    text,
                    "set key:{key:012} 0 0 {VALUE}\r\n{key:0width$}\r\n",
                    width = VALUE
                ),
            };
        }
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let sent = retry_on_intr(|| send(&self.socket, rest, SendFlags::NOSIGNAL));
            rest = &rest[sent.map_err(Error::Send)?..];
        }
        self.await_answers(kind)
    }

    fn await_answers(&self, kind: Kind) -> Result<(), Error> {
        let end = match kind {
            Kind::Get => VALUE_END,
            Kind::Set => STORED,
        };
        let mut answers = ArrayVec::<u8, ROOM>::new();
        let mut piece = [0; ROOM];
        loop {
            let room = answers.remaining_capacity();
            let part = &mut piece[..room];
            let received = retry_on_intr(|| recv(&self.socket, &mut *part, RecvFlags::empty()));
            let (received, _) = received.map_err(Error::Receive)?;
            if received == 0 {
                return Err(if room == 0 {
                    Error::Answer
                } else {
                    Error::Closed
                });
            }
            let fits = answers.try_extend_from_slice(&piece[..received]);
            fits.map_err(|_| Error::Answer)?;
            let ends = answers.windows(end.len()).filter(|part| *part == end);
            if ends.count() == DEPTH {
                return match answers.ends_with(end) {
                    true => Ok(()),
                    false => Err(Error::Answer),
                };
            }
        }
    }
}

/// Writes to standard error. If that fails, there is no other place for the message.
fn complain(what: &dyn fmt::Display) {
    let _nobody_listens = writeln!(Stream(STDERR), "memcached-client: {what}");
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    complain(info);
    exit(101)
}
