//! JSON whose objects keep the order of their fields, as templates print tools and calls in the order in which clients write them.

use std::collections::HashMap;
use std::fmt;

use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap, SerializeSeq, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::Number;

use crate::error::ApiError;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ordered {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Ordered>),
    /// Fields in the order of their first mention, each once and with its last value, as in Python.
    Object(Vec<(String, Ordered)>),
}

impl Ordered {
    /// The value as a text in JSON.
    ///
    /// # Errors
    /// 500 if it can't be written, which no value that was read is.
    pub(crate) fn to_json(&self) -> Result<String, ApiError> {
        let written = serde_json::to_string(self);
        written.map_err(|error| ApiError::internal("unwritable", error.to_string()))
    }

    /// The value of a field; `None` where there is none, and for values that aren't objects.
    pub(crate) fn field(&self, name: &str) -> Option<&Self> {
        let Self::Object(fields) = self else {
            return None;
        };
        let found = fields.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value)
    }

    /// The text that a value is; `None` for values that aren't texts.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The value of a field, to change it; `None` where there is none, and for values that aren't objects.
    pub(crate) fn field_mut(&mut self, name: &str) -> Option<&mut Self> {
        let Self::Object(fields) = self else {
            return None;
        };
        let found = fields.iter_mut().find(|(known, _)| known == name);
        found.map(|(_, value)| value)
    }
}

impl Serialize for Ordered {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            // A number of serde_json may serialize as an object of its own where the target isn't JSON.
            Self::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
                (Some(whole), _, _) => serializer.serialize_i64(whole),
                (_, Some(whole), _) => serializer.serialize_u64(whole),
                (_, _, Some(decimal)) => serializer.serialize_f64(decimal),
                (None, None, None) => serializer.serialize_unit(),
            },
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    list.serialize_element(item)?;
                }
                list.end()
            }
            Self::Object(fields) => {
                let mut map = serializer.serialize_map(Some(fields.len()))?;
                for (name, value) in fields {
                    map.serialize_entry(name, value)?;
                }
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OrderedVisitor)
    }
}

struct OrderedVisitor;

impl<'de> Visitor<'de> for OrderedVisitor {
    type Value = Ordered;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Ordered, E> {
        Ok(Ordered::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Ordered, E> {
        Ok(Ordered::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Ordered, E> {
        Ok(Ordered::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Ordered, E> {
        Ok(Ordered::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Ordered, E> {
        Ok(Number::from_f64(value).map_or(Ordered::Null, Ordered::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Ordered, E> {
        Ok(Ordered::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Ordered, E> {
        Ok(Ordered::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Ordered, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Ordered::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Ordered, A::Error> {
        let mut fields: Vec<(String, Ordered)> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        while let Some((name, value)) = entries.next_entry::<String, Ordered>()? {
            match places.get(&name) {
                Some(place) => fields[*place].1 = value,
                None => {
                    places.insert(name.clone(), fields.len());
                    fields.push((name, value));
                }
            }
        }
        Ok(Ordered::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_keep_their_order() {
        let text = r#"{"z":1,"a":[true,null,-2,2.5,18446744073709551615],"m":{"y":"ä","b":{}}}"#;
        let read: Ordered = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        let twice: Ordered = serde_json::from_str(r#"{"b":1,"a":2,"b":3}"#).unwrap();
        assert_eq!(serde_json::to_string(&twice).unwrap(), r#"{"b":3,"a":2}"#);
    }

    #[test]
    fn a_field_is_found() {
        let mut read: Ordered = serde_json::from_str(r#"{"a":{"b":1}}"#).unwrap();
        let inner = read.field_mut("a").and_then(|a| a.field_mut("b"));
        assert_eq!(inner, Some(&mut Ordered::Number(1.into())));
        assert_eq!(read.field_mut("c"), None);
        assert_eq!(Ordered::Null.field_mut("c"), None);
    }
}
