//! The native half of the R package: one entry, which takes the name of an operation and a list of arguments.
//!
//! Everything that reads, decodes, selects or checks is the library's; this is how its values become R's. [`r`] has the
//! memory and the functions of R, [`value`] plain values, [`call`] runs work beside R's thread, [`handles`] has what is
//! open, and the other files one group of operations each.

mod call;
mod handles;
mod meta;
mod more;
mod picture;
mod r;
mod read;
mod value;
mod widen;
mod write;

use call::{Call, Stop};
use r::Ended;
use value::Value;

pub(crate) use call::failure_of_panic;

/// Runs the operation `op`. A failure is a list with the member `error`, for R to raise as a condition.
fn dispatch(op: &str, args: Value) -> Result<Value, Ended> {
    let call = Call::new(&args);
    let done = match op {
        "config" => handles::config(&args).map_err(Stop::from),
        "close" => handles::close(&args).map_err(Stop::from),
        "open" => meta::open(&call, &args),
        "node" => meta::node(&call, &args),
        "nodes" => meta::nodes(&call, &args),
        "keys" => meta::keys(&call, &args),
        "get" => meta::get(&call, &args),
        "coordinates" => meta::coordinates(&call, &args),
        "select" => meta::select(&call, &args),
        "overview" => meta::overview(&call, &args),
        "read" => read::read(&call, &args),
        "present" => read::present(&call, &args),
        "stat" => more::stat(&call, &args),
        "validate" => more::validate(&call, &args),
        "refs" => more::refs(&call, &args),
        "versions" => more::versions(&call, &args),
        "at" => more::at(&call, &args),
        "checksum" => more::checksum(&call, &args),
        "manifest" => more::manifest(&call, &args),
        "copy" => more::copy(&call, &args),
        "image" => picture::overview(&call, &args),
        "render" => picture::render(&call, &args),
        "create" => write::create(&call, &args),
        "create_group" => write::create_group(&call, &args),
        "write" => write::write(&call, &args),
        "resize" => write::resize(&call, &args),
        "attributes" => write::attributes(&call, &args),
        "consolidate" => write::consolidate(&call, &args),
        "delete" => write::delete(&call, &args),
        // For the tests of the package: work that ends badly, or not at all.
        "trial" => call::trial(&call, &args),
        other => Err(zaro::Error::usage(format!("there is no operation {other:?}")).into()),
    };
    call.finish(done)
}
