//! Collects elements of an input that is read whole into a slab.

use crate::array::{Order, Slab};
use crate::error::Result;
use crate::meta::DataType;

/// Elements in C order.
#[derive(Debug)]
pub(super) struct Held {
    data_type: DataType,
    bytes: Vec<u8>,
    /// Where each variable-length element ends.
    ends: Vec<usize>,
}

impl Held {
    pub(super) fn new(data_type: &DataType) -> Self {
        Self { data_type: data_type.clone(), bytes: Vec::new(), ends: Vec::new() }
    }

    /// Adds the element that `element` appends.
    pub(super) fn push(&mut self, element: impl FnOnce(&DataType, &mut Vec<u8>) -> Result<()>) -> Result<()> {
        element(&self.data_type, &mut self.bytes)?;
        if self.data_type.is_variable() {
            self.ends.push(self.bytes.len());
        }
        Ok(())
    }

    /// All elements, in a shape they must fill.
    pub(super) fn slab(self, shape: &[u64]) -> Result<Slab> {
        if !self.data_type.is_variable() {
            return Slab::new(&self.data_type, shape, Order::C, self.bytes);
        }
        let mut start = 0;
        let items = self.ends.iter().map(|end| {
            let item = self.bytes.get(start..*end).unwrap_or_default();
            start = *end;
            item
        });
        Slab::variable(&self.data_type, shape, Order::C, items)
    }
}
