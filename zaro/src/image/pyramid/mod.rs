//! Levels made from the largest one.
