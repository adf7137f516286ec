//! Sets the power-fail line of a running machine ([`set`]).
//!
//! The plugin in QEMU listens at a socket, whose name must be short. A symbolic link `FILE.psu`
//! beside the machine's memory file leads to it.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;

/// Time limit for the plugin's answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Power {
    /// The power fails, and ends after the hold-up
    Fail,
    /// The power is good again: within the hold-up, it then does not end
    Good,
}

impl Power {
    /// The plugin's command for it.
    fn command(self) -> &'static str {
        match self {
            Power::Fail => "fail",
            Power::Good => "good",
        }
    }
}

#[derive(Debug, Error)]
pub enum PsuError {
    #[error("cannot find memory file {file}: {reason}", file = .file.display())]
    NoFile { file: PathBuf, reason: io::Error },
    #[error("no running machine has the memory {file}: start one with `poorwill run --cut --ram {file}`", file = .0.display())]
    Off(PathBuf),
    #[error("the machine of {file} refuses: {reason}", file = .file.display())]
    Refused { file: PathBuf, reason: String },
    #[error("the power supply of {file} does not answer: {reason}", file = .file.display())]
    Silent { file: PathBuf, reason: io::Error },
    #[error("{} exists, and is not a link to a power supply: remove it", .0.display())]
    InTheWay(PathBuf),
    #[error("cannot create the link {link}: {reason}", link = .link.display())]
    NoLink { link: PathBuf, reason: io::Error },
}

/// Sets the line of the running machine whose memory is `ram`.
///
/// # Errors
///
/// [`PsuError`].
pub fn set(ram: &Path, power: Power) -> Result<(), PsuError> {
    let off = || PsuError::Off(ram.to_owned());
    let failed = |reason: io::Error| match reason.kind() {
        // The machine was killed, or is just ending.
        io::ErrorKind::NotFound
        | io::ErrorKind::ConnectionRefused
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::BrokenPipe => off(),
        _ => PsuError::Silent {
            file: ram.to_owned(),
            reason,
        },
    };
    let socket = fs::read_link(link_name(ram)?).map_err(|_| off())?;
    let stream = UnixStream::connect(socket).map_err(failed)?;
    match ask(stream, power.command()).map_err(failed)?.trim_end() {
        "ok" => Ok(()),
        "" => Err(off()),
        answer => Err(PsuError::Refused {
            file: ram.to_owned(),
            reason: answer.trim_start_matches("error: ").to_owned(),
        }),
    }
}

fn ask(mut stream: UnixStream, command: &str) -> io::Result<String> {
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    let mut answer = String::new();
    writeln!(stream, "{command}")?;
    BufReader::new(stream).read_line(&mut answer)?;
    Ok(answer)
}

/// The link's name beside the file's canonical name.
fn link_name(ram: &Path) -> Result<PathBuf, PsuError> {
    let file = fs::canonicalize(ram).map_err(|reason| PsuError::NoFile {
        file: ram.to_owned(),
        reason,
    })?;
    let mut name = OsString::from(file);
    name.push(".psu");
    Ok(name.into())
}

/// The link from a memory file to its machine's power supply; removed when dropped.
#[derive(Debug)]
pub struct Link {
    name: PathBuf,
    socket: PathBuf,
}

impl Link {
    /// Creates the link. The machine must have locked its memory file, so that an existing link is
    /// old.
    ///
    /// # Errors
    ///
    /// [`PsuError`].
    pub fn make(ram: &Path, socket: PathBuf) -> Result<Self, PsuError> {
        let name = link_name(ram)?;
        match fs::symlink_metadata(&name) {
            Ok(data) if !data.is_symlink() => return Err(PsuError::InTheWay(name)),
            Ok(_) => drop(fs::remove_file(&name)),
            Err(_) => {}
        }
        symlink(&socket, &name).map_err(|reason| PsuError::NoLink {
            link: name.clone(),
            reason,
        })?;
        Ok(Link { name, socket })
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if fs::read_link(&self.name).is_ok_and(|socket| socket == self.socket) {
            // A destructor has no caller that could get the error.
            let _ = fs::remove_file(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::thread;

    use super::*;

    /// A machine's memory, and a socket for its power supply.
    struct World {
        folder: tempfile::TempDir,
        ram: PathBuf,
        socket: PathBuf,
    }

    fn world() -> World {
        let folder = tempfile::tempdir().unwrap();
        // This name is too long for a socket.
        let deep = folder.path().join("d".repeat(200));
        fs::create_dir(&deep).unwrap();
        let (ram, socket) = (deep.join("ram"), folder.path().join("psu"));
        fs::write(&ram, "").unwrap();
        World {
            folder,
            ram,
            socket,
        }
    }

    /// Answers one connection; returns the request.
    fn answer(world: &World, answer: &'static str) -> thread::JoinHandle<String> {
        let listener = UnixListener::bind(&world.socket).unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = String::new();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            reader.read_line(&mut asked).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
            asked
        })
    }

    #[test]
    fn a_machine_is_found_by_any_name_of_its_memory() {
        let world = world();
        let _link = Link::make(&world.ram, world.socket.clone()).unwrap();
        let machine = answer(&world, "ok\n");
        let other = world.folder.path().join("other");
        symlink(&world.ram, &other).unwrap();
        set(&other, Power::Fail).unwrap();
        assert_eq!(machine.join().unwrap(), "fail\n");
    }

    #[test]
    fn a_refusal_is_quoted() {
        let world = world();
        let _link = Link::make(&world.ram, world.socket.clone()).unwrap();
        let machine = answer(&world, "error: the power is off\n");
        let error = set(&world.ram, Power::Good).unwrap_err().to_string();
        assert!(error.ends_with("refuses: the power is off"), "{error}");
        assert_eq!(machine.join().unwrap(), "good\n");
    }

    #[test]
    fn a_machine_that_is_off_is_none() {
        let world = world();
        let is_off = || matches!(set(&world.ram, Power::Fail), Err(PsuError::Off(_)));
        assert!(is_off(), "no link");
        let link = Link::make(&world.ram, world.socket.clone()).unwrap();
        assert!(is_off(), "no socket");
        drop(UnixListener::bind(&world.socket).unwrap());
        assert!(is_off(), "nobody listens");
        fs::remove_file(&world.socket).unwrap();
        let machine = answer(&world, "");
        assert!(is_off(), "closed without an answer");
        machine.join().unwrap();
        fs::remove_file(&world.socket).unwrap();
        let listener = UnixListener::bind(&world.socket).unwrap();
        let machine = thread::spawn(move || drop(listener.accept().unwrap()));
        assert!(is_off(), "closed before it reads the command");
        machine.join().unwrap();
        drop(link);
        assert!(is_off());
        let absent = set(&world.folder.path().join("absent"), Power::Fail);
        assert!(matches!(absent, Err(PsuError::NoFile { .. })), "{absent:?}");
    }

    #[test]
    fn a_link_replaces_an_old_one_and_nothing_else() {
        let world = world();
        let name = link_name(&world.ram).unwrap();
        symlink("/gone", &name).unwrap();
        let link = Link::make(&world.ram, world.socket.clone()).unwrap();
        assert_eq!(fs::read_link(&name).unwrap(), world.socket);
        drop(link);
        assert!(
            fs::symlink_metadata(&name).is_err(),
            "the link is not removed"
        );
        fs::write(&name, "precious").unwrap();
        let refused = Link::make(&world.ram, world.socket.clone());
        assert!(matches!(refused, Err(PsuError::InTheWay(_))), "{refused:?}");
        assert_eq!(fs::read(&name).unwrap(), b"precious");
    }
}
