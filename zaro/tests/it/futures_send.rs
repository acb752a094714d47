//! Every public future may go from thread to thread, as the executors of servers want it.

use std::sync::Arc;

use zaro::hierarchy::{self, Existing};
use zaro::image::add_labels::{self, AddLabelsOptions, LabelSource};
use zaro::image::convert::{ConvertOptions, convert};
use zaro::image::pyramid::{self, Frame, PyramidOptions};
use zaro::image::upgrade::{UpgradeOptions, upgrade, upgrade_in_place};
use zaro::internal::meta::edit;
use zaro::manifest::{FetchOptions, Fetched, FolderSource, Manifest, fetch};
use zaro::meta::{Format, Json, NewArray};
use zaro::store::{Condition, SharedStore, StoreExt as _};
use zaro::{Array, OpenOptions, ReadOptions, Selection, Task, Values, WriteOptions, Zarr};

fn send<T>(future: impl Future<Output = T> + Send) {
    drop(future);
}

/// Compiled, and never run: a future that is not `Send` does not compile.
#[expect(dead_code, clippy::too_many_arguments, reason = "the types are what is tested")]
fn all(
    store: &SharedStore,
    zarr: &Zarr,
    array: &Array,
    values: Values,
    labels: &LabelSource,
    manifest: &Manifest,
    appending: hierarchy::Appending,
    making: zaro::create::Creating,
) {
    let (all, read, write) = (Selection::all(), ReadOptions::default(), WriteOptions::default());
    send(array.read_slab(&all, &read));
    send(array.write_slab(&all, values, &write));
    send(array.item_bytes());
    send(array.steady());
    send(store.get("", None));
    send(store.put("", "".into(), Condition::Always));
    send(store.stat(""));
    send(store.list(""));
    send(zaro::open("", &zaro::OpenOptions::default()));
    send(Zarr::from_store(store.clone(), OpenOptions::default()));
    send(zarr.array(""));
    send(zarr.node(""));
    send(zarr.walk(""));
    let new = NewArray::default();
    let meta = array.meta();
    send(hierarchy::create_group(store, "", Format::V3, &Json::Null, Existing::Refuse));
    send(hierarchy::create_array(store, "", &new, Existing::Refuse));
    send(hierarchy::edit_attributes(store, "", &edit::AttributesEdit::Replace(Vec::new())));
    send(hierarchy::consolidate(store, ""));
    send(hierarchy::delete(store, ""));
    send(hierarchy::resize(store, "", &[]));
    send(hierarchy::extend(store, "", 0, 1));
    send(hierarchy::append(store, "", 0, 1, false));
    send(appending.publish());
    send(array.writing());
    send(zaro::create::array(store, "", meta, Existing::Refuse));
    send(making.check());
    send(making.finish(Ok(())));
    let options = zaro::copy::CopyOptions::default();
    send(zaro::copy::copy(zarr, "", "", store, "", &options));
    send(zaro::copy::convert_in_place_with(store, "", Format::V3, &options));
    send(zaro::copy::conversion_notes(zarr, "", Format::V3));
    let options = PyramidOptions::default();
    send(pyramid::build(store, "", &options));
    send(pyramid::build_from_array(store, "", &Frame::default(), &options));
    send(pyramid::build_at(zarr, "", "", &Frame::default(), store, "", &options));
    send(convert(&[], store, "", &ConvertOptions::default()));
    send(add_labels::add(store, "", "", labels, &AddLabelsOptions::default()));
    let options = UpgradeOptions::default();
    send(upgrade(zarr, "", "", store, "", &options));
    send(upgrade_in_place(store, "", &options));
    send(zaro::image::validate::validate(zarr, "", &zaro::image::validate::ImageValidateOptions::default()));
    send(zaro::validate::validate(zarr, ""));
    send(zaro::validate::validate_data(zarr, "", &Task::default()));
    send(zaro::stat::stat(zarr, array, &zaro::stat::StatOptions::default()));
    let folder = FolderSource(std::path::PathBuf::new());
    let (any, done) = (|_: &str| true, Arc::new(Fetched::default()));
    let fetching =
        &FetchOptions::default().with_existing(Existing::Refuse).with_at_once(1).with_task(Task::default());
    send(fetch(manifest, &folder, &folder.0, &any, fetching, &done));
}
