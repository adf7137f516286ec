use thiserror::Error;

/// Contents of the guest that were lost or changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Lost {
    #[error("the guest's line lacks {0}: {1:?}")]
    Key(&'static str, String),
    #[error("{what} changed: {before} before, {after} after")]
    Changed {
        what: &'static str,
        before: String,
        after: String,
    },
    #[error("{what} did not advance: {before} before, {after} after")]
    Stopped {
        what: &'static str,
        before: String,
        after: String,
    },
}
