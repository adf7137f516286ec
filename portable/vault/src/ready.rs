use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

use crate::VaultError;

/// The output of `future` at its first poll. The flash's futures never wait, so futures
/// built from them do not wait either.
pub(crate) fn ready<T>(future: impl Future<Output = T>) -> Result<T, VaultError> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Ok(value),
        Poll::Pending => Err(VaultError::Waited),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_future_that_waits_is_an_error() {
        assert_eq!(ready(async { 7 }), Ok(7));
        assert_eq!(
            ready(core::future::pending::<()>()),
            Err(VaultError::Waited)
        );
    }
}
