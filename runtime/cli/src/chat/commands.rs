//! What a line of a conversation is.

/// What /help says.
pub(super) const HELP: &str = "\
/retry          answer the last message again
/undo           forget the last message and its answer
/clear          forget all messages
/system [TEXT]  forget all messages and tell the model TEXT first, or nothing
/help           this list
/quit           end; so does the end of the input
Ctrl-C ends an answer, and the program while it waits for a message. A message that begins with / is written //.";

/// A line that was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
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

/// What `line` is.
pub(super) fn read(line: &str) -> Line<'_> {
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
            assert_eq!(read(line), expected, "{line:?}");
        }
    }
}
