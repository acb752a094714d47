//! Values on their way out of arrays and into them: windows, sinks, inputs, the CF conventions.

use std::sync::Arc;

use zaro::array::ArrayView;
use zaro::blocking::block_on;
use zaro::cf::{Lost, Reading, related};
use zaro::format::{Csv, Drawing, Input, JsonLists, Npy, Picture, Raw, RawOrigin, Sink};
use zaro::hierarchy::{self, Existing};
use zaro::meta::{DataType, Format, Json, NewArray};
use zaro::store::{MemoryStore, SharedStore};
use zaro::{Array, OpenOptions, Order, ReadOptions, Selection, Values, WriteOptions, Zarr};

fn members(text: &str) -> Vec<(String, Json)> {
    Json::parse(text.as_bytes()).unwrap().value.members().unwrap().to_vec()
}

/// An array of 3 by 4 numbers 0, 1, 2, … with these attributes.
fn array(store: &SharedStore, path: &str, data_type: DataType, attributes: &str) -> Array {
    let new = NewArray::default()
        .with_shape(vec![3, 4])
        .with_chunks(Some(vec![2, 3]))
        .with_attributes(members(attributes))
        .with_data_type(data_type);
    let array = block_on(hierarchy::create_array(store, path, &new, Existing::Refuse)).unwrap();
    let bytes: Vec<u8> = (0..12i16).flat_map(i16::to_le_bytes).collect();
    if new.data_type == DataType::Int(16) {
        array
            .write_slab_blocking(
                &Selection::all(),
                Values::new(bytes.to_vec(), Order::C),
                &WriteOptions::default(),
            )
            .unwrap();
    }
    array
}

fn memory() -> SharedStore {
    Arc::new(MemoryStore::new())
}

/// All of it, written in windows of at most so many bytes.
fn written(reading: &Reading, sink: &mut dyn Sink, order: Order, budget: usize) -> (Vec<u8>, Vec<String>) {
    let mut out = Vec::new();
    let mut lost = Lost::of_text();
    sink.begin(&reading.layout(order), &mut out).unwrap();
    for window in block_on(reading.windows(budget, order)).unwrap() {
        let options = ReadOptions::default().with_order(order);
        let slab = block_on(reading.read(&window, &options, &mut lost)).unwrap();
        sink.block(&slab, &mut out).unwrap();
    }
    sink.end(&mut out).unwrap();
    (out, lost.messages())
}

fn decoded(store: &SharedStore, array: &Array) -> Reading {
    let zarr = block_on(Zarr::from_store(store.clone(), OpenOptions::default())).unwrap();
    let related = block_on(related(&zarr, array)).unwrap();
    let mut warn = |message: &str| panic!("{message}");
    Reading::decoded(array, ArrayView::new(&[], array.meta()).unwrap(), &related, &mut warn)
}

#[test]
fn windows_do_not_show_in_what_is_written() {
    let store = memory();
    let array = array(&store, "", DataType::Int(16), "{}");
    let reading = Reading::stored(&array, ArrayView::new(&[], array.meta()).unwrap());
    for budget in [1, 5, 8, 16, 1000] {
        let text =
            |sink: &mut dyn Sink| String::from_utf8(written(&reading, sink, Order::C, budget).0).unwrap();
        assert_eq!(text(&mut JsonLists::new(false)), "[[0,1,2,3],\n[4,5,6,7],\n[8,9,10,11]]\n");
        assert_eq!(text(&mut Csv::new(false)), "0,1,2,3\n4,5,6,7\n8,9,10,11\n");
        let raw = written(&reading, &mut Raw, Order::F, budget).0;
        let fortran: Vec<u8> =
            [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11i16].iter().flat_map(|n| n.to_le_bytes()).collect();
        assert_eq!(raw, fortran);
        let drawing =
            Drawing { colormap: Default::default(), range: None, max_size: 9, transparent: Vec::new() };
        let picture = written(&reading, &mut Picture::new(drawing), Order::C, budget).0;
        assert!(picture.starts_with(b"\x89PNG"));
    }
}

