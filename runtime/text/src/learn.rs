//! A vocabulary that is learnt from a text.

use tokenizers::decoders::byte_level::ByteLevel as ByteDecoder;
use tokenizers::models::TrainerWrapper;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{AddedToken, Tokenizer as Library};

use crate::guard::guarded;
use crate::{Error, Tokenizer};

/// Tokens that every vocabulary of bytes has.
const BYTES: usize = 256;

impl Tokenizer {
    /// The bytes of a `tokenizer.json` of `size` tokens: byte pairs (Sennrich et al. 2016) over bytes as in GPT-2, learnt from `text`, and before
    /// them the special token `end`, with the id 0. Any text can be written in it.
    ///
    /// # Errors
    /// [`Error::Unfit`] for a size that leaves no room for all bytes and `end`, and for a text that gives fewer tokens.
    pub fn learn(text: &str, size: usize, end: &str) -> Result<Vec<u8>, Error> {
        let what = "tokens of a vocabulary";
        let expected = format!("more than {BYTES}");
        if size <= BYTES {
            return Err(Error::unfit(what, expected, size));
        }
        let trainer = BpeTrainer::builder()
            .vocab_size(size)
            .show_progress(false)
            .special_tokens(vec![AddedToken::from(end, true)])
            .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
            .build();
        let learnt = guarded(|| {
            let mut library = Library::new(BPE::default());
            library
                .with_pre_tokenizer(Some(ByteLevel::new(false, true, true)))
                .with_decoder(Some(ByteDecoder::default()));
            let mut trainer = TrainerWrapper::from(trainer);
            library.train(&mut trainer, std::iter::once(text))?;
            Ok(library)
        });
        let refused = |why: String| Error::unfit("a vocabulary", "one of this text", why);
        let learnt: Result<Library, tokenizers::Error> = learnt.map_err(refused)?;
        let library = learnt.map_err(|error| refused(error.to_string()))?;
        let got = library.get_vocab_size(true);
        if got != size {
            return Err(Error::unfit(
                what,
                format!("{size}"),
                format!("{got}, all that the text has"),
            ));
        }
        let json = library.to_string(true);
        let json = json.map_err(|error| refused(error.to_string()))?;
        Ok(json.into_bytes())
    }
}
