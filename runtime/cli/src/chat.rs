//! `moebius chat`: a conversation from lines that are messages or commands. Ctrl-C ends an answer, or the program if there is none.

use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::atomic::{AtomicU8, Ordering};

use moebius_engine::{Constraint, Engine, EngineOptions, Generation, Proposals, Sampling};
use moebius_text::{Chat, ChatTemplate, Message, Tokenizer};
use serde_json::json;

use crate::answer::{Answer, AnswerStream};
use crate::answerer::Answerer;
use crate::args::ChatArgs;
use crate::error::CliError;
use crate::published::{self, Source};
use crate::screen::{DIM, Outcome, Screen};
use crate::speculation;

/// Text that /help shows.
const HELP: &str = "\
/retry          answer the last message again
/undo           forget the last message and its answer
/clear          forget all messages
/system [TEXT]  forget all messages and tell the model TEXT first, or nothing
/help           this list
/quit           end; so does the end of the input
Ctrl-C ends an answer, and the program while it waits for a message. A message that begins with / is written //.";

const WAITING: u8 = 0;
const ANSWERING: u8 = 1;
const INTERRUPTED: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(WAITING);

/// Exit status of a program that Ctrl-C ended, as in shells.
const ENDED: i32 = 130;

/// Runs `moebius chat`.
pub(crate) fn run(args: &ChatArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    // Files are read before the device is opened, since that fails sooner.
    let sampling = args.sampling.sampling()?;
    let source = Source::open(Some(&args.model))?.with_adapter(args.adapter.as_deref())?;
    let source = source.with_special_as_text(args.no_special);
    let template = source.template()?;
    // Checks the stop strings; each answer makes its own stream.
    AnswerStream::new(&source.tokenizer, &args.stop)?;
    let constraint = published::constraint(&args.form, &source.tokenizer)?;
    let counts = published::counted(args.experts, &source.files)?.is_some();
    let room = EngineOptions::for_one(args.context);
    let answerer = Answerer::open(&args.engine, &source, room, screen)?;
    let (name, mut engine) = (answerer.name, answerer.engine);
    if counts {
        engine.count_experts();
    }
    take_interrupts()?;
    let (family, precision) = (source.files.family(), args.engine.place.precision());
    let title = format!("{family} on {name} in {precision} · /help lists the commands");
    screen.line(&screen.paint(DIM, &title))?;
    let mut conversation = Conversation {
        engine,
        tokenizer: &source.tokenizer,
        template: &template,
        sampling,
        stops: &args.stop,
        constraint,
        context: args.context,
        most_new: args.max_tokens,
        system: args.system.clone(),
        messages: Vec::new(),
        speculates: answerer.speculates,
    };
    talk(&mut conversation, screen)?;
    if counts {
        let experts = conversation.engine.expert_load()?;
        published::show_experts(&experts, screen)?;
        screen.object(&json!({ "experts": experts }))?;
    }
    Ok(Outcome::Good)
}

/// Reads and handles lines until standard input ends or a line quits.
fn talk(conversation: &mut Conversation<'_>, screen: &mut Screen) -> Result<(), CliError> {
    while let Some(line) = next_line(screen)? {
        match line_of(&line) {
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
            Line::Help => screen.line(HELP)?,
            Line::Unknown(command) => {
                screen.note(&format!("{command} is no command; /help lists them"));
            }
        }
    }
    Ok(())
}

/// Answers a message and shows the answer. If that fails, shows the error and leaves the conversation as it was.
fn ask(
    conversation: &mut Conversation<'_>,
    text: &str,
    screen: &mut Screen,
) -> Result<(), CliError> {
    match conversation.ask(text, screen) {
        Ok(answer) => show(&answer, screen),
        // The device or the output is gone, so later messages would fail as well.
        Err(error @ (CliError::Output(_) | CliError::Engine(_))) => Err(error),
        Err(error) => {
            screen.note(&error.to_string());
            screen.object(&json!({ "error": error.to_string() }))
        }
    }
}

