//! The store suite and a store that fails on purpose.
