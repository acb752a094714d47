//! A piece of an answer, ready to be written: a slab as it was read, or what `--cf` made of it.

use zaro::array::{Order, Slab};
use zaro::meta::DataType;

/// Elements of one type, in the memory order that was asked for.
#[derive(Debug)]
pub(crate) struct Block {
    /// The type of the elements as they are now.
    pub(crate) data_type: DataType,
    /// The extents of this piece.
    pub(crate) shape: Vec<u64>,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Slab(Slab),
    Fixed(Vec<u8>),
    Text(Vec<String>),
}

impl Block {
    /// A slab as it was read.
    pub(crate) fn of_slab(slab: Slab) -> Self {
        Self { data_type: slab.data_type.clone(), shape: slab.shape.clone(), content: Content::Slab(slab) }
    }

    /// Elements of a fixed-size type, one after the other.
    pub(crate) fn of_bytes(data_type: DataType, shape: Vec<u64>, bytes: Vec<u8>) -> Self {
        Self { data_type, shape, content: Content::Fixed(bytes) }
    }

    /// Letters, of which `letters` along the last dimension are a text each, as texts of that length.
    pub(crate) fn of_letters(slab: Slab, letters: usize) -> Self {
        let shape = slab.shape.split_last().map(|(_, rest)| rest.to_vec()).unwrap_or_default();
        let bytes = match slab.order {
            Order::C => slab.bytes.to_vec(),
            // The first letters of all texts, then the second ones.
            Order::F => {
                let texts = slab.bytes.len().checked_div(letters).unwrap_or(0);
                let letter = |i: usize, k: usize| slab.bytes.get(k * texts + i).copied().unwrap_or(0);
                (0..texts)
                    .flat_map(|i| (0..letters).map(move |k| (i, k)))
                    .map(|(i, k)| letter(i, k))
                    .collect()
            }
        };
        Self::of_bytes(DataType::FixedBytes(letters), shape, bytes)
    }

    /// Texts.
    pub(crate) fn of_text(shape: Vec<u64>, items: Vec<String>) -> Self {
        Self { data_type: DataType::String, shape, content: Content::Text(items) }
    }

    /// How many elements there are.
    pub(crate) fn len(&self) -> usize {
        match &self.content {
            Content::Slab(slab) => slab.len(),
            Content::Fixed(bytes) => bytes.len().checked_div(self.data_type.size()).unwrap_or(0),
            Content::Text(items) => items.len(),
        }
    }

    /// Element `i` in memory order: its bytes, or its content for a variable-length type.
    pub(crate) fn item(&self, i: usize) -> Option<&[u8]> {
        match &self.content {
            Content::Slab(slab) => slab.item(i),
            Content::Fixed(bytes) => {
                let size = self.data_type.size();
                let at = i.checked_mul(size)?;
                bytes.get(at..at.checked_add(size)?)
            }
            Content::Text(items) => items.get(i).map(String::as_bytes),
        }
    }

    /// Every element.
    pub(crate) fn items(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|i| self.item(i).unwrap_or_default())
    }

    /// All bytes, if the type has a fixed size.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        match &self.content {
            Content::Slab(slab) if !self.data_type.is_variable() => Some(&slab.bytes),
            Content::Fixed(bytes) => Some(bytes),
            _ => None,
        }
    }
}
