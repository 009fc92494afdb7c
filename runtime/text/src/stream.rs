//! The text of an answer, token by token.

use crate::{Detokenizer, Error, Piece, StopStrings, Tokenizer};

/// Makes text of the tokens of an answer, up to the first stop string. Whoever shows an answer takes it from here, so that
/// all agree on where it ends and why.
pub struct TextStream {
    /// Until the answer ends.
    detokenizer: Option<Detokenizer>,
    stops: StopStrings,
}

impl TextStream {
    /// Starts an answer without its special tokens.
    pub fn new(tokenizer: &Tokenizer, stops: StopStrings) -> Self {
        Self {
            detokenizer: Some(Detokenizer::new(tokenizer, true)),
            stops,
        }
    }

    /// The text that is sure now that `id` came; a stop string in the piece ends the answer. Nothing after the end.
    ///
    /// # Errors
    /// [`Error::UnknownId`] for an id without a token. The text goes on as if it hadn't come.
    pub fn push(&mut self, id: u32) -> Result<Piece, Error> {
        let Some(detokenizer) = &mut self.detokenizer else {
            return Ok(Piece::default());
        };
        let text = detokenizer.push(id)?;
        Ok(self.stops.push(&text))
    }

    /// Ends the answer: the text that was held back. It may complete a stop string, which the piece then names: such an
    /// answer ended by that string, whatever ended its tokens.
    ///
    /// # Errors
    /// [`Error::Decode`] where a pattern of the tokenizer fails on the rest.
    pub fn finish(&mut self) -> Result<Piece, Error> {
        let Some(detokenizer) = self.detokenizer.take() else {
            return Ok(Piece::default());
        };
        let mut piece = self.stops.push(&detokenizer.finish()?);
        if piece.stop.is_none() {
            piece.text.push_str(&self.stops.clone().finish());
        }
        Ok(piece)
    }
}
