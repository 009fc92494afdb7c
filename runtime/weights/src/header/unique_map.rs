//! A JSON object in which no key may occur twice.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};

use crate::fault::quoted;

/// A map that refuses a repeated key; serde's own maps keep the last value in silence.
#[derive(Debug)]
pub struct UniqueMap<V>(BTreeMap<String, V>);

impl<V> UniqueMap<V> {
    /// The entries.
    pub fn into_inner(self) -> BTreeMap<String, V> {
        self.0
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for UniqueMap<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MapVisitor<V>(PhantomData<V>);

        impl<'de, V: Deserialize<'de>> Visitor<'de> for MapVisitor<V> {
            type Value = UniqueMap<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = BTreeMap::new();
                while let Some(key) = map.next_key::<String>()? {
                    if entries.contains_key(&key) {
                        return Err(A::Error::custom(format_args!(
                            "duplicate key {}",
                            quoted(&key)
                        )));
                    }
                    let value = map.next_value()?;
                    entries.insert(key, value);
                }
                Ok(UniqueMap(entries))
            }
        }

        deserializer.deserialize_map(MapVisitor(PhantomData))
    }
}
