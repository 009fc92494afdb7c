//! `moebius chat`.

mod commands;
mod conversation;
mod interrupt;

use std::io::{self, BufRead, IsTerminal, Write};

use moebius_engine::{Engine, EngineOptions};
use serde_json::json;

use crate::args::ChatArgs;
use crate::error::CliError;
use crate::published::{self, Answer, AnswerStream, Ready, Source};
use crate::screen::{DIM, Outcome, Screen};
use commands::Line;
use conversation::Conversation;

/// Runs `moebius chat`.
pub(crate) fn run(args: &ChatArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    // What reads files comes first: it fails sooner than a device opens.
    let sampling = args.sampling.sampling()?;
    let source = Source::open(Some(&args.model))?;
    let template = source.template()?;
    // Made anew for each answer; texts that can't be are refused here.
    AnswerStream::new(&source.tokenizer, &args.stop)?;
    let counts = published::counted(args.experts, &source.files)?.is_some();
    let Ready {
        name,
        device,
        model,
        ..
    } = published::ready(&source.files, &args.place, screen)?;
    let mut engine = Engine::new(model, EngineOptions::for_one(args.context), &device)?;
    if counts {
        engine.count_experts();
    }
    interrupt::listen()?;
    screen.line(&screen.paint(
        DIM,
        &format!(
            "{} on {name} in {} · /help lists the commands",
            source.files.family(),
            args.place.dtype.name()
        ),
    ))?;
    let mut conversation = Conversation {
        engine,
        tokenizer: &source.tokenizer,
        template: &template,
        sampling,
        stops: &args.stop,
        context: args.context,
        most_new: args.max_tokens,
        system: args.system.clone(),
        messages: Vec::new(),
    };
    talk(&mut conversation, screen)?;
    if counts {
        let experts = conversation.engine.expert_load()?;
        published::show_experts(&experts, screen)?;
        screen.object(&json!({ "experts": experts }))?;
    }
    Ok(Outcome::Good)
}

/// Takes lines until there are no more, or one of them ends it.
fn talk(conversation: &mut Conversation<'_>, screen: &mut Screen) -> Result<(), CliError> {
    while let Some(line) = next_line(screen)? {
        match commands::read(&line) {
            Line::Nothing => {}
            Line::Quit => break,
            Line::Message(text) => ask(conversation, text, screen)?,
            Line::Retry => match conversation.undo() {
                Some(text) => ask(conversation, &text, screen)?,
                None => screen.note("there is no message yet"),
            },
            Line::Undo => match conversation.undo() {
                Some(text) => screen.note(&format!("forgotten: {text}")),
                None => screen.note("there is no message yet"),
            },
            Line::Clear => conversation.messages.clear(),
            Line::System(text) => {
                conversation.system = (!text.is_empty()).then(|| text.to_owned());
                conversation.messages.clear();
            }
            Line::Help => screen.line(commands::HELP)?,
            Line::Unknown(command) => {
                screen.note(&format!("{command} is no command; /help lists them"));
            }
        }
    }
    Ok(())
}

/// Answers a message. One that can't be answered is said, and the conversation is as it was before.
fn ask(
    conversation: &mut Conversation<'_>,
    text: &str,
    screen: &mut Screen,
) -> Result<(), CliError> {
    match conversation.ask(text, screen) {
        Ok(answer) => show(&answer, screen),
        // The device or the output is gone: no later message would fare better.
        Err(error @ (CliError::Output(_) | CliError::Engine(_))) => Err(error),
        Err(error) => {
            screen.note(&error.to_string());
            screen.object(&json!({ "error": error.to_string() }))
        }
    }
}

fn show(answer: &conversation::Turn, screen: &mut Screen) -> Result<(), CliError> {
    let conversation::Turn { answer, prompt } = answer;
    let Answer { ids, finish, .. } = answer;
    let decode = answer.decode_speed();
    let speed = decode.map_or("–".to_owned(), |speed| format!("{speed:.1}"));
    let said = format!(
        "{} tokens, {speed} tokens/s · {finish} · conversation {} tokens",
        ids.len(),
        prompt + ids.len()
    );
    screen.line(&format!("\n{}\n", screen.paint(DIM, &said)))?;
    screen.object(&json!({
        "text": answer.text,
        "ids": ids,
        "finish": finish,
        "prompt_tokens": prompt,
        "first_token_s": answer.prefill_s,
        "decode_tokens_per_s": decode,
    }))
}

/// The next line of standard input, `None` at its end.
fn next_line(screen: &mut Screen) -> Result<Option<String>, CliError> {
    if io::stdin().is_terminal() && io::stderr().is_terminal() {
        // Not on standard output: whoever keeps that wants the answers.
        eprint!("> ");
        io::stderr().flush()?;
    }
    screen.flush()?;
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    let read = read.map_err(|source| CliError::ReadFile {
        path: "standard input".to_owned(),
        source,
    })?;
    Ok((read > 0).then_some(line))
}
