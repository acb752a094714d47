//! The `zaro` command.
fn main() {}
