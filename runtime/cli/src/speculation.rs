//! Speculative decoding as a command asks for it: who proposes tokens to an engine, and what came of it.

use moebius_engine::{Engine, EngineOptions, Ngrams, Proposals};
use moebius_model::load::Progress;
use serde_json::{Value, json};

use crate::args::{ModelPrecision, SpeculationArgs};
use crate::error::CliError;
use crate::published::{self, Source};
use crate::screen::Screen;

/// Who proposes tokens. The headers of a draft model have been read, its weights haven't.
pub(crate) enum Speculation {
    Ngrams(Ngrams),
    Draft { source: Box<Source>, tokens: usize },
}

impl Speculation {
    /// Reads who proposes tokens to the model of `source`; `None` if nobody is asked to.
    pub(crate) fn open(
        args: &SpeculationArgs,
        source: &Source,
        screen: &Screen,
    ) -> Result<Option<Self>, CliError> {
        if let Some(ngrams) = args.speculate {
            return Ok(Some(Self::Ngrams(ngrams)));
        }
        let Some(path) = &args.draft_model else {
            return Ok(None);
        };
        let draft = Source::open(Some(path))?;
        let both = source.tokenizer.vocabulary_size();
        let both = both.min(draft.tokenizer.vocabulary_size());
        let differs = |id: &u32| source.tokenizer.token(*id) != draft.tokenizer.token(*id);
        if let Some(id) = (0..both).find(differs) {
            screen.note(&format!(
                "the draft model has another token {id} than the model, so that few of its tokens may be accepted"
            ));
        }
        Ok(Some(Self::Draft {
            source: Box::new(draft),
            tokens: args.draft_tokens(),
        }))
    }

    /// Lets tokens be proposed to `engine`; a draft model is loaded onto its device, after a check that there is memory for it and for the
    /// first pages of its cache, which is made with the engine's own options, `room`. `progress` hears how far the load is.
    pub(crate) fn begin(
        &self,
        engine: &mut Engine,
        precision: ModelPrecision,
        (room, device): (EngineOptions, &burn::tensor::Device),
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), CliError> {
        match self {
            Self::Ngrams(ngrams) => engine.speculate_by_ngrams(*ngrams)?,
            Self::Draft { source, tokens } => {
                let cache = room.memory(source.files.spec())?;
                let options = published::options(precision);
                source.files.check_memory(device, options, cache)?;
                let model = source.files.load(device, options, progress)?;
                engine.speculate_by_draft(model, *tokens)?;
            }
        }
        Ok(())
    }
}

/// What came of proposals, in words.
pub(crate) fn said(proposals: Proposals) -> String {
    let Proposals { proposed, accepted } = proposals;
    format!("{accepted} of {proposed} proposed tokens accepted")
}

/// What came of proposals, for JSON.
pub(crate) fn figures(proposals: Proposals) -> Value {
    let Proposals { proposed, accepted } = proposals;
    json!({ "proposed": proposed, "accepted": accepted })
}
