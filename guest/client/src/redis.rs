//! A connection to redis.

use core::net::{Ipv4Addr, SocketAddrV4};
use core::time::Duration;

use rustix::fd::OwnedFd;
use rustix::io::retry_on_intr;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{connect, recv, send, socket_with};

use crate::error::Error;

const ADDRESS: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 6379);
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
const PING: &[u8] = b"PING\r\n";
const PONG: &[u8] = b"+PONG\r\n";

#[derive(Debug)]
pub(crate) struct Redis {
    socket: OwnedFd,
}

impl Redis {
    pub(crate) fn connect() -> Result<Self, Error> {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)
            .map_err(Error::Connect)?;
        connect(&socket, &ADDRESS).map_err(Error::Connect)?;
        set_socket_timeout(&socket, Timeout::Recv, Some(ANSWER_LIMIT)).map_err(Error::Connect)?;
        Ok(Redis { socket })
    }

    /// Sends PING, and waits for PONG.
    pub(crate) fn ping(&self) -> Result<(), Error> {
        // These few bytes fit into the socket's buffer, so the call sends all of them.
        retry_on_intr(|| send(&self.socket, PING, SendFlags::NOSIGNAL)).map_err(Error::Ask)?;
        let mut answer = [0; PONG.len()];
        let mut have = 0;
        while have < PONG.len() {
            let rest = &mut answer[have..];
            let (received, _) =
                retry_on_intr(|| recv(&self.socket, &mut *rest, RecvFlags::empty()))
                    .map_err(Error::Ask)?;
            if received == 0 {
                return Err(Error::Closed);
            }
            have += received;
        }
        if answer == PONG {
            Ok(())
        } else {
            Err(Error::Answer)
        }
    }
}