fn show(turn: &Turn, screen: &mut Screen) -> Result<(), CliError> {
    let Turn {
        answer,
        prompt,
        proposals,
    } = turn;
    let Answer { ids, finish, .. } = answer;
    let decode = answer.decode_speed();
    let speed = decode.map_or("–".to_owned(), |speed| format!("{speed:.1}"));
    let accepted = proposals.map(speculation::said);
    let accepted = accepted.map_or(String::new(), |said| format!(" · {said}"));
    let said = format!(
        "{} tokens, {speed} tokens/s{accepted} · {finish} · conversation {} tokens",
        ids.len(),
        prompt + ids.len()
    );
    screen.line(&format!("\n{}\n", screen.paint(DIM, &said)))?;
    let mut object = json!({
        "text": answer.text,
        "ids": ids,
        "finish": finish,
        "prompt_tokens": prompt,
        "first_token_s": answer.prefill_s(),
        "decode_tokens_per_s": decode,
    });
    if let Some(proposals) = proposals {
        object["speculation"] = speculation::figures(*proposals);
    }
    screen.object(&object)
}

/// The next line of standard input, `None` at its end.
fn next_line(screen: &mut Screen) -> Result<Option<String>, CliError> {
    if io::stdin().is_terminal() && io::stderr().is_terminal() {
        // The prompt goes to standard error, since standard output may be saved for the answers.
        eprint!("> ");
        io::stderr().flush()?;
    }
    screen.flush()?;
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    let read = read.map_err(CliError::read("standard input"))?;
    Ok((read > 0).then_some(line))
}

