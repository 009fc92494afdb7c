//! Input of a template: a conversation, and today's date.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use minijinja::value::{Serde, Tuple, ValueKind};
use minijinja::{Error, ErrorKind, Value};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::map;
use super::python::{DEEPEST, invalid};
use crate::marks::Names;

/// Names of a field with an author's reasoning; the first one that a message has counts.
const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

/// One message of a conversation: its role, its content, and further fields that a template may read.
#[derive(Clone, Debug)]
pub struct Message {
    /// Fields in the order of insertion, which templates that print a message show.
    fields: Vec<(String, Value)>,
}

impl Message {
    /// A message of plain text. Common roles are `system`, `user` and `assistant`; some templates know `tool`, `developer` and others.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        let (role, content): (String, String) = (role.into(), content.into());
        let fields = [("role", role), ("content", content)];
        let fields = fields.map(|(name, text)| (name.to_owned(), Value::from(text)));
        Self {
            fields: fields.into(),
        }
    }

    /// This message with another field, like `tool_calls` or `reasoning_content`, or with another content, like a list of parts. Templates
    /// don't see a field that is none.
    pub fn with(mut self, name: &str, value: impl Serialize) -> Self {
        let value = Value::from(Serde(value));
        match self.fields.iter_mut().find(|(known, _)| known == name) {
            Some((_, field)) => *field = value,
            None => self.fields.push((name.to_owned(), value)),
        }
        self
    }

    /// The role of the message's author.
    pub fn role(&self) -> &str {
        let role = self.fields.iter().find(|(name, _)| name == "role");
        role.and_then(|(_, role)| role.as_str()).unwrap_or_default()
    }

    /// The message for a template, in the form that `transformers` gives it: without fields that are none, and with the author's reasoning
    /// under each name by which templates read it.
    fn value(&self) -> Value {
        let fields = self.fields.iter().filter(|(_, value)| !value.is_none());
        let reasoning = REASONING.iter().find_map(|name| {
            let found = fields.clone().find(|(known, _)| known == name);
            found.map(|(_, value)| value.clone())
        });
        let field = |name: &str| reasoning.clone().map(|value| (name.to_owned(), value));
        // Of two fields with one name the first gives the place, the last the value.
        let (first, last) = (field("thinking"), field("reasoning_content"));
        map(first.into_iter().chain(fields.cloned()).chain(last))
    }
}

/// Reads any object with a text field `role`, the form of messages in requests.
impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        if value.kind() != ValueKind::Map {
            let got = value.kind();
            return Err(D::Error::custom(format!(
                "message: expected an object, got a {got}"
            )));
        }
        let mut fields = Vec::new();
        for name in value.try_iter().map_err(D::Error::custom)? {
            let field = value.get_item(&name).map_err(D::Error::custom)?;
            fields.push((name.to_string(), field));
        }
        let role = fields.iter().find(|(name, _)| name == "role");
        match role.map(|(_, role)| role.as_str()) {
            Some(Some(_)) => Ok(Self { fields }),
            _ => Err(D::Error::custom(
                "message: expected a text called role, got none",
            )),
        }
    }
}

/// A conversation, and other variables for a template.
#[derive(Clone, Debug, Default)]
pub struct Chat {
    messages: Vec<Message>,
    generation_prompt: bool,
    variables: Vec<(String, Value)>,
    time: Option<Duration>,
}

