//! A model writes with a cache of keys and values, without one, and with several tokens proposed at once: always the same text.

use std::error::Error;
use std::fs;

use burn::tensor::Device;
use moebius_engine::{Engine, EngineOptions, Event, Generation, History, Ngrams, Sampling};
use moebius_model::load::{LoadOptions, ModelFiles};
use moebius_text::Tokenizer;

const BEGINNING: &str = "The old captain looked at the sea, and";
const TOKENS: usize = 40;

/// Computes the figures, the fact that they show, and whether it holds.
pub(crate) fn run(device: &Device) -> Result<(String, String, bool), Box<dyn Error>> {
    // The model that the command brings along, in a folder as published models have.
    let folder = tempfile::tempdir()?;
    for (name, bytes) in moebius_shipped::FILES {
        fs::write(folder.path().join(name), bytes)?;
    }
    let files = ModelFiles::open(folder.path())?;
    let model = files.load(device, LoadOptions::default(), &mut |_| ())?;
    let tokenizer = Tokenizer::from_folder(folder.path())?;
    let prompt = tokenizer.encode(BEGINNING, true)?;

    let options = EngineOptions::for_one(prompt.len() + TOKENS);
    let mut engine = Engine::new(model, options, device)?;
    let (cached, steps) = answer(&mut engine, &prompt)?;

    // Without the cache the whole text is computed again for each token.
    let mut whole = prompt.clone();
    for _ in 0..TOKENS {
        let logits = engine.last_logits(&whole)?;
        let likeliest = Sampling::greedy().sample(&logits, &History::default(), 0)?;
        whole.push(likeliest.id);
    }

    // What followed the last three tokens before is proposed, and the model checks four tokens in one step.
    engine.speculate_by_ngrams(Ngrams::new(3, 4)?)?;
    let (proposed, fewer) = answer(&mut engine, &prompt)?;

    let text = tokenizer.decode(&cached, true)?;
    let figures = format!(
        "{BEGINNING}{text}\n\nsteps with a cache: {steps}\nsteps with proposed tokens: {fewer}"
    );
    let same = whole[prompt.len()..] == cached && proposed == cached;
    let are = if same { "are the same" } else { "differ" };
    let fact = format!("{TOKENS} tokens {are} with a cache, without one, and with proposed tokens");
    Ok((figures, fact, same && cached.len() == TOKENS))
}

/// The likeliest tokens after a prompt, and the number of steps that they took.
fn answer(engine: &mut Engine, prompt: &[u32]) -> Result<(Vec<u32>, usize), Box<dyn Error>> {
    engine.add(Generation::new(prompt.to_vec(), TOKENS))?;
    let (mut tokens, mut steps) = (Vec::new(), 0);
    while !engine.is_idle() {
        for (_, event) in engine.step()? {
            if let Event::Token(draw) = event {
                tokens.push(draw.id);
            }
        }
        steps += 1;
    }
    Ok((tokens, steps))
}

fn main() -> Result<(), Box<dyn Error>> {
    let (figures, fact, holds) = run(&moebius::open(&moebius::Device::Auto)?)?;
    println!("{figures}\n{fact}");
    assert!(holds, "this doesn't hold");
    Ok(())
}
