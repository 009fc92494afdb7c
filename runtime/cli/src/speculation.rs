//! Speculative decoding as a command asks for it: who proposes tokens to an engine, and what came of it.

use moebius_engine::{Engine, EngineOptions, Ngrams, Proposals};
use moebius_model::load::{LoadOptions, Progress};
use serde_json::{Value, json};

use crate::args::EngineArgs;
use crate::error::CliError;
use crate::published::{self, Source};
use crate::screen::Screen;

/// Who proposes tokens.
pub(crate) enum Speculation {
    Ngrams(Ngrams),
    Draft(Box<Draft>),
}

/// A draft model, whose headers have been read and whose weights haven't.
pub(crate) struct Draft {
    source: Source,
    load: LoadOptions,
    tokens: usize,
}

impl Speculation {
    /// Reads who proposes tokens to the model of `source`; `None` if nobody is asked to.
    pub(crate) fn open(
        args: &EngineArgs,
        source: &Source,
        screen: &Screen,
    ) -> Result<Option<Self>, CliError> {
        let (place, args) = (&args.place, &args.speculation);
        if let Some(ngrams) = args.speculate {
            return Ok(Some(Self::Ngrams(ngrams)));
        }
        let Some(path) = &args.draft_model else {
            return Ok(None);
        };
        published::check_weights("--draft-weights", args.draft_weights, place.dtype)?;
        let draft = Source::open(Some(path))?;
        let both = source.tokenizer.vocabulary_size();
        let both = both.min(draft.tokenizer.vocabulary_size());
        let differs = |id: &u32| source.tokenizer.token(*id) != draft.tokenizer.token(*id);
        if let Some(id) = (0..both).find(differs) {
            screen.note(&format!(
                "the draft model has another token {id} than the model, so that few of its tokens may be accepted"
            ));
        }
        // All experts of a draft are on the device, and it isn't exact: nothing that it computes changes a token.
        let weights = args.draft_weights.or(place.weights);
        let load = published::resident(place, weights.unwrap_or_default());
        published::note_other_types(&draft.files, load, screen);
        Ok(Some(Self::Draft(Box::new(Draft {
            source: draft,
            load,
            tokens: args.draft_tokens(),
        }))))
    }

    /// Lets tokens be proposed to `engine`; a draft model is loaded onto its device, after a check that there is memory for it and for the
    /// first pages of its cache, which is made with the engine's own options, `room`. `progress` hears how far the load is.
    pub(crate) fn begin(
        &self,
        engine: &mut Engine,
        (room, device): (EngineOptions, &burn::tensor::Device),
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), CliError> {
        match self {
            Self::Ngrams(ngrams) => engine.speculate_by_ngrams(*ngrams)?,
            Self::Draft(draft) => {
                let (files, load) = (&draft.source.files, draft.load);
                let cache = room.memory(files.spec())?;
                let checked = files.check_memory(device, load, cache);
                checked.map_err(of_draft)?;
                let model = files.load(device, load, progress)?;
                engine.speculate_by_draft(model, draft.tokens)?;
            }
        }
        Ok(())
    }
}

/// The error of a draft model's files; what is wrong with how they are loaded could be taken for the model's.
fn of_draft(error: moebius_model::Error) -> CliError {
    match error {
        moebius_model::Error::Config(unfit) => CliError::usage(
            format!("--draft-model: {unfit}"),
            Some("--draft-weights says what its weights are, if not what --weights says"),
        ),
        other => other.into(),
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
