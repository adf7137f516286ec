//! One half of the vault: two blocks with a map in them that only grows.

use core::marker::PhantomData;
use core::ops::Range;

use embedded_storage_async::nor_flash::{
    ErrorType, MultiwriteNorFlash, NorFlash, NorFlashErrorKind, ReadNorFlash,
};
use sequential_storage::Error;
use sequential_storage::cache::{Cache, Uncached};
use sequential_storage::map::{MapConfig, MapStorage};
use zeroize::{Zeroize, Zeroizing};

use crate::append::{AppendOnly, Stop};
use crate::items::{
    self, Count, Header, KEY_ITEM_BYTES, OLDEST_VAULT_VERSION, TAG_COUNT, TAG_CUT, TAG_HEADER,
    TAG_KEPT, TAG_KEY, VAULT_VERSION, decode_header, decode_secret, encode_header, encode_secret,
};
use crate::key::Secret;
use crate::ready::ready;
use crate::{FlashFault, VaultError};

/// Room for the largest item: the tag and the key, in whole words of any flash.
const BUFFER: usize = (1 + KEY_ITEM_BYTES).next_multiple_of(32);

type Map<'a, F> = MapStorage<u8, AppendOnly<'a, F>, Cache<Uncached, Uncached, Uncached, u8>>;

fn map<'a, F: MultiwriteNorFlash>(
    flash: &'a mut F,
    range: &Range<u32>,
) -> Result<Map<'a, F>, VaultError> {
    let config = MapConfig::try_new(range.clone()).map_err(|_| VaultError::Range)?;
    Ok(MapStorage::new(
        AppendOnly(flash),
        config,
        Cache::new_uncached(),
    ))
}

#[derive(Debug)]
pub(crate) enum Contents {
    Valid(State),
    /// A valid header without a complete state.
    Begun,
    /// A header of an unknown version.
    Version(u16),
    Nothing,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) epoch: u64,
    pub(crate) version: u16,
    /// `None`: the key is only in the flash.
    pub(crate) secret: Option<Secret>,
    pub(crate) numbers: Numbers,
    /// All items in the half, including outdated ones.
    pub(crate) items: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub(crate) count: Count,
    /// The generation of the machine's snapshot; 0: none.
    pub(crate) kept: u64,
    /// The number of the cut that may be taken or resumed; 0: none.
    pub(crate) cut: u64,
}

impl Numbers {
    /// The oldest version that can store these numbers.
    pub(crate) fn version(&self) -> u16 {
        match self.cut {
            0 => OLDEST_VAULT_VERSION,
            _ => VAULT_VERSION,
        }
    }
}

/// The items read so far; the last item of each kind counts.
#[derive(Debug)]
struct Found {
    header: Option<Header>,
    secret: Secret,
    count: Option<Count>,
    kept: u64,
    cut: u64,
    items: u32,
    is_strange: bool,
}

impl Found {
    fn take(&mut self, tag: u8, value: &[u8]) {
        self.items += 1;
        let is_known = match tag {
            TAG_HEADER => decode_header(value)
                .map(|header| self.header = Some(header))
                .is_some(),
            TAG_KEY => decode_secret(value)
                .map(|secret| self.secret = secret)
                .is_some(),
            TAG_COUNT => Count::decode(value)
                .map(|count| self.count = Some(count))
                .is_some(),
            TAG_KEPT => value
                .try_into()
                .map(|bytes| self.kept = u64::from_le_bytes(bytes))
                .is_ok(),
            TAG_CUT => value
                .try_into()
                .map(|bytes| self.cut = u64::from_le_bytes(bytes))
                .is_ok(),
            _ => false,
        };
        self.is_strange |= !is_known;
    }

