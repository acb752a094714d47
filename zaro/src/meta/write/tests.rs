use super::*;
use crate::meta::dtype::{DataType, Endian, Float, TimeUnit};
use crate::meta::json::json;
use crate::meta::{Fill, NewArray, create::MemoryLayout, v2 as read2, v3 as read3};

/// A generator of numbers that are the same every time.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        // Vigna's splitmix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(n).unwrap()).unwrap()
    }

    fn of<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }

    fn data_type(&mut self, depth: u32) -> DataType {
        let unit = self.of(&[TimeUnit::Year, TimeUnit::Day, TimeUnit::Microsecond, TimeUnit::Nanosecond]);
        let scale = self.of(&[1, 10, 0x7fff_ffff]);
        match self.below(if depth == 0 { 14 } else { 11 }) {
            0 => DataType::Bool,
            1 => DataType::Int(self.of(&[2, 4, 8, 16, 32, 64])),
            2 => DataType::UInt(self.of(&[2, 4, 8, 16, 32, 64])),
            3..=4 => DataType::Float(self.of(&Float::ALL).0),
            5 => DataType::Complex(self.of(&Float::ALL).0),
            6 => DataType::Raw(1 + self.below(9)),
            7 => DataType::FixedBytes(1 + self.below(9)),
            8 => DataType::FixedUtf32(1 + self.below(5)),
            9 => DataType::DateTime(unit, scale),
            10 => DataType::TimeDelta(unit, scale),
            11 => DataType::String,
            12 => DataType::Bytes,
            _ => {
                let n = 1 + self.below(4);
                DataType::structure((0..n).map(|i| (format!("f{i}"), self.data_type(1))))
            }
        }
    }

    /// The bytes of an element: any that the type can have.
    fn element(&mut self, t: &DataType) -> Vec<u8> {
        match t {
            DataType::Bool => vec![u8::from(self.below(2) == 1)],
            DataType::Int(bits @ (2 | 4)) => {
                let n = i64::try_from(self.below(1 << bits)).unwrap() - (1 << (bits - 1));
                vec![n.to_le_bytes()[0]]
            }
            DataType::UInt(bits @ (2 | 4)) => vec![u8::try_from(self.below(1 << bits)).unwrap()],
            DataType::FixedUtf32(n) => {
                let text: Vec<char> = (0..*n).map(|_| self.of(&['a', 'é', '\0', '😀', '"'])).collect();
                text.iter().flat_map(|c| u32::from(*c).to_le_bytes()).collect()
            }
            DataType::String => self.of(&["", "NaN", "a\"\\\n\u{1}", "Ü😀"]).as_bytes().to_vec(),
            DataType::Bytes => (0..self.below(5)).map(|_| self.next().to_le_bytes()[0]).collect(),
            DataType::Struct(fields) => fields.iter().flat_map(|f| self.element(&f.data_type)).collect(),
            DataType::Float(f) => self.float(*f),
            DataType::Complex(f) => [self.float(*f), self.float(*f)].concat(),
            other => match self.below(4) {
                0 => vec![0; other.size()],
                1 => vec![255; other.size()],
                _ => (0..other.size()).map(|_| self.next().to_le_bytes()[0]).collect(),
            },
        }
    }

    fn float(&mut self, f: Float) -> Vec<u8> {
        use crate::meta::float;
        let bits = match self.below(6) {
            0 => float::canonical_nan(f).unwrap_or(0),
            1 => float::infinity(f, self.below(2) == 1).unwrap_or(0),
            2 => float::from_f64(f, self.of(&[0.1, -0.0, 1e-40, 1.0, 3e38, f64::MIN_POSITIVE / 4.0])),
            // Any bits: NaNs of all payloads among them.
            _ => self.next(),
        };
        bits.to_le_bytes()[..f.size()].to_vec()
    }

    fn array(&mut self) -> NewArray {
        let rank = self.below(4);
        let data_type = self.data_type(0);
        let chunks: Vec<u64> = (0..rank).map(|_| 1 + self.next() % 5).collect();
        let format = self.of(&[Format::V2, Format::V3]);
        let shards = chunks.iter().map(|c| c * (1 + self.next() % 3)).collect();
        let names = (0..rank).map(|_| self.of(&[None, Some("x".to_owned()), Some(String::new())])).collect();
        NewArray {
            format,
            shape: (0..rank).map(|_| self.next() % 20).collect(),
            fill: (self.below(4) > 0).then(|| Fill(self.element(&data_type).into())),
            fill_undefined: format == Format::V2 && self.below(3) == 0,
            data_type,
            chunks: (self.below(3) > 0).then_some(chunks.clone()),
            shards: (format == Format::V3 && self.below(3) == 0).then_some(shards),
            codecs: match self.below(4) {
                0 => None,
                _ => {
                    let text = ["none", "gzip:9", "blosc", "lz4", "zstd:1,zlib", "blosc:lz4:5:noshuffle+bz2"];
                    Some(crate::meta::short::parse(self.of(&text)).unwrap())
                }
            },
            layout: self.of(&[MemoryLayout::C, MemoryLayout::F]),
            endian: self.of(&[Endian::Little, Endian::Big]),
            keys: None,
            dimension_names: (self.below(2) == 1).then_some(names),
            attributes: match self.below(2) {
                0 => Vec::new(),
                _ => vec![("a b".into(), Json::Array(vec![Json::Number("NaN".into()), Json::Null]))],
            },
        }
    }
}