impl Chat {
    /// A conversation with these messages.
    pub fn new(messages: impl IntoIterator<Item = Message>) -> Self {
        Self {
            messages: messages.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Sets whether the text ends with the beginning of an answer (`add_generation_prompt`); off by default.
    pub fn with_generation_prompt(mut self, add: bool) -> Self {
        self.generation_prompt = add;
        self
    }

    /// Adds a variable for the template, like `tools`, `documents` or `enable_thinking`. It replaces any other of the same name.
    pub fn with(mut self, name: &str, value: impl Serialize) -> Self {
        let value = Value::from(Serde(value));
        self.variables.push((name.to_owned(), value));
        self
    }

    /// Sets the time for `strftime_now`, since 1970 in UTC. Without it the clock is read, which isn't available on all browser targets.
    pub fn with_time(mut self, since_1970: Duration) -> Self {
        self.time = Some(since_1970);
        self
    }

    /// This conversation with marks in all names of special tokens that messages, tools and documents contain.
    pub(super) fn marked(&self, names: &Names, mark: char) -> Result<Self, Error> {
        let mut chat = self.clone();
        let fields = chat
            .messages
            .iter_mut()
            .flat_map(|message| &mut message.fields);
        let variables = chat.variables.iter_mut();
        let variables = variables.filter(|(name, _)| name == "tools" || name == "documents");
        for (_, value) in fields.chain(variables) {
            *value = marked(value, names, mark, 0)?;
        }
        Ok(chat)
    }

    /// All variables that a template may read.
    pub(super) fn context(&self, tokens: &[(String, String)]) -> Value {
        let messages: Vec<Value> = self.messages.iter().map(Message::value).collect();
        let time = self.time;
        let strftime_now = move |format: &str| {
            let now = || SystemTime::now().duration_since(UNIX_EPOCH);
            strftime(time.unwrap_or_else(|| now().unwrap_or_default()), format)
        };
        let given = [
            ("messages", Value::from(messages)),
            ("add_generation_prompt", Value::from(self.generation_prompt)),
            // Defined as none, as in Python: templates distinguish undefined from none.
            ("tools", Value::from(())),
            ("documents", Value::from(())),
            ("strftime_now", Value::from_function(strftime_now)),
        ];
        let given = given.map(|(name, value)| (name.to_owned(), value));
        let tokens = tokens
            .iter()
            .map(|(name, token)| (name.clone(), Value::from(token.clone())));
        map(given
            .into_iter()
            .chain(tokens)
            .chain(self.variables.iter().cloned()))
    }
}

/// The value with marks in all names of special tokens that its texts contain; keys of objects stay.
fn marked(value: &Value, names: &Names, mark: char, depth: usize) -> Result<Value, Error> {
    if depth > DEEPEST {
        return Err(invalid("expected a message of at most 128 levels"));
    }
    match value.kind() {
        ValueKind::String => {
            let text = value.as_str().and_then(|text| names.marked(text, mark));
            Ok(text.map_or_else(|| value.clone(), Value::from))
        }
        ValueKind::Seq => {
            let items = value.try_iter()?;
            let items = items.map(|item| marked(&item, names, mark, depth + 1));
            let items: Result<Vec<Value>, Error> = items.collect();
            Ok(if value.is_tuple() {
                Value::from(Tuple::from(items?))
            } else {
                Value::from(items?)
            })
        }
        ValueKind::Map => {
            let mut pairs = Vec::new();
            for key in value.try_iter()? {
                let item = marked(&value.get_item(&key)?, names, mark, depth + 1)?;
                pairs.push((key, item));
            }
            Ok(Value::from_pairs(pairs))
        }
        _ => Ok(value.clone()),
    }
}

const MONTHS: &str =
    "January February March April May June July August September October November December";
/// Names of the weekdays, beginning with that of the first of January 1970.
const WEEKDAYS: &str = "Thursday Friday Saturday Sunday Monday Tuesday Wednesday";

/// Word number `number` of a text, from 0.
fn word(words: &'static str, number: u64) -> &'static str {
    let number = usize::try_from(number).unwrap_or(0);
    words.split(' ').nth(number).unwrap_or_default()
}

/// A day of the Gregorian calendar.
struct Day {
    year: u64,
    /// Month, from 0.
    month: u64,
    /// Day of the month, from 1.
    day: u64,
    /// Day of the year, from 1.
    of_year: u64,
}

/// The date `days` days after the first of January 1970. Years are counted from March, so that the leap day comes last, and in eras of 400
/// years, which have 146 097 days.
fn day(days: u64) -> Day {
    let shifted = days + 719_468; // days since the first of March of the year 0
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months from March on have 31, 30, 31, 30, 31 days, repeatedly.
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let year = era * 400 + year_of_era + u64::from(month >= 10);
    let leap = (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400);
    let of_year = if month >= 10 {
        of_year - 306 + 1
    } else {
        of_year + 60 + u64::from(leap)
    };
    let month = (month + 2) % 12;
    Day {
        year,
        month,
        day,
        of_year,
    }
}

/// Formats a time since 1970 like C's `strftime` in English.
fn strftime(since_1970: Duration, format: &str) -> Result<String, Error> {
    let seconds = since_1970.as_secs();
    let (days, time) = (seconds / 86_400, seconds % 86_400);
    let date = day(days);
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    let weekday = word(WEEKDAYS, days % 7);
    let (month, number) = (word(MONTHS, date.month), date.month + 1);
    let hour_of_12 = (hour + 11) % 12 + 1;
    let mut text = String::new();
    let mut rest = format.chars();
    while let Some(character) = rest.next() {
        if character != '%' {
            text.push(character);
            continue;
        }
        let mut directive = rest.next();
        // A hyphen leaves out zeros and spaces at the start.
        let is_bare = directive == Some('-');
        if is_bare {
            directive = rest.next();
        }
        let part = match directive {
            Some('Y') => date.year.to_string(),
            Some('y') => format!("{:02}", date.year % 100),
            Some('m') => format!("{number:02}"),
            Some('d') => format!("{:02}", date.day),
            Some('e') => format!("{:2}", date.day),
            Some('j') => format!("{:03}", date.of_year),
            Some('B') => month.to_owned(),
            Some('b' | 'h') => month[..3].to_owned(),
            Some('A') => weekday.to_owned(),
            Some('a') => weekday[..3].to_owned(),
            Some('H') => format!("{hour:02}"),
            Some('I') => format!("{hour_of_12:02}"),
            Some('M') => format!("{minute:02}"),
            Some('S') => format!("{second:02}"),
            Some('p') => if hour < 12 { "AM" } else { "PM" }.to_owned(),
            Some('F') => format!("{}-{number:02}-{:02}", date.year, date.day),
            Some('T') => format!("{hour:02}:{minute:02}:{second:02}"),
            Some('D') => format!("{number:02}/{:02}/{:02}", date.day, date.year % 100),
            Some('R') => format!("{hour:02}:{minute:02}"),
            Some('%') => "%".to_owned(),
            other => {
                let got = other.map_or("an end".to_owned(), |c| format!("%{c}"));
                let message =
                    format!("strftime_now: expected one of %YymdejBbhAaHIMSpFTDR%, got {got}");
                return Err(Error::new(ErrorKind::InvalidOperation, message));
            }
        };
        let bare = part.trim_start_matches(['0', ' ']);
        text.push_str(match bare {
            _ if !is_bare => part.as_str(),
            "" => "0",
            bare => bare,
        });
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values are those of `datetime.fromtimestamp(…, timezone.utc).strftime(…)` in Python 3.11.
    #[test]
    fn dates_are_those_of_python() {
        let format = "%Y-%m-%d %H:%M:%S %A %B %j %I%p %y %e %a %b %F %T 100%%";
        let dates = "\
            0 1970-01-01 00:00:00 Thursday January 001 12AM 70  1 Thu Jan 1970-01-01 00:00:00 100%
            86399 1970-01-01 23:59:59 Thursday January 001 11PM 70  1 Thu Jan 1970-01-01 23:59:59 100%
            951782400 2000-02-29 00:00:00 Tuesday February 060 12AM 00 29 Tue Feb 2000-02-29 00:00:00 100%
            951868800 2000-03-01 00:00:00 Wednesday March 061 12AM 00  1 Wed Mar 2000-03-01 00:00:00 100%
            1709164800 2024-02-29 00:00:00 Thursday February 060 12AM 24 29 Thu Feb 2024-02-29 00:00:00 100%
            1709251199 2024-02-29 23:59:59 Thursday February 060 11PM 24 29 Thu Feb 2024-02-29 23:59:59 100%
            1735689599 2024-12-31 23:59:59 Tuesday December 366 11PM 24 31 Tue Dec 2024-12-31 23:59:59 100%
            1735689600 2025-01-01 00:00:00 Wednesday January 001 12AM 25  1 Wed Jan 2025-01-01 00:00:00 100%
            4102444800 2100-01-01 00:00:00 Friday January 001 12AM 00  1 Fri Jan 2100-01-01 00:00:00 100%
            4107542399 2100-02-28 23:59:59 Sunday February 059 11PM 00 28 Sun Feb 2100-02-28 23:59:59 100%
            13569465600 2400-01-01 00:00:00 Saturday January 001 12AM 00  1 Sat Jan 2400-01-01 00:00:00 100%
            1764000000 2025-11-24 16:00:00 Monday November 328 04PM 25 24 Mon Nov 2025-11-24 16:00:00 100%";
        for date in dates.lines() {
            let (seconds, expected) = date.trim_start().split_once(' ').unwrap();
            let since_1970 = Duration::from_secs(seconds.parse().unwrap());
            assert_eq!(strftime(since_1970, format).unwrap(), expected);
        }
    }

    /// Expected values are those of `strftime` in Python 3.11 with glibc.
    #[test]
    fn a_hyphen_leaves_out_zeros() {
        let morning = Duration::from_secs(1_704_164_709);
        let format = "%-d.%-m. %-H:%-M %-I %-j %h %D %R";
        let expected = "2.1. 3:5 3 2 Jan 01/02/24 03:05";
        assert_eq!(strftime(morning, format).unwrap(), expected);
        assert_eq!(strftime(Duration::ZERO, "%-H|%-S").unwrap(), "0|0");
    }

    #[test]
    fn an_unknown_directive_is_refused() {
        for format in ["%Q", "ends with %"] {
            assert!(strftime(Duration::ZERO, format).is_err());
        }
    }
}