    fn contents(self) -> Contents {
        match (self.header, self.count) {
            (None, _) => Contents::Nothing,
            (Some(Header::Unknown(found)), _) => Contents::Version(found),
            (Some(Header::Epoch { epoch, version }), Some(count)) if !self.is_strange => {
                let numbers = Numbers {
                    count,
                    kept: self.kept,
                    cut: self.cut,
                };
                if numbers.version() > version {
                    return Contents::Begun;
                }
                Contents::Valid(State {
                    epoch,
                    version,
                    secret: Some(self.secret),
                    numbers,
                    items: self.items,
                })
            }
            (Some(Header::Epoch { .. }), _) => Contents::Begun,
        }
    }
}

/// Reads a half without writing.
pub(crate) fn read<F: MultiwriteNorFlash>(
    flash: &mut F,
    range: &Range<u32>,
) -> Result<Contents, VaultError> {
    let mut map = map(flash, range)?;
    let mut found = Found {
        header: None,
        secret: Secret::Missing,
        count: None,
        kept: 0,
        cut: 0,
        items: 0,
        is_strange: false,
    };
    let mut buffer = Zeroizing::new([0; BUFFER]);
    let result = ready(async {
        let mut items = map.fetch_all_items(&mut buffer[..]).await?;
        while let Some((tag, value)) = items.next::<&[u8]>(&mut buffer[..]).await? {
            found.take(tag, value);
        }
        Ok(())
    })?;
    match result {
        Ok(()) => Ok(found.contents()),
        Err(Error::Storage {
            value: Stop::Flash(fault),
            ..
        }) => Err(VaultError::Flash(fault)),
        // These bytes are not from the map, or not from a complete write.
        Err(_) => {
            found.is_strange = true;
            Ok(found.contents())
        }
    }
}

/// The reason why an item is not in a half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PutError {
    /// There is no room for it, or the map does not find it. The half's state is
    /// unchanged.
    NoRoom,
    /// The flash failed: the half's contents are unknown.
    Failed(VaultError),
}

impl PutError {
    /// Converts the error for a new half. It has room for every item, so the flash is at fault.
    pub(crate) fn in_new_half(self, range: &Range<u32>) -> VaultError {
        match self {
            PutError::NoRoom => VaultError::NotKept {
                offset: range.start,
            },
            PutError::Failed(error) => error,
        }
    }
}

/// Appends an item to a half, and verifies that the map finds it.
pub(crate) fn put<F: MultiwriteNorFlash>(
    flash: &mut F,
    range: &Range<u32>,
    tag: u8,
    value: &[u8],
) -> Result<(), PutError> {
    let mut map = map(flash, range).map_err(PutError::Failed)?;
    let mut buffer = Zeroizing::new([0; BUFFER]);
    let result = ready(async {
        map.store_item(&mut buffer[..], &tag, &value).await?;
        let found = map.fetch_item::<&[u8]>(&mut buffer[..], &tag).await?;
        Ok(found == Some(value))
    })
    .map_err(PutError::Failed)?;
    match result {
        Ok(true) => Ok(()),
        Err(Error::Storage {
            value: Stop::Flash(fault),
            ..
        }) => Err(PutError::Failed(VaultError::Flash(fault))),
        Err(Error::Storage {
            value: Stop::NotKept { offset },
            ..
        }) => Err(PutError::Failed(VaultError::NotKept { offset })),
        Ok(false) | Err(_) => Err(PutError::NoRoom),
    }
}

/// Writes a whole state into a blank half. The count comes last: it makes the half valid.
pub(crate) fn begin<F: MultiwriteNorFlash>(
    flash: &mut F,
    range: &Range<u32>,
    epoch: u64,
    secret: &Secret,
    numbers: Numbers,
) -> Result<u32, VaultError> {
    let Numbers { count, kept, cut } = numbers;
    let mut items = 0;
    let mut add = |tag, value: &[u8]| {
        items += 1;
        put(flash, range, tag, value).map_err(|error| error.in_new_half(range))
    };
    add(TAG_HEADER, &encode_header(epoch, numbers.version()))?;
    if let Some(bytes) = encode_secret(secret) {
        add(TAG_KEY, &bytes[..])?;
    }
    if kept != 0 {
        add(TAG_KEPT, &kept.to_le_bytes())?;
    }
    if cut != 0 {
        add(TAG_CUT, &cut.to_le_bytes())?;
    }
    add(TAG_COUNT, &count.encode())?;
    Ok(items)
}

