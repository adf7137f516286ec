//! The domain of the OS, which may not change the machine's sleep.

use core::str;

use crate::error::{DOMAIN_BYTES, DomainName, Error};
use crate::files;
use crate::places::Places;

/// The name of the OS's domain, on a machine with domains.
pub(crate) fn domain(places: &Places<'_>) -> Result<Option<DomainName>, Error> {
    let Some(bytes) = files::read::<DOMAIN_BYTES>(places.domain).map_err(Error::Told)? else {
        return Ok(None);
    };
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    let mut name = DomainName::new();
    name.push_str(str::from_utf8(text).unwrap_or("?"));
    Ok(Some(name))
}

/// Refuses a command that changes the machine's sleep, in a domain.
pub(crate) fn need_machine(places: &Places<'_>) -> Result<(), Error> {
    domain(places)?.map_or(Ok(()), |name| Err(Error::Domain(name)))
}
