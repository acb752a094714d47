//! `zaro --array_path=DIR`: the contract of the public conformance suites.
//!
//! Prints the whole array, one element per line, in C order; exit code 0 if it could be read.

use zaro::Result;

use crate::args::Common;
use crate::read::Read;

/// Prints the array at `uri`.
pub(crate) async fn run(uri: &str, common: &Common) -> Result<()> {
    Read::print_lines(uri, common).await
}
