extern crate std;

use std::vec;
use std::vec::Vec;

/// The tokens of symbol names: each letter, and some longer ones.
pub(super) struct Tokens {
    pub(super) index: Vec<u8>,
    pub(super) texts: Vec<u8>,
    all: Vec<Vec<u8>>,
}

impl Tokens {
    pub(super) fn new() -> Self {
        let longer: [&[u8]; 5] = [b"Dvmcore", b"info_", b"D_st", b"page", b"D_page_poison"];
        let all: Vec<Vec<u8>> = (0..=255_u8)
            .map(|token| match token {
                0 => Vec::new(),
                1..=5 => longer[usize::from(token) - 1].to_vec(),
                letter => vec![letter],
            })
            .collect();
        let mut index = Vec::new();
        let mut texts = Vec::new();
        for text in &all {
            let start = u16::try_from(texts.len()).expect("a short table");
            index.extend(start.to_le_bytes());
            texts.extend(text);
            texts.push(0);
        }
        Tokens { index, texts, all }
    }

    /// A name in the table's encoding.
    pub(super) fn name(&self, name: &str) -> Vec<u8> {
        let mut rest = name.as_bytes();
        let mut tokens = Vec::new();
        while !rest.is_empty() {
            let (token, text) = (0..=255_u8)
                .zip(&self.all)
                .filter(|(_, text)| !text.is_empty() && rest.starts_with(text))
                .max_by_key(|(_, text)| text.len())
                .expect("every letter is a token");
            tokens.push(token);
            rest = &rest[text.len()..];
        }
        let length = tokens.len();
        let mut coded = Vec::new();
        if let Ok(short) = u8::try_from(length)
            && short < 128
        {
            coded.push(short);
        } else {
            coded.push(u8::try_from(length % 128).expect("seven bits") | 0x80);
            coded.push(u8::try_from(length / 128).expect("a name"));
        }
        coded.extend(tokens);
        coded
    }
}