/// Whether flash looks unused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Survey {
    pub(crate) is_blank: bool,
    pub(crate) is_zero: bool,
}

/// Reads `range` until both flags are false.
pub(crate) fn survey<F: MultiwriteNorFlash>(
    flash: &mut F,
    range: Range<u32>,
) -> Result<Survey, VaultError> {
    let mut survey = Survey {
        is_blank: true,
        is_zero: true,
    };
    each_chunk(flash, range, |chunk| {
        let (words, rest) = chunk.as_chunks::<8>();
        let words = words.iter().map(|word| u64::from_le_bytes(*word));
        let (set, any) = words.fold((u64::MAX, 0), |(set, any), word| (set & word, any | word));
        survey.is_blank &= set == u64::MAX && is_blank(rest);
        survey.is_zero &= any == 0 && rest.iter().all(|&byte| byte == 0);
        survey.is_blank || survey.is_zero
    })?;
    Ok(survey)
}

const CHUNK_BYTES: usize = 256;

/// A chunk, aligned because it is examined by the word.
#[repr(align(8))]
struct Chunk([u8; CHUNK_BYTES]);

impl Zeroize for Chunk {
    fn zeroize(&mut self) {
        self.0.zeroize();
    }
}

/// Calls `look` with the bytes of `range`, in order, until it returns false.
#[inline(always)]
fn each_chunk<F: MultiwriteNorFlash>(
    flash: &mut F,
    range: Range<u32>,
    mut look: impl FnMut(&[u8]) -> bool,
) -> Result<(), VaultError> {
    #[allow(clippy::cast_possible_truncation, reason = "a small number")]
    const CHUNK: u32 = CHUNK_BYTES as u32;
    let mut buffer = Zeroizing::new(Chunk([0; _]));
    let mut offset = range.start;
    while offset < range.end {
        let length = CHUNK.min(range.end - offset);
        let chunk = &mut buffer.0[..length as usize];
        ready(flash.read(offset, chunk))?
            .map_err(|error| VaultError::Flash(FlashFault::of(&error)))?;
        if !look(chunk) {
            break;
        }
        offset += length;
    }
    Ok(())
}

/// Erases the blocks of `range` that are not blank, and verifies that all are.
pub(crate) fn wipe<F: MultiwriteNorFlash>(
    flash: &mut F,
    range: &Range<u32>,
) -> Result<(), VaultError> {
    #[allow(clippy::cast_possible_truncation, reason = "a block lies in the range")]
    let block_bytes = F::ERASE_SIZE as u32;
    for start in range.clone().step_by(F::ERASE_SIZE) {
        let block = start..start + block_bytes;
        if survey(flash, block.clone())?.is_blank {
            continue;
        }
        ready(flash.erase(block.start, block.end))?
            .map_err(|error| VaultError::Flash(FlashFault::of(&error)))?;
        if !survey(flash, block.clone())?.is_blank {
            return Err(VaultError::NotKept {
                offset: block.start,
            });
        }
    }
    Ok(())
}

