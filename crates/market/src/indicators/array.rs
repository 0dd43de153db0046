//! Serialization of arrays of any length, which serde supports up to 32 values.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeTuple, Serializer};

/// Serialize an array value by value.
///
/// # Errors
/// If the serializer fails.
pub fn serialize<S: Serializer, T: Serialize, const N: usize>(
    values: &[T; N],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut tuple = serializer.serialize_tuple(N)?;
    for value in values {
        tuple.serialize_element(value)?;
    }
    tuple.end()
}

/// Deserialize an array of `N` values.
///
/// # Errors
/// If there are fewer, or they cannot be read.
pub fn deserialize<'de, D, T, const N: usize>(deserializer: D) -> Result<[T; N], D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Copy + Default,
{
    deserializer.deserialize_tuple(N, Elements(PhantomData))
}

struct Elements<T, const N: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de> + Copy + Default, const N: usize> Visitor<'de> for Elements<T, N> {
    type Value = [T; N];

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{N} values")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<[T; N], A::Error> {
        let mut values = [T::default(); N];
        for (index, value) in values.iter_mut().enumerate() {
            *value =
                sequence.next_element()?.ok_or_else(|| A::Error::invalid_length(index, &self))?;
        }
        Ok(values)
    }
}
