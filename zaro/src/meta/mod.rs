//! Layer 2: JSON to one model.

pub mod dtype;
pub mod fill;
pub mod float;
pub mod json;
pub mod typestr;