/// Reads documents from their text, to the letter.
fn read(format: Format, stored: &Stored) -> ArrayMeta {
    let mut f = Findings::new(Mode::Strict, "/");
    // But for bare words in attributes, which are kept.
    let mut documents = stored.iter().map(|(_, d)| Json::parse(d.stored().as_bytes()).unwrap().value);
    let first = documents.next().unwrap();
    let second = documents.next().map(Arc::new);
    drop(documents);
    match format {
        Format::V2 => read2::array(Arc::new(first), second, &mut f).unwrap(),
        Format::V3 => match read3::node(first, &mut f).unwrap() {
            NodeMeta::Array(a) => a,
            NodeMeta::Group(_) => panic!("no array"),
        },
    }
}

#[test]
fn what_is_written_reads_back_equal() {
    let mut dice = Dice(1);
    let (mut made, mut refused) = (0, 0);
    for _ in 0..4000 {
        let mut new = dice.array();
        let meta = match new.meta() {
            Ok(meta) => meta,
            // V2 lacks types, fill values and all-null names; nothing else may fail.
            Err(e) if new.format == Format::V2 => {
                let field = e.field().unwrap_or_default();
                let known = matches!(field, "data_type" | "dtype" | "fill_value");
                assert!(known, "{new:?}: {e}");
                refused += 1;
                new.format = Format::V3;
                new.meta().unwrap()
            }
            Err(e) => panic!("{new:?}: {e}"),
        };
        let stored = array(&meta).unwrap();
        let again = read(meta.format, &stored);
        assert_eq!(again, meta, "{new:?}");
        assert_eq!(array(&again).unwrap(), stored);
        assert_eq!((&again.shape, &again.data_type), (&new.shape, &new.data_type));
        if let Some(fill) = &new.fill {
            assert_eq!(again.fill, *fill, "{new:?}");
        }
        made += 1;
    }
    assert!(made == 4000 && refused > 100, "{made} {refused}");
}

fn v3(text: &str) -> ArrayMeta {
    let mut f = Findings::new(Mode::Tolerant, "/");
    match read3::node(json(text), &mut f).unwrap() {
        NodeMeta::Array(a) => a,
        NodeMeta::Group(_) => panic!("no array"),
    }
}

#[test]
fn old_spellings_become_the_full_form_and_the_unknown_stays() {
    let meta = v3(r#"{"codecs":[{"name":"transpose","configuration":{"order":"F"}},
              {"name":"sharding_indexed","configuration":{"chunk_shape":[1,1],"codecs":["bytes","crc32c"],
               "index_codecs":[{"name":"bytes","configuration":{"endian":"little"}}]}},
              {"name":"odd","must_understand":false}],
            "zarr_format":3,"node_type":"array","shape":[3,4],"data_type":{"name":"int8"},
            "chunk_grid":{"name":"rectilinear","configuration":{"kind":"inline","chunk_shapes":[2,[[1,3],2]]}},
            "chunk_key_encoding":"v2","fill_value":-1,"attributes":{"x":NaN},
            "more":{"must_understand":false,"a":1},"consolidated_metadata":{"must_understand":false},
            "storage_transformers":[{"name":"t","must_understand":false}]}"#);
    assert_eq!(
        array(&meta).unwrap()[0].1.to_string(),
        r#"{"zarr_format":3,"node_type":"array","shape":[3,4],"data_type":"int8","chunk_grid":{"name":"rectilinear","configuration":{"kind":"inline","chunk_shapes":[2,[[1,3],2]]}},"chunk_key_encoding":{"name":"v2","configuration":{"separator":"."}},"fill_value":-1,"codecs":[{"name":"transpose","configuration":{"order":[1,0]}},{"name":"sharding_indexed","configuration":{"chunk_shape":[1,1],"codecs":[{"name":"bytes"},{"name":"crc32c"}],"index_codecs":[{"name":"bytes","configuration":{"endian":"little"}}]}},{"name":"odd","must_understand":false}],"attributes":{"x":"NaN"},"storage_transformers":[{"name":"t","must_understand":false}],"more":{"must_understand":false,"a":1}}"#
    );
    let settled = settle(meta).unwrap();
    assert!(settled.document.get("more").is_some());
}