/// Whether `range` holds only an unfinished new vault: whole words of a new vault, at
/// most one partly written word, then blank words. A blank range counts, too.
pub(crate) fn is_unfinished<F: MultiwriteNorFlash>(
    flash: &mut F,
    range: &Range<u32>,
) -> Result<bool, VaultError> {
    let paper = Paper::<F>::of_a_new_vault()?;
    let mut expected = paper.bytes.chunks(F::WRITE_SIZE);
    let mut is_complete_so_far = true;
    let mut is_ours = true;
    each_chunk(flash, range.clone(), |chunk| {
        for word in chunk.chunks(F::WRITE_SIZE) {
            let expected = expected.next().unwrap_or(&[]);
            let is_part = word.len() == expected.len()
                && word
                    .iter()
                    .zip(expected)
                    .all(|(is, to_be)| is & to_be == *to_be);
            is_ours &= is_blank(word) || is_complete_so_far && is_part;
            is_complete_so_far &= word == expected;
        }
        is_ours
    })?;
    Ok(is_ours)
}

/// Creates a vault in the half at `range`, where [`is_unfinished`] holds. It writes the
/// missing and partly written words without an erase. A power cut at any point leaves an
/// unfinished vault again.
pub(crate) fn make_new<F: MultiwriteNorFlash>(
    flash: &mut F,
    range: &Range<u32>,
) -> Result<(), VaultError> {
    let paper = Paper::<F>::of_a_new_vault()?;
    let mut flash = AppendOnly(flash);
    for (word, offset) in paper
        .bytes
        .chunks(F::WRITE_SIZE)
        .zip((range.start..).step_by(F::WRITE_SIZE))
    {
        if is_blank(word) {
            continue;
        }
        ready(flash.write(offset, word))?.map_err(|stop| match stop {
            Stop::Flash(fault) => VaultError::Flash(fault),
            Stop::NotKept { .. } | Stop::Erase => VaultError::NotKept { offset },
        })?;
    }
    Ok(())
}

fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0xff)
}

/// The first bytes of a blank flash, in memory. The vault's writer writes a new vault here, for a
/// comparison with the real flash.
struct Paper<F> {
    bytes: [u8; PAPER_BYTES],
    flash: PhantomData<F>,
}

const PAPER_BYTES: usize = 256;

impl<F> Paper<F> {
    fn new() -> Self {
        Paper {
            bytes: [0xff; PAPER_BYTES],
            flash: PhantomData,
        }
    }
}

impl<F: MultiwriteNorFlash> Paper<F> {
    fn of_a_new_vault() -> Result<Self, VaultError> {
        let mut paper = Paper::new();
        #[allow(clippy::cast_possible_truncation, reason = "half of the vault's range")]
        let half = 0..2 * F::ERASE_SIZE as u32;
        begin(
            &mut paper,
            &half,
            items::FIRST_EPOCH,
            &Secret::Missing,
            Numbers {
                count: Count::NEW,
                kept: 0,
                cut: 0,
            },
        )?;
        Ok(paper)
    }
}

impl<F> ErrorType for Paper<F> {
    type Error = NorFlashErrorKind;
}

impl<F: NorFlash> ReadNorFlash for Paper<F> {
    const READ_SIZE: usize = F::READ_SIZE;

    async fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), Self::Error> {
        let known = self.bytes.get(offset as usize..).unwrap_or(&[]);
        bytes.fill(0xff);
        for (byte, known) in bytes.iter_mut().zip(known) {
            *byte = *known;
        }
        Ok(())
    }

    fn capacity(&self) -> usize {
        2 * F::ERASE_SIZE
    }
}

impl<F: NorFlash> NorFlash for Paper<F> {
    const WRITE_SIZE: usize = F::WRITE_SIZE;
    const ERASE_SIZE: usize = F::ERASE_SIZE;

    async fn erase(&mut self, _: u32, _: u32) -> Result<(), Self::Error> {
        Err(NorFlashErrorKind::Other)
    }

    async fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), Self::Error> {
        let start = offset as usize;
        self.bytes
            .get_mut(start..start + bytes.len())
            .ok_or(NorFlashErrorKind::OutOfBounds)?
            .copy_from_slice(bytes);
        Ok(())
    }
}

impl<F: NorFlash> MultiwriteNorFlash for Paper<F> {}
