//! Machines whose memory requests are recorded.

use std::ffi::OsString;
use std::path::Path;

use poorwill_plugin::cache::Geometry;
use poorwill_plugin::options::TraceOptions;

use crate::Machine;
use crate::quoted::quoted;

impl Machine {
    /// The same machine under QEMU's plugin, which records a trace. Each run is the same: time is
    /// counted in instructions, and random numbers have a seed.
    #[must_use]
    pub fn for_trace(mut self, plugin: &Path, caches: Geometry, trace: &TraceOptions) -> Self {
        self.add("-accel", "tcg,thread=single");
        self.add("-seed", "7");
        self.add("-rtc", "base=2026-01-01,clock=vm");
        let plugin = format!(
            "{},grace=0,l1={},ways={},trace={},trace-skip={},trace-instructions={},\
             trace-guest={},trace-program={}",
            quoted(plugin),
            caches.bytes(),
            caches.ways(),
            quoted(&trace.file),
            trace.skip,
            trace.instructions,
            trace.guest,
            trace.program,
        );
        self.add("-plugin", OsString::from(plugin));
        self
    }
}
