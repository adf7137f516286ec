//! The guest whose programs are traced.

use poorwill_machine::paths::{Guest, Manifest, Tiny};
use poorwill_trace::Digest;
use sha2::{Digest as _, Sha256};

use super::error::TracesError;
use super::programs::Program;

/// The guest for traces, and its digest.
#[derive(Clone, Debug)]
pub(super) struct TracedGuest {
    /// The digest of its kernel's and its initramfs's digests.
    pub(super) digest: Digest,
    manifest: Manifest,
}

impl TracedGuest {
    /// The built guest.
    pub(super) fn find() -> Result<Self, TracesError> {
        let manifest = Guest::manifest().ok_or(TracesError::NoManifest)?;
        let mut hash = Sha256::new();
        for file in ["Image", "workloads.img"] {
            let digest = manifest.sha256.get(file);
            let digest = digest.and_then(|digest| digest.parse::<Digest>().ok());
            hash.update(digest.ok_or(TracesError::NoManifest)?.0);
        }
        Ok(TracedGuest {
            digest: Digest(hash.finalize().into()),
            manifest,
        })
    }

    /// Its kernel and its initramfs, which must have the program.
    pub(super) fn with(&self, program: &Program) -> anyhow::Result<Tiny> {
        let manifest = &self.manifest;
        let lists = [&manifest.packages, &manifest.workloads];
        if let Some(package) = program.package
            && lists.iter().all(|list| !list.contains_key(package))
        {
            let program = program.name;
            return Err(TracesError::NoPackage { program, package }.into());
        }
        Ok(Tiny::for_traces()?)
    }
}
