//! The rules of OME-Zarr: for each, and each range of versions, an image that keeps it and one that breaks it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zaro::image::ImageVersion;
use zaro::image::validate::{
    FindingLevel, ImageReport, ImageValidateOptions, RULES, validate, validate_attributes,
};
use zaro::meta::Json;
use zaro::store::MemoryStore;
use zaro::{OpenOptions, Zarr};

/// The objects of a small store.
#[derive(Debug, Clone, Default)]
struct Tree(BTreeMap<String, String>);

fn key(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") }
}

impl Tree {
    fn put(mut self, key: &str, text: impl Into<String>) -> Self {
        self.0.insert(key.to_owned(), text.into());
        self
    }

    fn group2(self, path: &str, attributes: &str) -> Self {
        self.put(&key(path, ".zgroup"), r#"{"zarr_format":2}"#).put(&key(path, ".zattrs"), attributes)
    }

    fn array2(self, path: &str, shape: &str, dtype: &str, separator: &str) -> Self {
        let document = format!(
            r#"{{"zarr_format":2,"shape":{shape},"chunks":{shape},"dtype":"{dtype}","compressor":null,"fill_value":0,"order":"C","filters":null{separator}}}"#
        );
        self.put(&key(path, ".zarray"), document)
    }

    fn group3(self, path: &str, attributes: &str) -> Self {
        let text = format!(r#"{{"zarr_format":3,"node_type":"group","attributes":{attributes}}}"#);
        self.put(&key(path, "zarr.json"), text)
    }

    fn array3(self, path: &str, shape: &str, dtype: &str, names: &str) -> Self {
        let text = format!(
            r#"{{"zarr_format":3,"node_type":"array","shape":{shape},"data_type":"{dtype}","chunk_grid":{{"name":"regular","configuration":{{"chunk_shape":{shape}}}}},"chunk_key_encoding":{{"name":"default"}},"fill_value":0,"codecs":[{{"name":"bytes","configuration":{{"endian":"little"}}}}],"attributes":{{}},"dimension_names":{names}}}"#
        );
        self.put(&key(path, "zarr.json"), text)
    }

    /// Replaces a text that must be there; a key that ends in `-` is taken away instead, with all below it.
    fn edit(mut self, at: &str, from: &str, to: &str) -> Self {
        if let Some(gone) = at.strip_suffix('-') {
            let before = self.0.len();
            self.0.retain(|k, _| k != gone && !k.starts_with(&format!("{gone}/")));
            assert!(self.0.len() < before, "nothing at {gone}");
            return self;
        }
        if from.is_empty() {
            return self.put(at, to);
        }
        let text = self.0.get_mut(at).unwrap_or_else(|| panic!("no object {at}"));
        assert!(text.contains(from), "{from} is not in {at}: {text}");
        *text = text.replacen(from, to, 1);
        self
    }

    fn zarr(&self) -> Zarr {
        let store = MemoryStore::new();
        for (key, text) in &self.0 {
            store.put(key, text.clone().into_bytes()).unwrap();
        }
        zaro::blocking::block_on(Zarr::from_store(Arc::new(store), OpenOptions::default())).unwrap()
    }

    fn report(&self, options: &ImageValidateOptions) -> ImageReport {
        zaro::blocking::block_on(validate(&self.zarr(), "", options)).unwrap()
    }
}

const SLASH: &str = r#","dimension_separator":"/""#;
const DOT: &str = r#","dimension_separator":".""#;
const MORE: &str = r#""name":"n","type":"mean","metadata":{"method":"m"}"#;
const OMERO: &str = r#""omero":{"channels":[{"color":"FF0000","window":{"min":0,"max":255,"start":0,"end":9},"label":"a","active":true,"family":"linear","coefficient":1},{"color":"00FF00","window":{"min":0,"max":255,"start":0,"end":9}}],"rdefs":{"defaultT":0,"defaultZ":0,"model":"color"}}"#;
const AXES: &str = r#""axes":[{"name":"c","type":"channel"},{"name":"y","type":"space","unit":"micrometer"},{"name":"x","type":"space","unit":"micrometer"}]"#;
const LABEL_AXES: &str = r#""axes":[{"name":"y","type":"space","unit":"micrometer"},{"name":"x","type":"space","unit":"micrometer"}]"#;
const LABEL: &str = r#""image-label":{VERSION"colors":[{"label-value":1,"rgba":[255,0,0,128]},{"label-value":2,"rgba":[0,255,0,128]}],"properties":[{"label-value":1,"area":3}],"source":{"image":"../../"}}"#;

fn label(version: &str) -> String {
    let version = if version.is_empty() { String::new() } else { format!("\"version\":\"{version}\",") };
    LABEL.replace("VERSION", &version)
}

/// Images of 0.1 and 0.2, with labels.
fn old(version: &str, separator: &str) -> Tree {
    let scales = format!(
        r#""multiscales":[{{"version":"{version}",{MORE},"datasets":[{{"path":"0"}},{{"path":"1"}}]}}]"#
    );
    Tree::default()
        .group2("", &format!("{{{scales},{OMERO}}}"))
        .array2("0", "[1,2,1,8,8]", "|u1", separator)
        .array2("1", "[1,2,1,4,4]", "|u1", separator)
        .group2("labels", r#"{"labels":["cells"]}"#)
        .group2("labels/cells", &format!("{{{scales},{}}}", label(version)))
        .array2("labels/cells/0", "[1,1,1,8,8]", "<u2", separator)
        .array2("labels/cells/1", "[1,1,1,4,4]", "<u2", separator)
}

fn seed() -> Tree {
    let scales = format!(r#""multiscales":[{{"version":"0.1",{MORE},"datasets":[{{"path":"0"}}]}}]"#);
    Tree::default()
        .group2("", &format!("{{{scales},{OMERO}}}"))
        .array2("0", "[1,2,1,8,8]", "|u1", "")
        .group2("masks", r#"{"masks":["original/0"]}"#)
        .array2("masks/original/0", "[1,1,1,8,8]", "<i8", "")
        .put("masks/original/0/.zattrs", r#"{"color":{"1":8388736,"2":-1},"image":{"array":"../../0"}}"#)
}

fn v01() -> Tree {
    old("0.1", DOT)
}

fn v02() -> Tree {
    old("0.2", SLASH)
}

fn v03() -> Tree {
    let scales = |axes: &str| {
        format!(
            r#""multiscales":[{{"version":"0.3",{MORE},"axes":{axes},"datasets":[{{"path":"0"}},{{"path":"1"}}]}}]"#
        )
    };
    let (cyx, yx) = (r#"["c","y","x"]"#, r#"["y","x"]"#);
    let named = |names: &str| format!(r#"{{"_ARRAY_DIMENSIONS":{names}}}"#);
    Tree::default()
        .group2("", &format!("{{{},{OMERO}}}", scales(cyx)))
        .array2("0", "[2,8,8]", "|u1", SLASH)
        .put("0/.zattrs", named(cyx))
        .array2("1", "[2,4,4]", "|u1", SLASH)
        .put("1/.zattrs", named(cyx))
        .group2("labels", r#"{"labels":["cells"]}"#)
        .group2("labels/cells", &format!("{{{},{}}}", scales(yx), label("0.3")))
        .array2("labels/cells/0", "[8,8]", "<u2", SLASH)
        .put("labels/cells/0/.zattrs", named(yx))
        .array2("labels/cells/1", "[4,4]", "<u2", SLASH)
        .put("labels/cells/1/.zattrs", named(yx))
}

fn scales45(version: &str, axes: &str, rank: usize) -> String {
    let version = if version.is_empty() { String::new() } else { format!("\"version\":\"{version}\",") };
    let numbers = |n: &str| {
        let mut all = vec!["1"; rank - 2];
        all.extend([n, n]);
        format!("[{}]", all.join(","))
    };
    let half = numbers("0.25").replace('1', "0");
    format!(
        r#""multiscales":[{{{version}{MORE},{axes},"datasets":[{{"path":"0","coordinateTransformations":[{{"type":"scale","scale":{}}}]}},{{"path":"1","coordinateTransformations":[{{"type":"scale","scale":{}}},{{"type":"translation","translation":{half}}}]}}]}}]"#,
        numbers("0.5"),
        numbers("1.0"),
    )
}

fn v04() -> Tree {
    image04("")
}

fn image04(at: &str) -> Tree {
    Tree::default()
        .group2(at, &format!("{{{},{OMERO}}}", scales45("0.4", AXES, 3)))
        .array2(&key(at, "0"), "[2,8,8]", "|u1", SLASH)
        .array2(&key(at, "1"), "[2,4,4]", "|u1", SLASH)
        .group2(&key(at, "labels"), r#"{"labels":["cells"]}"#)
        .group2(&key(at, "labels/cells"), &format!("{{{},{}}}", scales45("0.4", LABEL_AXES, 2), label("0.4")))
        .array2(&key(at, "labels/cells/0"), "[8,8]", "<u2", SLASH)
        .array2(&key(at, "labels/cells/1"), "[4,4]", "<u2", SLASH)
}

fn v05() -> Tree {
    image05("")
}

fn image05(at: &str) -> Tree {
    let ome = |inner: &str| format!(r#"{{"ome":{{"version":"0.5",{inner}}}}}"#);
    Tree::default()
        .group3(at, &ome(&format!("{},{OMERO}", scales45("", AXES, 3))))
        .array3(&key(at, "0"), "[2,8,8]", "uint8", r#"["c","y","x"]"#)
        .array3(&key(at, "1"), "[2,4,4]", "uint8", r#"["c","y","x"]"#)
        .group3(&key(at, "labels"), &ome(r#""labels":["deep/cells"]"#))
        .group3(&key(at, "labels/deep"), "{}")
        .group3(
            &key(at, "labels/deep/cells"),
            &ome(&format!("{},{}", scales45("", LABEL_AXES, 2), label("0.5").replace("../../", "../../../"))),
        )
        .array3(&key(at, "labels/deep/cells/0"), "[8,8]", "uint16", r#"["y","x"]"#)
        .array3(&key(at, "labels/deep/cells/1"), "[4,4]", "uint16", r#"["y","x"]"#)
}

fn scales06(axes: &str, rank: usize) -> String {
    let numbers = |n: &str| {
        let mut all = vec!["1"; rank - 2];
        all.extend([n, n]);
        format!("[{}]", all.join(","))
    };
    let half = numbers("0.25").replace('1', "0");
    format!(
        r#""multiscales":[{{{MORE},"coordinateSystems":[{{"name":"intrinsic",{axes}}},{{"name":"world",{axes}}}],"datasets":[{{"path":"0","coordinateTransformations":[{{"type":"scale","scale":{},"input":{{"path":"0"}},"output":{{"name":"intrinsic"}}}}]}},{{"path":"1","coordinateTransformations":[{{"type":"sequence","transformations":[{{"type":"scale","scale":{}}},{{"type":"translation","translation":{half}}}],"input":{{"path":"1"}},"output":{{"name":"intrinsic"}}}}]}}],"coordinateTransformations":[{{"type":"identity","input":{{"name":"intrinsic"}},"output":{{"name":"world"}}}}]}}]"#,
        numbers("0.5"),
        numbers("1.0"),
    )
}

fn v06() -> Tree {
    image06("")
}

fn image06(at: &str) -> Tree {
    let ome = |inner: &str| format!(r#"{{"ome":{{"version":"0.6",{inner}}}}}"#);
    Tree::default()
        .group3(at, &ome(&format!("{},{OMERO}", scales06(AXES, 3))))
        .array3(&key(at, "0"), "[2,8,8]", "uint8", r#"["c","y","x"]"#)
        .array3(&key(at, "1"), "[2,4,4]", "uint8", r#"["c","y","x"]"#)
        .group3(&key(at, "labels"), &ome(r#""labels":["cells"]"#))
        .group3(&key(at, "labels/cells"), &ome(&format!("{},{}", scales06(LABEL_AXES, 2), label(""))))
        .array3(&key(at, "labels/cells/0"), "[8,8]", "uint16", r#"["y","x"]"#)
        .array3(&key(at, "labels/cells/1"), "[4,4]", "uint16", r#"["y","x"]"#)
}

fn scene06() -> Tree {
    let transforms = r#""coordinateTransformations":[{"type":"translation","translation":[0,1,2],"input":{"path":"a","name":"world"},"output":{"name":"stage"}},{"type":"affine","path":"tables/matrix","input":{"path":"b","name":"intrinsic"},"output":{"name":"stage"}}]"#;
    let mut tree = Tree::default()
        .group3("", &format!(r#"{{"ome":{{"version":"0.6","scene":{{"coordinateSystems":[{{"name":"stage",{AXES}}}],{transforms}}}}}}}"#))
        .group3("tables", "{}")
        .array3("tables/matrix", "[3,4]", "float64", "null");
    tree.0.extend(image06("a").0);
    tree.0.extend(image06("b").0);
    tree
}

const PLATE: &str = r#""plate":{"name":"p",VERSION"field_count":1,"rows":[{"name":"A"},{"name":"B"}],"columns":[{"name":"1"},{"name":"2"}],"acquisitions":[{"id":0,"name":"a","maximumfieldcount":1,"starttime":1,"endtime":2},{"id":1,"name":"b","maximumfieldcount":1}],"wells":[{"path":"A/1","rowIndex":0,"columnIndex":0},{"path":"B/2","rowIndex":1,"columnIndex":1}]}"#;

fn plate04() -> Tree {
    let mut tree = Tree::default()
        .group2("", &format!("{{{}}}", PLATE.replace("VERSION", r#""version":"0.4","#)))
        .group2("A", "{}")
        .group2("B", "{}");
    for (i, well) in ["A/1", "B/2"].into_iter().enumerate() {
        tree = tree.group2(
            well,
            &format!(r#"{{"well":{{"version":"0.4","images":[{{"path":"0","acquisition":{i}}}]}}}}"#),
        );
        tree.0.extend(image04(&format!("{well}/0")).0);
    }
    tree
}

/// Before 0.4, wells may lie deeper, and have no indices.
fn plate01() -> Tree {
    let mut tree = Tree::default()
        .group2("", r#"{"plate":{"version":"0.1","rows":[{"name":"A"}],"columns":[{"name":"1"}],"wells":[{"path":"2020-10-10/A/1"}]}}"#)
        .group2("2020-10-10", "{}")
        .group2("2020-10-10/A", "{}")
        .group2("2020-10-10/A/1", r#"{"well":{"version":"0.1","images":[{"path":"0"}]}}"#);
    for (name, text) in v01().0 {
        tree.0.insert(format!("2020-10-10/A/1/0/{name}"), text);
    }
    tree
}

fn plate_new(version: &str, stated: &str, image: fn(&str) -> Tree) -> Tree {
    let ome = |inner: &str| format!(r#"{{"ome":{{"version":"{version}",{inner}}}}}"#);
    let mut tree = Tree::default()
        .group3("", &ome(&PLATE.replace("VERSION", stated)))
        .group3("A", "{}")
        .group3("B", "{}");
    for (i, well) in ["A/1", "B/2"].into_iter().enumerate() {
        tree = tree.group3(well, &ome(&format!(r#""well":{{"images":[{{"path":"0","acquisition":{i}}}]}}"#)));
        tree.0.extend(image(&format!("{well}/0")).0);
    }
    tree
}

fn plate05() -> Tree {
    plate_new("0.5", r#""version":"0.5","#, image05)
}

fn plate06() -> Tree {
    plate_new("0.6", "", image06)
}

const XML: &str = r#"<?xml version="1.0"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06"><Image ID="Image:0"><Pixels SizeX="8" SizeY="8" SizeZ="1" SizeC="2" SizeT="1"><MetadataOnly/></Pixels></Image><Image ID="Image:1"><Pixels SizeX="8" SizeY="8" SizeZ="1" SizeC="2" SizeT="1"><MetadataOnly/></Pixels></Image></OME>"#;

fn layout04() -> Tree {
    let mut tree = Tree::default()
        .group2("", r#"{"bioformats2raw.layout":3}"#)
        .group2("OME", r#"{"series":["0","1"]}"#)
        .put("OME/METADATA.ome.xml", XML);
    tree.0.extend(image04("0").0);
    tree.0.extend(image04("1").0);
    tree
}

fn layout05() -> Tree {
    let mut tree = Tree::default()
        .group3("", r#"{"ome":{"version":"0.5","bioformats2raw.layout":3}}"#)
        .group3("OME", "{}")
        .put("OME/METADATA.ome.xml", XML);
    tree.0.extend(image05("0").0);
    tree.0.extend(image05("1").0);
    tree
}

type Base = fn() -> Tree;

const BASES: [(&str, Base, ImageVersion); 13] = [
    ("seed", seed, ImageVersion::Seed),
    ("0.1", v01, ImageVersion::V01),
    ("0.2", v02, ImageVersion::V02),
    ("0.3", v03, ImageVersion::V03),
    ("0.4", v04, ImageVersion::V04),
    ("0.5", v05, ImageVersion::V05),
    ("0.6", v06, ImageVersion::V06),
    ("scene", scene06, ImageVersion::V06),
    ("plate 0.1", plate01, ImageVersion::V01),
    ("plate 0.4", plate04, ImageVersion::V04),
    ("plate 0.5", plate05, ImageVersion::V05),
    ("plate 0.6", plate06, ImageVersion::V06),
    ("layout 0.5", layout05, ImageVersion::V05),
];

/// Of Zarr v2, a layout states no version; its images do.
const LAYOUT04: (&str, Base, ImageVersion) = ("layout 0.4", layout04, ImageVersion::V04);

#[test]
fn what_keeps_every_rule_has_no_finding() {
    for (name, base, version) in BASES.into_iter().chain([LAYOUT04]) {
        let report = base().report(&ImageValidateOptions::default());
        if name != "layout 0.4" {
            assert_eq!(report.version, version, "{name}");
        }
        let lines: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        assert!(lines.is_empty(), "{name}:\n{}", lines.join("\n"));
        assert!(report.is_valid(true));
    }
}

use FindingLevel::{Lint, Must, Should};

/// A base, an edit (object, text, its replacement), and what is found: rule, level, node, path.
type Case =
    (Base, &'static str, &'static str, &'static str, &'static str, FindingLevel, &'static str, &'static str);

const SCALE0: &str = r#"{"type":"scale","scale":[1,0.5,0.5]}"#;
const SHAPE1: &str = r#""shape":[2,4,4],"data_type":"uint8","chunk_grid":{"name":"regular","configuration":{"chunk_shape":[2,4,4]}}"#;
const SHAPE1_FLAT: &str = r#""shape":[4,4],"data_type":"uint8","chunk_grid":{"name":"regular","configuration":{"chunk_shape":[4,4]}}"#;
const Z: &str = ".zattrs";
const J: &str = "zarr.json";

#[rustfmt::skip]
const CASES: &[Case] = &[
    // V1
    (v01, Z, r#"[{"path":"0"},{"path":"1"}]"#, "[]", "V1", Must, "/", "multiscales[0].datasets"),
    (v03, Z, r#"{"path":"1"}"#, r#"{"path":1}"#, "V1", Must, "/", "multiscales[0].datasets[1].path"),
    (v05, J, r#""path":"1","#, "", "V1", Must, "/", "ome.multiscales[0].datasets[1].path"),
    (v06, J, r#""path":"1","coord"#, r#""path":null,"coord"#, "V1", Must, "/", "ome.multiscales[0].datasets[1].path"),
    // V2
    (v05, "labels/zarr.json", r#""version":"0.5","#, "", "V2", Must, "/labels", "ome.version"),
    (v05, J, r#""version":"0.5","#, r#""version":0.5,"#, "V2", Must, "/", "ome.version"),
    (v05, "labels/zarr.json", r#"{"ome":{"version":"0.5","labels":["deep/cells"]}}"#, r#"{"labels":["deep/cells"]}"#, "V2", Must, "/labels", "ome"),
    (v06, J, r#""version":"0.6","#, r#""version":"0.6.dev4","#, "V2", Lint, "/", "ome.version"),
    (v06, "labels/cells/zarr.json", r#""version":"0.6","#, "", "V2", Must, "/labels/cells", "ome.version"),
    // V3
    (v05, "labels/deep/cells/zarr.json", r#"{"ome":{"version":"0.5""#, r#"{"ome":{"version":"0.4""#, "V3", Must, "/labels/deep/cells", "ome.version"),
    (plate06, "A/1/zarr.json", r#""version":"0.6""#, r#""version":"0.5""#, "V3", Must, "/A/1", "ome.version"),
    // V4
    (v02, Z, r#""version":"0.2","#, r#""version":0.2,"#, "V4", Must, "/", "multiscales[0].version"),
    (v04, Z, r#""version":"0.4","#, r#""version":0.4,"#, "V4", Must, "/", "multiscales[0].version"),
    (v03, Z, r#""version":"0.3","#, "", "V4", Should, "/", "multiscales[0].version"),
    (v01, "labels/cells/.zattrs", r#""image-label":{"version":"0.1","#, r#""image-label":{"#, "V4", Should, "/labels/cells", "image-label.version"),
    (plate04, Z, r#""version":"0.4","#, r#""version":"four","#, "V4", Must, "/", "plate.version"),
    (plate04, "B/2/.zattrs", r#""version":"0.4","#, "", "V4", Should, "/B/2", "well.version"),
    // V5
    (seed, "0-", "", "", "V5", Must, "/", "multiscales[0].datasets[0].path"),
    (v02, "1-", "", "", "V5", Must, "/", "multiscales[0].datasets[1].path"),
    (v05, J, r#""path":"1","#, r#""path":"labels","#, "V5", Must, "/", "ome.multiscales[0].datasets[1].path"),
    (v06, "1/zarr.json", SHAPE1, SHAPE1_FLAT, "V5", Must, "/", "ome.multiscales[0].datasets[1].path"),
    // V6
    (seed, "0/.zarray", r#"[1,2,1,8,8],"chunks":[1,2,1,8,8]"#, r#"[2,1,8,8],"chunks":[2,1,8,8]"#, "V6", Must, "/", "multiscales[0].datasets[0].path"),
    (v02, "1/.zarray", r#"[1,2,1,4,4],"chunks":[1,2,1,4,4]"#, r#"[4,4],"chunks":[4,4]"#, "V6", Must, "/", "multiscales[0].datasets[1].path"),
    // V7
    (seed, "0/.zarray", r#","filters":null"#, r#","filters":null,"dimension_separator":"/""#, "V7", Must, "/0", ".zarray dimension_separator"),
    (v01, "1/.zarray", r#""dimension_separator":".""#, r#""dimension_separator":"/""#, "V7", Must, "/1", ".zarray dimension_separator"),
    (v02, "0/.zarray", SLASH, "", "V7", Must, "/0", ".zarray dimension_separator"),
    (v03, "labels/cells/0/.zarray", SLASH, DOT, "V7", Must, "/labels/cells/0", ".zarray dimension_separator"),
    (v04, "0/.zarray", SLASH, DOT, "V7", Must, "/0", ".zarray dimension_separator"),
    // V8
    (v03, Z, r#"["c","y","x"]"#, r#"["y","c","x"]"#, "V8", Must, "/", "multiscales[0].axes[1]"),
    (v03, Z, r#"["c","y","x"]"#, r#"["q","y","x"]"#, "V8", Must, "/", "multiscales[0].axes[0]"),
    (v03, Z, r#"["c","y","x"]"#, r#"["x","y","x"]"#, "V8", Must, "/", "multiscales[0].axes[2]"),
    (v03, Z, r#""axes":["c","y","x"],"#, "", "V8", Must, "/", "multiscales[0].axes"),
    (v03, Z, r#"["c","y","x"]"#, r#"["y","x"]"#, "V8", Must, "/", "multiscales[0].datasets[0].path"),
    (v03, "1/.zattrs", r#"["c","y","x"]"#, r#"["c","y","z"]"#, "V8", Must, "/1", ".zattrs _ARRAY_DIMENSIONS"),
    // V9
    (v04, Z, r#"{"name":"y","#, r#"{"name":"x","#, "V9", Must, "/", "multiscales[0].axes[2].name"),
    (v05, J, r#"{"name":"c","type":"channel"}"#, r#"{"type":"channel"}"#, "V9", Must, "/", "ome.multiscales[0].axes[0].name"),
    (v06, J, r#"{"name":"c","type":"channel"}"#, r#"{"name":"c","type":"channel","discrete":1}"#, "V9", Must, "/", "ome.multiscales[0].coordinateSystems[0].axes[0].discrete"),
    // V10
    (v04, Z, r#"{"name":"y","type":"space","#, r#"{"name":"y","type":"height","#, "V10", Must, "/", "multiscales[0].axes"),
    (v05, J, r#"{"name":"c","type":"channel"}"#, r#"{"name":"c","type":"time"},{"name":"t","type":"time"}"#, "V10", Must, "/", "ome.multiscales[0].axes"),
    (v05, J, r#"{"name":"c","type":"channel"}"#, r#"{"name":"c"},{"name":"d","type":"angle"}"#, "V10", Must, "/", "ome.multiscales[0].axes"),
    (v06, J, r#"{"name":"c","type":"channel"}"#, r#"{"name":"c","type":7}"#, "V10", Must, "/", "ome.multiscales[0].coordinateSystems[0].axes[0].type"),
    // V11
    (v04, Z, AXES, r#""axes":[{"name":"y","type":"space","unit":"micrometer"},{"name":"c","type":"channel"},{"name":"x","type":"space","unit":"micrometer"}]"#, "V11", Must, "/", "multiscales[0].axes"),
    (v06, J, AXES, r#""axes":[{"name":"y","type":"space","unit":"micrometer"},{"name":"x","type":"space","unit":"micrometer"},{"name":"c","type":"channel"}]"#, "V11", Must, "/", "ome.multiscales[0].coordinateSystems[0].axes"),
    // V12
    (v04, Z, r#"{"name":"c","type":"channel"}"#, r#"{"name":"c"}"#, "V12", Should, "/", "multiscales[0].axes[0].type"),
    (v05, J, r#""unit":"micrometer""#, r#""unit":"micron""#, "V12", Should, "/", "ome.multiscales[0].axes[1].unit"),
    (v06, J, r#","unit":"micrometer""#, "", "V12", Should, "/", "ome.multiscales[0].coordinateSystems[0].axes[1].unit"),
    (v04, Z, r#"{"name":"c","type":"channel"}"#, r#"{"name":"c","type":"angle"}"#, "V12", Should, "/", "multiscales[0].axes[0].type"),
    // V13
    (v04, Z, r#""unit":"micrometer""#, r#""unit":"micrometer","units":"micrometer""#, "V13", Lint, "/", "multiscales[0].axes[1].units"),
    (v06, J, r#""unit":"micrometer""#, r#""unit":"micrometer","units":"micrometer""#, "V13", Lint, "/", "ome.multiscales[0].coordinateSystems[0].axes[1].units"),
    // V14
    (v04, "0/.zarray", r#"[2,8,8],"chunks":[2,8,8]"#, r#"[1,2,8,8],"chunks":[1,2,8,8]"#, "V14", Must, "/", "multiscales[0].datasets[0].path"),
    (v05, J, r#"{"name":"c","type":"channel"},"#, "", "V14", Must, "/", "ome.multiscales[0].datasets[1].path"),
    (v06, J, r#"{"name":"c","type":"channel"},"#, "", "V14", Must, "/", "ome.multiscales[0].datasets[0].path"),
    // V15
    (v05, "0/zarr.json", r#","dimension_names":["c","y","x"]"#, "", "V15", Must, "/0", "dimension_names"),
    (v06, "1/zarr.json", r#"["c","y","x"]"#, r#"["c","x","y"]"#, "V15", Must, "/1", "dimension_names"),
    // V16
    (v04, Z, r#"{"type":"scale","scale":[1,1.0,1.0]},{"type":"translation","translation":[0,0.25,0.25]}"#, r#"{"type":"translation","translation":[0,0.25,0.25]},{"type":"scale","scale":[1,1.0,1.0]}"#, "V16", Must, "/", "multiscales[0].datasets[1].coordinateTransformations[1]"),
    (v05, J, SCALE0, r#"{"type":"scale","scale":[0.5,0.5]}"#, "V16", Must, "/", "ome.multiscales[0].datasets[0].coordinateTransformations[0].scale"),
    (v05, J, SCALE0, r#"{"type":"scale","path":"scale"}"#, "V16", Must, "/", "ome.multiscales[0].datasets[0].coordinateTransformations[0].scale"),
    (v04, Z, SCALE0, r#"{"type":"identity"}"#, "V16", Must, "/", "multiscales[0].datasets[0].coordinateTransformations[0].type"),
    (v04, Z, SCALE0, "", "V16", Must, "/", "multiscales[0].datasets[0].coordinateTransformations"),
    (v05, J, SCALE0, r#"{"type":"scale","scale":[1,0.5,0.5]},{"type":"scale","scale":[1,1,1]}"#, "V16", Must, "/", "ome.multiscales[0].datasets[0].coordinateTransformations"),
    // V17
    (v04, Z, r#""name":"n","#, r#""name":"n","coordinateTransformations":[{"type":"translation","translation":[0,1,1]}],"#, "V17", Must, "/", "multiscales[0].coordinateTransformations"),
    (v05, J, r#""name":"n","#, r#""name":"n","coordinateTransformations":[{"type":"scale","scale":[2]}],"#, "V17", Must, "/", "ome.multiscales[0].coordinateTransformations[0].scale"),
    // V18
    (v04, Z, SCALE0, r#"{"type":"scale","scale":[0,0.5,0.5]}"#, "V18", Lint, "/", "multiscales[0].datasets[0].coordinateTransformations[0].scale[0]"),
    (v06, J, r#"{"type":"scale","scale":[1,0.5,0.5]"#, r#"{"type":"scale","scale":[-1,0.5,0.5]"#, "V18", Must, "/", "ome.multiscales[0].datasets[0].coordinateTransformations[0].scale[0]"),
    // V19
    (v02, Z, r#"[{"path":"0"},{"path":"1"}]"#, r#"[{"path":"1"},{"path":"0"}]"#, "V19", Must, "/", "multiscales[0].datasets[1].path"),
    (v04, Z, r#"[1,1.0,1.0]"#, r#"[1,0.1,0.1]"#, "V19", Must, "/", "multiscales[0].datasets[1].path"),
    (v06, "1/zarr.json", r#""shape":[2,4,4]"#, r#""shape":[2,4,9]"#, "V19", Must, "/", "ome.multiscales[0].datasets[1].path"),
    // V20
    (v04, Z, "[1,1.0,1.0]", "[1,1.0,3.0]", "V20", Lint, "/", "multiscales[0].datasets[1].path"),
    (v05, J, "[0,0.25,0.25]", "[0,0.25,0.6]", "V20", Lint, "/", "ome.multiscales[0].datasets[1].path"),
    (v06, J, "[0,0.25,0.25]", "[0,0.25,0.6]", "V20", Lint, "/", "ome.multiscales[0].datasets[1].path"),
    // V21
    (v03, "1/.zarray", "|u1", "<u2", "V21", Should, "/", "multiscales[0].datasets[1].path"),
    (v05, "1/zarr.json", "uint8", "uint16", "V21", Must, "/", "ome.multiscales[0].datasets[1].path"),
    (v06, "1/zarr.json", "uint8", "uint16", "V21", Must, "/", "ome.multiscales[0].datasets[1].path"),
    // V22
    (v01, Z, r#""type":"mean","#, "", "V22", Should, "/", "multiscales[0]"),
    (v04, Z, r#""name":"n","#, "", "V22", Should, "/", "multiscales[0]"),
    (v06, J, r#","metadata":{"method":"m"}"#, "", "V22", Should, "/", "ome.multiscales[0]"),
    (seed, Z, r#""type":"mean","#, "", "V22", Lint, "/", "multiscales[0]"),
    // V23
    (v01, Z, r#""color":"FF0000","#, "", "V23", Should, "/", "omero.channels[0].color"),
    (v04, Z, r#""color":"FF0000","#, "", "V23", Must, "/", "omero.channels[0].color"),
    (v04, Z, r##""FF0000""##, r##""#FF0000""##, "V23", Must, "/", "omero.channels[0].color"),
    (v05, J, r#""FF0000""#, r#""F00""#, "V23", Must, "/", "ome.omero.channels[0].color"),
    (v05, J, r#""color":"FF0000","#, "", "V23", Should, "/", "ome.omero.channels[0].color"),
    (v06, J, r#""min":0,"#, "", "V23", Must, "/", "ome.omero.channels[0].window.min"),
    (v06, J, r#","window":{"min":0,"max":255,"start":0,"end":9}}]"#, "}]", "V23", Should, "/", "ome.omero.channels[1].window"),
    (v04, Z, r#""omero":{"channels":"#, r#""omero":{"chan":"#, "V23", Must, "/", "omero.channels"),
    // V24
    (seed, Z, r#",{"color":"00FF00","window":{"min":0,"max":255,"start":0,"end":9}}"#, "", "V24", Lint, "/", "omero.channels"),
    (v03, Z, r#""start":0,"end":9"#, r#""start":9,"end":9"#, "V24", Lint, "/", "omero.channels[0].window"),
    (v04, Z, r#""max":255"#, r#""max":70000"#, "V24", Lint, "/", "omero.channels[0].window.max"),
    (v05, J, r#""family":"linear""#, r#""family":"cubic""#, "V24", Lint, "/", "ome.omero.channels[0].family"),
    (v02, Z, r#""defaultZ":0"#, r#""defaultZ":1"#, "V24", Lint, "/", "omero.rdefs.defaultZ"),
    (v06, J, r#""model":"color""#, r#""model":"rgb""#, "V24", Lint, "/", "ome.omero.rdefs.model"),
    (v06, J, r#""coefficient":1"#, r#""coefficient":0"#, "V24", Lint, "/", "ome.omero.channels[0].coefficient"),
    // V25
    (v01, "labels/.zattrs", r#"["cells"]"#, r#"["cells","nuclei"]"#, "V25", Must, "/labels", "labels[1]"),
    (v04, "labels/.zattrs", r#"{"labels":["cells"]}"#, "{}", "V25", Must, "/labels", "labels"),
    (v04, "labels/.zattrs", r#"["cells"]"#, r#""cells""#, "V25", Must, "/labels", "labels"),
    (v05, "labels/zarr.json", r#"["deep/cells"]"#, r#"["deep"]"#, "V25", Must, "/labels", "ome.labels[0]"),
    (v06, "labels/zarr.json", r#"["cells"]"#, r#"["cells/0"]"#, "V25", Must, "/labels", "ome.labels[0]"),
    // V26
    (v02, "labels/cells/0/.zarray", "<u2", "<f4", "V26", Must, "/labels/cells", "multiscales[0].datasets[0].path"),
    (v05, "labels/deep/cells/1/zarr.json", "uint16", "bool", "V26", Must, "/labels/deep/cells", "ome.multiscales[0].datasets[1].path"),
    (v01, "labels/cells/.zattrs", r#",{"path":"1"}"#, "", "V26", Must, "/labels/cells", "multiscales[0].datasets"),
    (v04, "labels/cells/0/.zarray", r#"[8,8],"chunks":[8,8]"#, r#"[7,8],"chunks":[7,8]"#, "V26", Should, "/labels/cells", "multiscales[0].datasets[0].path"),
    // V27
    (v01, "labels/cells/.zattrs", r#""label-value":2,"#, r#""label-value":1.5,"#, "V27", Must, "/labels/cells", "image-label.colors[1].label-value"),
    (v04, "labels/cells/.zattrs", r#""label-value":2,"#, r#""label-value":1,"#, "V27", Must, "/labels/cells", "image-label.colors[1].label-value"),
    (v05, "labels/deep/cells/zarr.json", "[255,0,0,128]", "[255,0,0]", "V27", Must, "/labels/deep/cells", "ome.image-label.colors[0].rgba"),
    (v06, "labels/cells/zarr.json", "[255,0,0,128]", "[256,0,0,128]", "V27", Must, "/labels/cells", "ome.image-label.colors[0].rgba"),
    // V28
    (v02, "labels/cells/.zattrs", r#"[{"label-value":1,"area":3}]"#, "[]", "V28", Must, "/labels/cells", "image-label.properties"),
    (v05, "labels/deep/cells/zarr.json", r#"{"label-value":1,"area":3}"#, r#"{"area":3}"#, "V28", Must, "/labels/deep/cells", "ome.image-label.properties[0].label-value"),
    // V29
    (v01, "labels/cells/.zattrs", "../../", "../../9", "V29", Must, "/labels/cells", "image-label.source.image"),
    (v06, "labels/cells/zarr.json", "../../", "../", "V29", Must, "/labels/cells", "ome.image-label.source.image"),
    // V30
    (v05, "labels/deep/zarr.json", r#""attributes":{}"#, r#""attributes":{"ome":{"version":"0.5"}}"#, "V30", Must, "/labels/deep", ""),
    // V31
    (v04, "labels/cells/.zattrs", r#""image-label":{"version":"0.4","#, r#""image-label":{"#, "V31", Should, "/labels/cells", "image-label.version"),
    (v05, "labels/deep/cells/zarr.json", r#""colors""#, r#""colours""#, "V31", Should, "/labels/deep/cells", "ome.image-label.colors"),
    (v06, "labels/cells/zarr.json", r#""image-label""#, r#""label-image""#, "V31", Should, "/labels/cells", "ome.image-label"),
    // V32
    (plate01, Z, r#""rows":[{"name":"A"}]"#, r#""rows":[]"#, "V32", Must, "/", "plate.rows"),
    (plate04, Z, r#"{"name":"2"}"#, r#"{"name":"1"}"#, "V32", Must, "/", "plate.columns[1].name"),
    (plate05, J, r#""maximumfieldcount":1,"starttime""#, r#""maximumfieldcount":0,"starttime""#, "V32", Must, "/", "ome.plate.acquisitions[0].maximumfieldcount"),
    (plate05, J, r#""starttime":1"#, r#""starttime":1.5"#, "V32", Must, "/", "ome.plate.acquisitions[0].starttime"),
    (plate06, J, r#""field_count":1"#, r#""field_count":0"#, "V32", Must, "/", "ome.plate.field_count"),
    (plate04, Z, r#"{"id":1,"#, r#"{"id":0,"#, "V32", Must, "/", "plate.acquisitions[1].id"),
    // V33
    (plate04, Z, r#""rowIndex":1,"#, r#""rowIndex":0,"#, "V33", Must, "/", "plate.wells[1].rowIndex"),
    (plate05, J, r#""columnIndex":1"#, r#""columnIndex":2"#, "V33", Must, "/", "ome.plate.wells[1].columnIndex"),
    (plate06, J, r#""rowIndex":0,"#, "", "V33", Must, "/", "ome.plate.wells[0].rowIndex"),
    (plate04, Z, r#""path":"B/2""#, r#""path":"B-2""#, "V33", Must, "/", "plate.wells[1].path"),
    // V34
    (plate01, "2020-10-10/A/1/.zattrs", r#"{"path":"0"}"#, r#"{"path":"0_1"}"#, "V34", Must, "/2020-10-10/A/1", "well.images[0].path"),
    (plate04, "B/2/0-", "", "", "V34", Must, "/B/2", "well.images[0].path"),
    (plate04, "B/2/.zattrs", r#","acquisition":1"#, "", "V34", Must, "/B/2", "well.images[0].acquisition"),
    (plate05, "B/2/zarr.json", r#""acquisition":1"#, r#""acquisition":7"#, "V34", Must, "/B/2", "well.images[0].acquisition"),
    (plate06, "A/zarr.json-", "", "", "V34", Must, "/", "ome.plate.wells[0].path"),
    (plate06, "A/1/zarr.json", r#""path":"0""#, r#""path":"..""#, "V34", Must, "/A/1", "ome.well.images[0].path"),
    // V35
    (plate04, Z, r#""name":"p","#, "", "V35", Should, "/", "plate.name"),
    (plate05, J, r#""field_count":1,"#, "", "V35", Should, "/", "ome.plate.field_count"),
    (plate06, J, r#""name":"a","#, "", "V35", Should, "/", "ome.plate.acquisitions[0].name"),
    (plate05, "A/2/zarr.json", "", r#"{"zarr_format":3,"node_type":"group","attributes":{}}"#, "V35", Should, "/", "ome.plate.wells"),
    // V36
    (layout04, Z, ":3", ":\"3\"", "V36", Must, "/", "bioformats2raw.layout"),
    (layout04, "OME/.zattrs", r#"["0","1"]"#, r#"["0","2"]"#, "V36", Must, "/OME", "series[1]"),
    (layout04, "OME/.zattrs", r#"["0","1"]"#, r#"["0"]"#, "V36", Must, "/OME", "series"),
    (layout05, "OME/METADATA.ome.xml", r#"SizeX="8""#, r#"SizeX="9""#, "V36", Must, "/OME", "METADATA.ome.xml"),
    (layout05, "OME/METADATA.ome.xml", "<MetadataOnly/>", "<TiffData/>", "V36", Must, "/OME", "METADATA.ome.xml"),
    (layout05, "OME/METADATA.ome.xml-", "", "", "V36", Should, "/", ""),
    (layout05, "0-", "", "", "V36", Must, "/", ""),
    // V37
    (v06, J, r#""output":{"name":"intrinsic"}}]},{"#, r#""output":{"name":"nowhere"}}]},{"#, "V37", Must, "/", "ome.multiscales[0].datasets[0].coordinateTransformations[0].output.name"),
    (v06, J, r#""input":{"path":"0"}"#, r#""input":"0""#, "V37", Must, "/", "ome.multiscales[0].datasets[0].coordinateTransformations[0].input"),
    (v06, J, r#"{"type":"identity","input":{"name":"intrinsic"},"output":{"name":"world"}}"#, r#"{"type":"identity","input":{"name":"intrinsic"},"output":{"name":"intrinsic"}}"#, "V37", Must, "/", "ome.multiscales[0].coordinateSystems"),
    (v06, J, r#"{"type":"identity","#, r#"{"type":"mapAxis","mapAxis":[0,0,2],"#, "V37", Must, "/", "ome.multiscales[0].coordinateTransformations[0].mapAxis[1]"),
    (v06, J, r#"{"type":"identity","#, r#"{"type":"rotation","rotation":[[1,0,0],[0,1,0],[0,0,-1]],"#, "V37", Must, "/", "ome.multiscales[0].coordinateTransformations[0].rotation"),
    (v06, J, r#"{"type":"identity","#, r#"{"type":"rotation","rotation":[[1,0,0],[0,2,0],[0,0,1]],"#, "V37", Must, "/", "ome.multiscales[0].coordinateTransformations[0].rotation"),
    (v06, J, r#"{"type":"identity","#, r#"{"type":"affine","affine":[[1,0,0],[0,1,0],[0,0,1]],"#, "V37", Must, "/", "ome.multiscales[0].coordinateTransformations[0].affine"),
    (v06, J, r#"{"type":"identity","#, r#"{"type":"byDimension","transformations":[{"transformation":{"type":"scale","scale":[2,2]},"inputAxes":[1,2],"outputAxes":[1,2]}],"#, "V37", Must, "/", "ome.multiscales[0].coordinateTransformations[0].transformations"),
    (v06, J, r#"{"type":"identity","#, r#"{"type":"projectAxis","droppedInputs":[0],"#, "V37", Must, "/", "ome.multiscales[0].coordinateTransformations[0]"),
    (v06, J, r#"{"type":"identity","#, r#"{"type":"bijection","forward":{"type":"identity"},"#, "V37", Must, "/", "ome.multiscales[0].coordinateTransformations[0].inverse"),
    (v06, J, r#"{"type":"identity","#, r#"{"type":"displacements","path":"field","#, "V37", Must, "/", "ome.multiscales[0].coordinateTransformations[0].path"),
    (v06, J, r#"{"type":"identity","#, r#"{"type":"twist","#, "V37", Must, "/", "ome.multiscales[0].coordinateTransformations[0].type"),
    (scene06, J, r#""path":"b","name":"intrinsic""#, r#""path":"b","name":"elsewhere""#, "V37", Must, "/", "ome.scene.coordinateTransformations[1].input.name"),
    (scene06, J, r#""path":"b","name""#, r#""path":"c","name""#, "V37", Must, "/", "ome.scene.coordinateTransformations[1].input.path"),
    (scene06, "tables/matrix/zarr.json", "[3,4]", "[4,4]", "V37", Must, "/", "ome.scene.coordinateTransformations[1].path"),
    (scene06, J, r#""output":{"name":"stage"}},"#, r#""output":{"path":"a","name":"intrinsic"}},"#, "V37", Must, "/", "ome.scene.coordinateTransformations"),
    // V38
    (seed, "masks/.zattrs", r#"["original/0"]"#, r#"["original/0","1"]"#, "V38", Must, "/masks", "masks[1]"),
    (seed, "masks/original/0/.zarray", r#"[1,1,1,8,8],"chunks":[1,1,1,8,8]"#, r#"[1,1,1,8,7],"chunks":[1,1,1,8,7]"#, "V38", Must, "/masks/original/0", ".zarray shape"),
    (seed, "masks/original/0/.zattrs", r#""2":-1"#, r#""two":-1"#, "V38", Must, "/masks/original/0", "color[\"two\"]"),
    (seed, "masks/original/0/.zattrs", r#""2":-1"#, r#""2":4294967296"#, "V38", Must, "/masks/original/0", "color[\"2\"]"),
    // V39
    (seed, "0/0/0/0/0/0", "", "x", "V39", Lint, "/0", ".zarray dimension_separator"),
    (v04, "0/0.0.0", "", "x", "V39", Lint, "/0", ".zarray dimension_separator"),
    (v02, "1/.zarray", r#""chunks":[1,2,1,4,4]"#, r#""chunks":[1,2,1,4]"#, "V39", Lint, "/1", ".zarray chunks"),
];

#[test]
fn what_breaks_a_rule_is_found_where_it_is_broken() {
    let mut wrong = Vec::new();
    for (i, (base, at, from, to, rule, level, node, path)) in CASES.iter().enumerate() {
        let report = base().edit(at, from, to).report(&ImageValidateOptions::default());
        // Where a list is given without its place in `ome`, either will do: wells of old and new plates share cases.
        let is_place = |found: &str| found == *path || found.strip_prefix("ome.") == Some(path);
        let found = report
            .findings
            .iter()
            .any(|f| f.rule == *rule && f.level == *level && f.node == *node && is_place(&f.path));
        if !found {
            let lines: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
            wrong.push(format!("case {i}: no {level} {rule} {node} {path}\n  {}", lines.join("\n  ")));
        }
        assert_eq!(report.is_valid(false), report.count(Must) == 0);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_rule_has_a_case() {
    for rule in RULES.iter().filter(|r| r.id.starts_with('V')) {
        assert!(CASES.iter().any(|case| case.4 == rule.id), "{}: {}", rule.id, rule.text);
    }
}

/// Edits that break nothing that must hold, though a schema or a reader may stumble.
#[test]
fn what_is_allowed_stays_allowed() {
    let untyped = r#""axes":[{"name":"c"},{"name":"z","type":"space","unit":"micrometer"},{"name":"y","type":"space","unit":"micrometer"},{"name":"x","type":"space","unit":"micrometer"}]"#;
    // An axis without a type beside three of space: the schemas of 0.4 and 0.5 count it as space, the text does not.
    for (version, document) in [
        ("0.4", format!("{{{}}}", scales45("0.4", untyped, 4))),
        ("0.5", format!(r#"{{"ome":{{"version":"0.5",{}}}}}"#, scales45("", untyped, 4))),
    ] {
        let report = attributes(&document, &ImageValidateOptions::default());
        assert_eq!(report.version.text(), version);
        assert!(report.is_valid(false), "{version}: {:?}", report.findings);
    }
    let allowed: [(Base, &str, &str, &str); 8] = [
        // The seed's writers left the separator out, and scaled nothing.
        (seed, "masks/original/0/.zattrs", "8388736", "4278190335"),
        (seed, "masks/original/0/.zattrs", r#""1""#, r#""true""#),
        (
            v04,
            Z,
            r#""name":"n","#,
            r#""name":"n","coordinateTransformations":[{"type":"scale","scale":[1,2,2]}],"#,
        ),
        (v05, "labels/zarr.json-", "", ""),
        (
            v06,
            J,
            r#"{"type":"identity","#,
            r#"{"type":"rotation","rotation":[[1,0,0],[0,0.7071,-0.7071],[0,0.7071,0.7071]],"#,
        ),
        (
            v06,
            J,
            r#"{"type":"identity","#,
            r#"{"type":"sequence","transformations":[{"type":"mapAxis","mapAxis":[0,2,1]},{"type":"affine","affine":[[1,0,0,0],[0,1,0,0],[0,0,1,5]]}],"#,
        ),
        (
            v06,
            J,
            r#"{"type":"identity","#,
            r#"{"type":"byDimension","transformations":[{"transformation":{"type":"scale","scale":[2,2]},"inputAxes":[1,2],"outputAxes":[2,1]},{"transformation":{"type":"identity"},"inputAxes":[0],"outputAxes":[0]}],"#,
        ),
        (plate06, "A/1/zarr.json", r#""acquisition":0"#, r#""acquisition":1"#),
    ];
    for (base, at, from, to) in allowed {
        let report = base().edit(at, from, to).report(&ImageValidateOptions::default());
        let lines: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        assert!(report.is_valid(false), "{at} {to}\n{}", lines.join("\n"));
    }
}

fn attributes(text: &str, options: &ImageValidateOptions) -> ImageReport {
    validate_attributes(&Json::parse(text.as_bytes()).unwrap().value, options)
}

#[test]
fn another_version_can_be_asked_for() {
    let report = v04().report(&ImageValidateOptions::default().with_version(Some(ImageVersion::V05)));
    assert!(report.asked && report.version == ImageVersion::V05 && report.stated.as_deref() == Some("0.4"));
    assert!(report.findings.iter().any(|f| f.rule == "V2" && f.level == Must), "{:?}", report.findings);
    // 0.1 as 0.2: the separators are wrong, and the versions.
    let report = v01().report(&ImageValidateOptions::default().with_version(Some(ImageVersion::V02)));
    let rules: Vec<&str> = report.findings.iter().filter(|f| f.level == Must).map(|f| f.rule).collect();
    assert!(rules.contains(&"V7") && rules.contains(&"V4"), "{rules:?}");
}

#[test]
fn a_version_that_is_not_stated_is_assumed_by_the_form() {
    let report = v04().edit(Z, r#""version":"0.4","#, "").report(&ImageValidateOptions::default());
    assert_eq!((report.version, report.stated), (ImageVersion::V04, None));
    let report = v02().edit(Z, r#""version":"0.2","#, "").report(&ImageValidateOptions::default());
    assert_eq!(report.version, ImageVersion::V02);
    assert!(report.is_valid(false));
    // A version to come is judged by the last that is known, but for its axes, which it freed.
    let five = r#""axes":[{"name":"a"},{"name":"b"},{"name":"y","type":"space","unit":"micrometer"},{"name":"x","type":"space","unit":"micrometer"}]"#;
    let text = format!(r#"{{"ome":{{"version":"0.9.dev1",{}}}}}"#, scales06(five, 4));
    let report = attributes(&text, &ImageValidateOptions::default());
    assert!(report.is_valid(false), "{:?}", report.findings);
    let report = attributes(&text.replace("0.9.dev1", "0.6"), &ImageValidateOptions::default());
    assert!(!report.is_valid(false));
}

#[test]
fn documents_alone_are_judged_as_far_as_they_tell() {
    for (text, rule) in [
        ("{}", Some("V1")),
        (r#"{"multiscales":[]}"#, Some("V1")),
        (r#"{"image-label":{"version":"0.4","colors":[{"label-value":1}]}}"#, None),
        (r#"{"well":{"version":"0.4","images":[{"path":"0"}]}}"#, None),
        (r#"{"well":{"version":"0.4","images":[{"path":"0/1"}]}}"#, Some("V34")),
        (r#"{"ome":{"version":"0.5","labels":[1]}}"#, Some("V25")),
        (r#"{"ome":{"version":"0.6","scene":{}}}"#, Some("V37")),
        (r#"{"ome":{"version":"nought"}}"#, Some("V2")),
    ] {
        let report = attributes(text, &ImageValidateOptions::default());
        match rule {
            None => assert!(report.findings.is_empty(), "{text}: {:?}", report.findings),
            Some(rule) => {
                let broken = report.findings.iter().any(|f| f.rule == rule && f.level == Must);
                assert!(broken, "{text}: {:?}", report.findings);
            }
        }
    }
}

/// A list that is long, or wrong a hundred thousand times, takes no time and no room.
#[test]
fn long_lists_are_no_trouble() {
    let list = |entry: &dyn Fn(u32) -> String| (0..100_000).map(entry).collect::<Vec<_>>().join(",");
    let document = |colors: &str, properties: &str| {
        format!(r#"{{"image-label":{{"version":"0.4","colors":[{colors}],"properties":[{properties}]}}}}"#)
    };
    let value = |i: u32| format!(r#"{{"label-value":{i},"rgba":[1,2,3,4]}}"#);
    let report = attributes(&document(&list(&value), &list(&value)), &ImageValidateOptions::default());
    assert!(report.findings.is_empty());
    let wrong = |_: u32| r#"{"label-value":1,"rgba":[1]}"#.to_owned();
    let report = attributes(&document(&list(&wrong), &list(&wrong)), &ImageValidateOptions::default());
    assert!((3..100).contains(&report.findings.len()), "{}", report.findings.len());
}

#[test]
fn trees_of_documents_alone_may_lack_nodes() {
    let tree = v05().edit("0-", "", "").edit("1-", "", "");
    assert!(!tree.report(&ImageValidateOptions::default()).is_valid(false));
    let report = tree.report(&ImageValidateOptions::default().with_metadata_only(true));
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/images").join(name)
}

fn sample_report(name: &str) -> ImageReport {
    let uri = sample(name);
    let zarr = zaro::blocking::block_on(zaro::open(uri.to_str().unwrap(), &OpenOptions::default())).unwrap();
    zaro::blocking::block_on(validate(&zarr, "", &ImageValidateOptions::default())).unwrap()
}

#[test]
fn images_of_other_writers_are_as_they_should_be() {
    for (name, version, nodes) in [
        ("01-seed001-masks-0.1.zarr", ImageVersion::Seed, 6),
        ("05-omezarrpy-0.4.zarr", ImageVersion::V04, 7),
        ("09-hcs-plate-0.4.zarr", ImageVersion::V04, 24),
    ] {
        let report = sample_report(name);
        assert_eq!((report.version, report.nodes), (version, nodes), "{name}");
        assert!(report.is_valid(false), "{name}: {:?}", report.findings);
    }
    // Its writer leaves the version of the labels out.
    let report = sample_report("06-omezarrpy-0.5.zarr");
    let broken: Vec<_> = report.findings.iter().filter(|f| f.level == Must).collect();
    assert_eq!(broken.len(), 1);
    assert_eq!(
        (broken[0].rule, broken[0].node.as_str(), broken[0].path.as_str()),
        ("V2", "/labels", "ome.version")
    );
    assert!(broken[0].fix.is_some());
}
