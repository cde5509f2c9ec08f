//! A JSON value as serde's input, without serde's tolerance of lists for structs.
//!
//! Derived types take `[3, 7]` for `{warmup: 3, measured: 7}`. In a file written by hand that is
//! a mistake.

use serde::{
    Deserializer, de,
    de::{
        Error as _, IntoDeserializer, Unexpected, Visitor,
        value::{MapAccessDeserializer, MapDeserializer, SeqDeserializer},
    },
    forward_to_deserialize_any,
};
use serde_json::{Error, Value};

#[derive(Clone, Copy)]
pub(crate) struct Strict<'a>(pub(crate) &'a Value);

impl<'de> IntoDeserializer<'de, Error> for Strict<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

fn map(entries: &serde_json::Map<String, Value>) -> MapDeserializer<'_, Entries<'_>, Error> {
    let entries: Vec<_> = entries
        .iter()
        .map(|(key, value)| (key.as_str(), Strict(value)))
        .collect();
    MapDeserializer::new(entries.into_iter())
}

type Entries<'a> = std::vec::IntoIter<(&'a str, Strict<'a>)>;

impl<'de> Deserializer<'de> for Strict<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(number) => number.deserialize_any(visitor),
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(items) => {
                let mut items = SeqDeserializer::new(items.iter().map(Strict));
                let value = visitor.visit_seq(&mut items)?;
                items.end()?;
                Ok(value)
            }
            Value::Object(entries) => {
                let mut entries = map(entries);
                let value = visitor.visit_map(&mut entries)?;
                entries.end()?;
                Ok(value)
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.0 {
            Value::Array(_) => Err(Error::invalid_type(Unexpected::Seq, &visitor)),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.0 {
            Value::String(word) => {
                visitor.visit_enum(de::value::BorrowedStrDeserializer::<Error>::new(word))
            }
            Value::Object(entries) if entries.len() == 1 => {
                visitor.visit_enum(MapAccessDeserializer::new(map(entries)))
            }
            Value::Object(_) => Err(Error::invalid_value(
                Unexpected::Other("a map of several keys"),
                &"a map with one key",
            )),
            _ => self.deserialize_any(visitor),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map identifier ignored_any
    }
}
