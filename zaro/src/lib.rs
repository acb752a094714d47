//! zaro
