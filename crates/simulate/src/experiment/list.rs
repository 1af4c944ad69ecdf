//! `cpus = 4` and `cpus = [2, 4]`: one value, or a list of them.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{BoolDeserializer, F64Deserializer, I64Deserializer, SeqAccessDeserializer, StrDeserializer};
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

/// The values of one option, in the order of the file.
#[derive(Clone, Debug)]
pub(super) struct List<T>(pub Vec<T>);

/// Unlike an untagged enum, this reports which value is wrong and what was expected in its place.
struct OneOrMany<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<List<T>, D::Error> {
        from.deserialize_any(OneOrMany(PhantomData))
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for OneOrMany<T> {
    type Value = List<T>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a value or a list of values")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<List<T>, E> {
        one(BoolDeserializer::new(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<List<T>, E> {
        one(I64Deserializer::new(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<List<T>, E> {
        one(F64Deserializer::new(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<List<T>, E> {
        one(StrDeserializer::new(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, values: A) -> Result<List<T>, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(values)).map(List)
    }
}

fn one<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<List<T>, D::Error> {
    Ok(List(vec![T::deserialize(from)?]))
}
