//! The validation rules by id.

/// A rule of this validator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Its id.
    pub id: &'static str,
    /// What it requires.
    pub text: &'static str,
}

const fn rule(id: &'static str, text: &'static str) -> Rule {
    Rule { id, text }
}

/// All rules. The level of a finding may depend on the version: what an old version only advised may be required now.
pub const RULES: [Rule; 45] = [
    rule("V1", "multiscales is a list of different objects, each with datasets that have paths"),
    rule("V2", "from 0.5 on, every group's metadata is in `ome`, with a version, in Zarr v3"),
    rule("V3", "the version is the same in the whole hierarchy"),
    rule("V4", "up to 0.4, multiscales, plate, well and image-label state their version, as text"),
    rule("V5", "each dataset is an array, and all have the same number of dimensions"),
    rule("V6", "up to 0.2, arrays have five dimensions"),
    rule("V7", "chunk keys are separated by `.` up to 0.1, by `/` from 0.2 to 0.4"),
    rule(
        "V8",
        "axes of 0.3 are different names of t, c, z, y, x in that order, repeated in _ARRAY_DIMENSIONS",
    ),
    rule("V9", "there are 2 to 5 axes, each with a unique name"),
    rule("V10", "2 or 3 axes are space, at most one is time, at most one is something else"),
    rule("V11", "axes are ordered: time, channel or other, space"),
    rule("V12", "axes have a known type and a matching unit; three spatial axes are z, y, x"),
    rule("V13", "the key is `unit`, not `units`"),
    rule("V14", "there are as many axes as the arrays have dimensions"),
    rule("V15", "from 0.5 on, dimension_names of the arrays are the names of the axes"),
    rule("V16", "a dataset has one scale and at most one translation after it, with one number per axis"),
    rule("V17", "the same holds for coordinateTransformations of multiscales, if present"),
    rule("V18", "scales are finite and greater than zero"),
    rule("V19", "levels are ordered from large to small, in shape and in scale"),
    rule("V20", "scales and translations agree with the shapes of the levels"),
    rule("V21", "all levels have the same data type"),
    rule("V22", "multiscales have name, type and metadata"),
    rule("V23", "omero has channels, each with a colour of six hexadecimal digits and a complete window"),
    rule("V24", "omero agrees with the arrays: channels, windows, default planes"),
    rule("V25", "a labels group lists its labels, which are groups with multiscales"),
    rule("V26", "labels are integers, with as many levels as their image and its sizes"),
    rule("V27", "colors have a unique label-value each, and rgba of four bytes"),
    rule("V28", "properties have a label-value each"),
    rule("V29", "source.image refers to an image"),
    rule("V30", "groups between labels and a label have no metadata"),
    rule("V31", "image-label has colors, and in 0.4 and 0.5 a version"),
    rule("V32", "a plate has valid columns, rows, wells and acquisitions"),
    rule("V33", "a well's path, rowIndex and columnIndex agree"),
    rule("V34", "rows, wells and fields exist, and fields name an acquisition of the plate"),
    rule("V35", "a plate has name, version and field_count, its acquisitions name and maximumfieldcount"),
    rule("V36", "bioformats2raw.layout is 3, and its images are those of OME-XML"),
    rule("V37", "coordinate systems and transformations of 0.6 are consistent"),
    rule("V38", "seed masks are arrays that fit the image, with packed colours"),
    rule("V39", "chunks are stored under the keys that the array's metadata define"),
    rule("Z1", "an .ozx is a ZIP archive with zarr.json in its root, and one hierarchy"),
    rule("Z2", "the comment of an .ozx is JSON that states the version"),
    rule("Z3", "the entries of an .ozx are not compressed"),
    rule("Z4", "an .ozx uses ZIP64"),
    rule("Z5", "in an .ozx the root zarr.json comes first, then the others by depth, then chunks"),
    rule("Z6", "arrays in an .ozx are sharded"),
];