/// A line of input, parsed.
#[derive(Debug, PartialEq, Eq)]
enum Line<'a> {
    Nothing,
    Message(&'a str),
    Retry,
    Undo,
    Clear,
    System(&'a str),
    Help,
    Quit,
    Unknown(&'a str),
}

/// Parses a line of input.
fn line_of(line: &str) -> Line<'_> {
    let line = line.trim();
    if line.is_empty() {
        return Line::Nothing;
    }
    if line.starts_with("//") {
        return Line::Message(&line[1..]);
    }
    if !line.starts_with('/') {
        return Line::Message(line);
    }
    let (command, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match (command, rest.trim()) {
        ("/retry", "") => Line::Retry,
        ("/undo", "") => Line::Undo,
        ("/clear", "") => Line::Clear,
        ("/system", text) => Line::System(text),
        ("/help", "") => Line::Help,
        ("/quit" | "/exit", "") => Line::Quit,
        _ => Line::Unknown(line),
    }
}

/// A model, with everything said so far.
struct Conversation<'a> {
    /// Engine that keeps the keys and values of what was said, so that a message costs only its own tokens.
    engine: Engine,
    tokenizer: &'a Tokenizer,
    template: &'a ChatTemplate,
    sampling: Sampling,
    /// Stop strings, which end an answer.
    stops: &'a [String],
    /// What restricts each answer.
    constraint: Option<Box<dyn Constraint>>,
    /// Largest number of tokens of the conversation.
    context: usize,
    /// Largest number of tokens of an answer.
    most_new: usize,
    system: Option<String>,
    /// Role and text of each message: the user's and the model's in turns.
    messages: Vec<(&'static str, String)>,
    /// Whether tokens are proposed.
    speculates: bool,
}

/// An answer, and the number of tokens it was generated from.
struct Turn {
    answer: Answer,
    prompt: usize,
    /// What came of proposed tokens, if there are any.
    proposals: Option<Proposals>,
}

impl Conversation<'_> {
    /// Answers `text`, shows the answer, and keeps both in the conversation; on an error keeps neither.
    fn ask(&mut self, text: &str, screen: &mut Screen) -> Result<Turn, CliError> {
        self.messages.push(("user", text.to_owned()));
        let turn = self.answer(screen);
        match &turn {
            Ok(turn) => {
                let text = turn.answer.text.clone();
                self.messages.push(("assistant", text));
            }
            Err(_) => {
                self.messages.pop();
            }
        }
        turn
    }

    /// Removes the last message and its answer; returns the message if there was one.
    fn undo(&mut self) -> Option<String> {
        self.messages.pop()?;
        self.messages.pop().map(|(_, text)| text)
    }

    fn answer(&mut self, screen: &mut Screen) -> Result<Turn, CliError> {
        let ids = self.ids()?;
        let prompt = ids.len();
        let left = self.context.saturating_sub(prompt);
        if left == 0 {
            let message = format!(
                "the conversation has {prompt} tokens and leaves no room for an answer within {}: /undo and /clear make room, --context gives more",
                self.context
            );
            return Err(CliError::usage(message, None));
        }
        let mut generation = Generation::new(ids, self.most_new.min(left))
            .with_sampling(self.sampling.clone())
            .with_ends(self.tokenizer.eos_ids().iter().copied());
        generation.constraint = self.constraint.clone();
        let stream = AnswerStream::new(self.tokenizer, self.stops)?;
        let before = self.engine.proposals();
        let answering = Answering::begin();
        let answer = stream.follow(&mut self.engine, generation, &interrupted, screen);
        drop(answering);
        let now = self.engine.proposals();
        let proposals = Proposals {
            proposed: now.proposed - before.proposed,
            accepted: now.accepted - before.accepted,
        };
        Ok(Turn {
            answer: answer?,
            prompt,
            proposals: self.speculates.then_some(proposals),
        })
    }

    fn ids(&self) -> Result<Vec<u32>, CliError> {
        let system = self.system.iter().map(|text| ("system", text));
        let said = self.messages.iter().map(|(role, text)| (*role, text));
        let messages = system.chain(said);
        let messages = messages.map(|(role, text)| Message::new(role, text.as_str()));
        let chat = Chat::new(messages).with_generation_prompt(true);
        Ok(self.template.encode(&chat, self.tokenizer)?)
    }
}

/// Handles Ctrl-C from now on.
fn take_interrupts() -> Result<(), CliError> {
    let taken = ctrlc::set_handler(|| {
        let order = (Ordering::AcqRel, Ordering::Acquire);
        let ends = STATE.compare_exchange(ANSWERING, INTERRUPTED, order.0, order.1);
        // Exiting loses no output, since all that is shown has been written; a second Ctrl-C ends a step that takes too long.
        if ends.is_err() {
            std::process::exit(ENDED);
        }
    });
    taken.map_err(|error| CliError::usage(format!("Ctrl-C can't be taken: {error}"), None))
}

/// Whether Ctrl-C came since the answer began.
fn interrupted() -> bool {
    STATE.load(Ordering::Acquire) == INTERRUPTED
}

/// Guard that marks an answer as being generated.
struct Answering(());

impl Answering {
    fn begin() -> Self {
        STATE.store(ANSWERING, Ordering::Release);
        Self(())
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        STATE.store(WAITING, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_messages_or_commands() {
        let all = [
            ("  \n", Line::Nothing),
            (" Who?\r\n", Line::Message("Who?")),
            ("//etc is a folder", Line::Message("/etc is a folder")),
            ("/retry\n", Line::Retry),
            ("/undo", Line::Undo),
            ("/clear ", Line::Clear),
            ("/system", Line::System("")),
            ("/system  Be brief. ", Line::System("Be brief.")),
            ("/help", Line::Help),
            ("/quit", Line::Quit),
            ("/exit", Line::Quit),
            ("/undo 3", Line::Unknown("/undo 3")),
            ("/nothing", Line::Unknown("/nothing")),
            ("/", Line::Unknown("/")),
        ];
        for (line, expected) in all {
            assert_eq!(line_of(line), expected, "{line:?}");
        }
    }
}
