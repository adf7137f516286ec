//! The entry point by which QEMU loads the plugin.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::io;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Mutex;

use thiserror::Error;

use crate::log::Log;
use crate::memory::{Ram, RamError};
use crate::model::Model;
use crate::options::{LogOptions, OptionError, Options};
use crate::qemu::counters::CsrTable;
use crate::qemu::interface::{Info, Interface, PluginId};
use crate::qemu::internals::Internals;
use crate::qemu::symbols::MissingSymbol;
use crate::qemu::version::{VersionError, check, version};
use crate::session::{Session, fail};
use crate::time::TimeBase;
use crate::trace::tracer;
use crate::translate::translated;
use crate::{clock, control, ending};

/// The version of QEMU's plugin interface that this code uses.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: c_int = 4;

/// Why the plugin does not load.
#[derive(Debug, Error)]
enum LoadError {
    #[error(transparent)]
    Version(#[from] VersionError),
    #[error(transparent)]
    Symbol(#[from] MissingSymbol),
    #[error(transparent)]
    Option(#[from] OptionError),
    #[error("an argument is not text")]
    NoText,
    #[error(transparent)]
    Ram(#[from] RamError),
    #[error("the control socket {socket} cannot be created: {reason}", socket = .socket.display())]
    Control { socket: PathBuf, reason: io::Error },
    #[error("the log {file} cannot be created: {reason}", file = .file.display())]
    Log { file: PathBuf, reason: io::Error },
    #[error("the plugin is loaded already")]
    Twice,
}

/// QEMU's plugin loader calls this.
///
/// # Safety
///
/// The arguments must be as QEMU's plugin interface defines them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: PluginId,
    info: *const Info,
    count: c_int,
    arguments: *const *const c_char,
) -> c_int {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: QEMU passes `count` strings, which live until this call returns.
    let loaded = unsafe {
        let arguments = (0..count).map(|at| CStr::from_ptr(*arguments.add(at)));
        load(id, &*info, arguments)
    };
    match loaded {
        Ok(()) => 0,
        Err(reason) => {
            eprintln!("poorwill-plugin: {reason}");
            -1
        }
    }
}

/// The control socket, until the first hart exists.
static LISTENER: Mutex<Option<UnixListener>> = Mutex::new(None);

fn load<'a>(
    id: PluginId,
    info: &Info,
    arguments: impl Iterator<Item = &'a CStr>,
) -> Result<(), LoadError> {
    check(version()?, &info.target(), info.is_system())?;
    let arguments: Result<Vec<_>, _> = arguments.map(CStr::to_str).collect();
    let options = Options::parse(arguments.map_err(|_| LoadError::NoText)?)?;
    let qemu = Interface::find()?;
    let internals = Internals::find()?;
    let csrs = CsrTable::find()?;
    let ram = options.ram.as_deref().map(Ram::map).transpose()?;
    let listener = options.control.as_ref().map(|socket| {
        UnixListener::bind(socket).map_err(|reason| LoadError::Control {
            socket: socket.clone(),
            reason,
        })
    });
    let listener = listener.transpose()?;
    let harts = info.harts();
    let mut model = Model::new(&options, harts, ram);
    if let Some(LogOptions { file, .. }) = &options.log {
        model.log = Some(Log::create(file).map_err(|reason| LoadError::Log {
            file: file.clone(),
            reason,
        })?);
    }
    let session = Session::new(options, qemu, internals, csrs, model, harts);
    if !session.keep() {
        return Err(LoadError::Twice);
    }
    *LISTENER.lock().expect("no panic holds this lock") = listener;
    Session::get().qemu.register(id, made, translated, ended);
    Ok(())
}

/// QEMU calls this for each new hart, in the hart's thread, before any hart runs.
extern "C" fn made(_id: PluginId, number: c_uint) {
    let session = Session::get();
    let hart = Session::hart(number);
    if session.internals.is_multi_threaded() {
        fail(&"start QEMU with -accel tcg,thread=single");
    }
    let Some(cpu) = session.internals.hart(hart) else {
        fail(&format_args!("QEMU has no hart {hart}"));
    };
    session.made(hart, cpu);
    session.internals.share_code(cpu);
    let first = session.model().time.as_ref().map(TimeBase::first_counter);
    session.qemu.set_counter(hart, first.unwrap_or(0));
    if hart == 0 {
        made_first(session);
    }
}

fn made_first(session: &'static Session) {
    match session.qemu.registers() {
        Some(registers) => _ = session.registers.set(registers),
        None => fail(&"QEMU does not list the general registers"),
    }
    if session.options.time
        && let Err(reason) = clock::start(session)
    {
        fail(&reason);
    }
    let listener = LISTENER.lock().expect("nobody panicked").take();
    if let Some(listener) = listener
        && let Err(reason) = control::start(session, listener)
    {
        fail(&format_args!("no thread for the control socket: {reason}"));
    }
}

extern "C" fn ended(_id: PluginId, _data: *mut c_void) {
    ending::qemu_ended(Session::get());
    tracer::unfinished(Session::get());
}