#[test]
fn raw_bytes_keep_the_name_they_had() {
    let text = r#"{"zarr_format":3,"node_type":"array","shape":[],"data_type":"r16","chunk_grid":{"name":"regular","configuration":{"chunk_shape":[]}},"chunk_key_encoding":{"name":"default","configuration":{"separator":"/"}},"fill_value":[1,2],"codecs":[{"name":"bytes"}],"attributes":{}}"#;
    let meta = v3(text);
    assert_eq!(array(&meta).unwrap()[0].1.to_string(), text);
    let new = ArrayMeta { document: Arc::new(Json::object()), ..meta };
    let document = array(&new).unwrap().remove(0).1.to_string();
    let named = r#"{"name":"raw_bytes","configuration":{"length_bytes":2}}"#;
    assert_eq!(document, text.replace("\"r16\"", named).replace("[1,2]", "\"AQI=\""));
}

#[test]
fn a_v2_document_keeps_its_own_ways() {
    let text = r#"{"zarr_format":2,"shape":[3],"chunks":[3],"dtype":[["a",">i4"],["b","<i2"]],"compressor":{"id":"crc32"},"fill_value":"AAAAAQIA","order":"F","filters":[{"id":"zlib","level":1}],"dimension_separator":".","own":1}"#;
    let mut f = Findings::new(Mode::Strict, "/");
    let document = Arc::new(json(text));
    let meta = read2::array(document, None, &mut f).unwrap();
    // The bytes of a struct are in the order of its fields: this is (1, 2).
    assert_eq!(*meta.fill.0, [1, 0, 0, 0, 2, 0]);
    let [(_, document), (_, attributes)] = array(&meta).unwrap().try_into().unwrap();
    assert_eq!(document.to_string(), text);
    assert_eq!(attributes, Json::object());
    let text = text.replace("\"AAAAAQIA\"", "null");
    let document = Arc::new(json(&text));
    let meta = read2::array(document, None, &mut f).unwrap();
    assert_eq!(array(&meta).unwrap()[0].1.to_string(), text);

    let group = GroupMeta {
        format: Format::V2,
        attributes: Arc::new(Json::object()),
        consolidated: None,
        document: Arc::new(Json::parse(br#"{"zarr_format":2,"own":1}"#).unwrap().value),
    };
    assert_eq!(self::group(&group)[0].1.to_string(), r#"{"zarr_format":2,"own":1}"#);
}

#[test]
fn fill_values_are_written_as_people_write_them() {
    let of = |t: DataType, bytes: &[u8], dialect| {
        super::fill::write(&Fill(bytes.to_vec().into()), &t, dialect).map(|j| j.to_string())
    };
    use crate::meta::fill::Dialect::{V2, V3};
    let f32 = |bits: u32, dialect| of(DataType::FLOAT32, &bits.to_le_bytes(), dialect);
    assert_eq!(f32(0.1f32.to_bits(), V3).unwrap(), "0.1");
    assert_eq!(f32(0x8000_0000, V2).unwrap(), "-0.0");
    assert_eq!(f32(0x7fc0_0000, V2).unwrap(), "\"NaN\"");
    assert_eq!(f32(0x7fa0_0000, V3).unwrap(), "\"0x7fa00000\"");
    assert!(f32(0x7fa0_0000, V2).is_err());
    assert_eq!(f32(0xff80_0000, V3).unwrap(), "\"-Infinity\"");
    assert_eq!(of(DataType::UINT64, &[255; 8], V3).unwrap(), "18446744073709551615");
    assert_eq!(of(DataType::Int(64), &[0, 0, 0, 0, 0, 0, 0, 128], V3).unwrap(), "-9223372036854775808");
    assert_eq!(of(DataType::Raw(2), &[1, 255], V3).unwrap(), "\"Af8=\"");
    assert_eq!(of(DataType::FixedBytes(4), b"ab\0\0", V2).unwrap(), "\"YWIAAA==\"");
    assert_eq!(of(DataType::Complex(Float::F16), &[0, 0x3e, 0, 0x7c], V3).unwrap(), "[1.5,\"Infinity\"]");
    let t = DataType::structure([("a".to_owned(), DataType::INT8), ("b".to_owned(), DataType::Bool)]);
    assert_eq!(of(t, &[254, 1], V3).unwrap(), r#"{"a":-2,"b":true}"#);
}