#[test]
fn conventions_are_applied_window_by_window() {
    let store = memory();
    block_on(hierarchy::create_group(&store, "", Format::V3, &Json::object(), Existing::Refuse)).unwrap();
    let packed = r#"{"scale_factor": 0.5, "add_offset": 1, "_FillValue": 3}"#;
    let packed = array(&store, "packed", DataType::Int(16), packed);
    let (text, lost) = written(&decoded(&store, &packed), &mut Csv::new(true), Order::C, 40);
    assert_eq!(String::from_utf8(text).unwrap(), "1.0,1.5,2.0,NaN\n3.0,3.5,4.0,4.5\n5.0,5.5,6.0,6.5\n");
    assert!(lost.is_empty());
    let days = r#"{"units": "days since 2000-02-28", "calendar": "noleap"}"#;
    let days = array(&store, "days", DataType::Int(16), days);
    let (text, _) = written(&decoded(&store, &days), &mut JsonLists::new(true), Order::C, 1);
    assert!(
        String::from_utf8(text).unwrap().starts_with("[[\"2000-02-28T00:00:00\",\"2000-03-01T00:00:00\"")
    );
}

#[test]
fn what_was_written_is_read_back() {
    let store = memory();
    let from = array(&store, "from", DataType::Int(16), "{}");
    let reading = Reading::stored(&from, ArrayView::new(&[], from.meta()).unwrap());
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.npy");
    for order in [Order::C, Order::F] {
        std::fs::write(&file, written(&reading, &mut Npy::default(), order, 1000).0).unwrap();
        for (name, to) in [("same", DataType::Int(16)), ("cast", DataType::FLOAT64)] {
            let to = array(&store, &format!("{name}{order:?}"), to, "{}");
            let mut input = Input::npy(RawOrigin::open(&file).unwrap()).unwrap();
            let shape = input.shape(&to.meta().data_type, None, &[]).unwrap().unwrap();
            assert_eq!(shape, [3, 4]);
            let elements = input.elements(to.meta(), &shape, Order::C, true).unwrap();
            let view = ArrayView::new(&[], to.meta()).unwrap();
            let (to, options) = (&to, &WriteOptions::default());
            let put = |view: ArrayView, slab: zaro::Slab| async move {
                to.write_slab(&view.selection()?, slab.into(), options).await
            };
            block_on(elements.each(&view, to.meta(), 9, put)).unwrap();
            let back = to.read_slab_blocking(&Selection::all(), &ReadOptions::default()).unwrap();
            match to.meta().data_type {
                DataType::Int(_) => assert_eq!(back.to_vec::<i16>().unwrap(), Vec::from_iter(0..12i16)),
                _ => assert_eq!(back.to_vec::<f64>().unwrap(), Vec::from_iter((0..12).map(f64::from))),
            }
        }
        let input = Input::npy(RawOrigin::open(&file).unwrap()).unwrap();
        let to = array(&store, &format!("no{order:?}"), DataType::FLOAT64, "{}");
        let e = input.elements(to.meta(), &[3, 4], Order::C, false).unwrap_err();
        assert_eq!(e.hints()[0].option, Some("cast"));
    }
}

#[test]
fn consolidated_metadata_that_are_stale_are_found() {
    let store = memory();
    block_on(hierarchy::create_group(&store, "", Format::V2, &Json::object(), Existing::Refuse)).unwrap();
    let old = Json::from([("old", 1u8.into())]);
    block_on(hierarchy::create_group(&store, "g", Format::V2, &old, Existing::Refuse)).unwrap();
    block_on(hierarchy::consolidate(&store, "")).unwrap();
    let check = || {
        let options = OpenOptions::default().with_use_consolidated(false);
        let zarr = block_on(Zarr::from_store(store.clone(), options)).unwrap();
        block_on(zaro::validate::validate(&zarr, "")).unwrap()
    };
    let report = check();
    assert_eq!((report.nodes, report.errors(), report.warnings()), (2, 0, 0));
    let put = store.put("g/.zattrs", br#"{"new": 1}"#.to_vec().into(), zaro::store::Condition::Always);
    assert!(block_on(put).unwrap().is_done());
    let report = check();
    assert_eq!(report.findings.iter().map(|f| f.rule).collect::<Vec<_>>(), ["consolidated/stale"]);
    assert_eq!(report.json("a", false).get("warnings").unwrap().as_u64(), Some(1));
}
