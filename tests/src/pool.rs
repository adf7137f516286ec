//! Tests `tools/pool` with an archive that loses connections, files and bytes. The archive is a
//! server in this test, and apt uses it.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use tempfile::TempDir;

/// Number of packages in the lock: enough for several connections.
const PACKAGES: usize = 24;

/// A fault of the archive.
#[derive(Clone, Copy)]
enum Fault {
    None,
    /// Every third answer ends in the middle, and so does its connection.
    Breaks,
    /// One package has other bytes than the lock demands.
    Changed(&'static str),
    /// One package is missing.
    Lost(&'static str),
}

fn name(index: usize) -> String {
    format!("package{index:02}")
}

fn contents(name: &str) -> Vec<u8> {
    name.bytes().cycle().take(60_000).collect()
}

struct Archive {
    address: String,
    requests: Arc<AtomicU32>,
}

impl Archive {
    fn start(fault: Fault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let count = Arc::clone(&count);
                // A client that disconnects ends its connection, not the test.
                thread::spawn(move || drop(serve(&stream.unwrap(), fault, &count)));
            }
        });
        Archive { address, requests }
    }

    fn requests(&self) -> u32 {
        self.requests.load(Ordering::SeqCst)
    }
}

fn serve(stream: &TcpStream, fault: Fault, count: &AtomicU32) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut stream = stream;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut from = 0;
        while line.trim() != "" {
            line.clear();
            reader.read_line(&mut line)?;
            if let Some(range) = line.strip_prefix("Range: bytes=") {
                from = range
                    .trim_end_matches(['-', '\r', '\n'])
                    .parse()
                    .unwrap_or(0);
            }
        }
        let number = count.fetch_add(1, Ordering::SeqCst);
        let lost = matches!(fault, Fault::Lost(lost) if path.contains(lost));
        let mut names = (0..PACKAGES).map(name);
        let Some(name) = names.find(|name| path.contains(name.as_str()) && !lost) else {
            stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")?;
            continue;
        };
        let mut body = contents(&name);
        if matches!(fault, Fault::Changed(changed) if changed == name) {
            body[30_000] ^= 1;
        }
        let (total, body) = (body.len(), &body[from..]);
        let status = if from == 0 {
            "200 OK".to_owned()
        } else {
            let last = total - 1;
            format!("206 Partial Content\r\nContent-Range: bytes {from}-{last}/{total}")
        };
        let length = body.len();
        write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n"
        )?;
        if matches!(fault, Fault::Breaks) && number % 3 == 2 {
            stream.write_all(&body[..length / 2])?;
            return stream.shutdown(std::net::Shutdown::Both);
        }
        stream.write_all(body)?;
    }
}

fn sha256(bytes: &[u8], scratch: &Path) -> String {
    fs::write(scratch, bytes).unwrap();
    let output = Command::new("sha256sum").arg(scratch).output().unwrap();
    String::from_utf8(output.stdout).unwrap()[..64].to_owned()
}

/// A cache and a lock, with an apt that knows only `archive`.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new(archive: &Archive) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let lock: String = (0..PACKAGES)
            .map(name)
            .map(|name| {
                let bytes = contents(&name);
                let hash = sha256(&bytes, &at("scratch"));
                let path = format!("pool/main/{name}_1_riscv64.deb");
                format!("root\t{name}\t1\t{path}\t{hash}\t{}\n", bytes.len())
            })
            .collect();
        fs::write(at("lock"), lock).unwrap();
        let source = format!("deb [trusted=yes] http://{} trixie main\n", archive.address);
        fs::write(at("sources.list"), source).unwrap();
        let list = at("sources.list");
        let settings = format!(
            "Dir::Etc::SourceList \"{}\";\nDir::Etc::SourceParts \"/dev/null\";\n\
             Acquire::http::Proxy \"DIRECT\";\n",
            list.display()
        );
        fs::write(at("apt.conf"), settings).unwrap();
        Place { folder }
    }

    fn fetch(&self) -> Output {
        let at = |name: &str| self.folder.path().join(name);
        Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools/pool"))
            .args(["fetch", "root"])
            .env("POORWILL_LOCK", at("lock"))
            .env("POORWILL_CACHE", at("cache"))
            .env("APT_CONFIG", at("apt.conf"))
            .output()
            .unwrap()
    }

    /// The number of packages that are complete.
    fn whole(&self) -> usize {
        let pool = self.folder.path().join("cache/pool");
        let is_whole = |name: &String| {
            fs::read(pool.join(format!("{name}_1_riscv64.deb")))
                .is_ok_and(|read| read == contents(name))
        };
        (0..PACKAGES).map(name).filter(is_whole).count()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn connections_that_break_are_gone_on_with_and_nothing_is_loaded_twice() {
    let archive = Archive::start(Fault::Breaks);
    let place = Place::new(&archive);
    let output = place.fetch();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(place.whole(), PACKAGES);
    assert!(
        archive.requests() > u32::try_from(PACKAGES).unwrap(),
        "none broke"
    );
    let asked = archive.requests();
    assert!(place.fetch().status.success());
    assert_eq!(archive.requests(), asked);
}

#[test]
fn a_package_with_other_bytes_is_refused_by_name() {
    let archive = Archive::start(Fault::Changed("package07"));
    let place = Place::new(&archive);
    let output = place.fetch();
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains("package07_1_riscv64.deb is not what the lock names"));
    assert_eq!(place.whole(), PACKAGES - 1);
}

#[test]
fn a_package_that_no_suite_has_is_named_and_the_others_are_kept() {
    let archive = Archive::start(Fault::Lost("package05"));
    let place = Place::new(&archive);
    let output = place.fetch();
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains("cannot be loaded: package05 1"));
    assert_eq!(place.whole(), PACKAGES - 1);
}

#[test]
fn a_file_that_was_changed_later_is_loaded_again() {
    let archive = Archive::start(Fault::None);
    let place = Place::new(&archive);
    assert!(place.fetch().status.success());
    let file = place
        .folder
        .path()
        .join("cache/pool/package03_1_riscv64.deb");
    let mut bytes = fs::read(&file).unwrap();
    bytes[1] ^= 0x80;
    fs::write(&file, bytes).unwrap();
    assert!(place.fetch().status.success());
    assert_eq!(place.whole(), PACKAGES);
}
