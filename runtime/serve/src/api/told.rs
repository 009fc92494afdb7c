//! What of an answer's text is told in which place.

/// The parts of a piece of text, each of which may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) reasoning: String,
    pub(super) answer: String,
    /// Calls of tools that are complete.
    pub(super) calls: Vec<Call>,
}

/// A call of a tool, as a model wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    /// Name of the tool.
    pub(super) name: String,
    /// Arguments, a text in JSON.
    pub(super) arguments: String,
}

/// Length of the longest end of a text with which one of these marks may begin.
pub(super) fn begun_at_end(text: &str, marks: &[&str]) -> usize {
    let begun = |mark: &&str| {
        let mut lengths = (1..mark.len()).rev();
        lengths.find(|length| text.ends_with(&mark[..*length]))
    };
    marks.iter().filter_map(begun).max().unwrap_or(0)
}
