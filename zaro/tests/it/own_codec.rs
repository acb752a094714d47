//! Codecs of users: registered by name, written and read.

use std::sync::Arc;

use zaro::codec::{ArrayToBytes, Buffer, BytesToBytes, Codec, CodecKind, OutputSize, Repr, register};
use zaro::hierarchy::{Existing, create_array};
use zaro::meta::{CodecMeta, DataType, Format, Json, NewArray, parse_codecs};
use zaro::store::{MemoryStore, SharedStore, StoreExt};
use zaro::{ErrorKind, OpenOptions, Order, Result, Selection, Values, WriteOptions, Zarr, blocking};

/// Values as they are, backwards.
#[derive(Debug)]
struct Backwards;

impl ArrayToBytes for Backwards {
    fn name(&self) -> &'static str {
        "own.backwards"
    }

    fn encoded_size(&self, decoded: &Repr) -> Result<OutputSize> {
        Ok(OutputSize::Exact(decoded.byte_size()?))
    }

    fn decode(&self, bytes: &[u8], decoded: &Repr) -> Result<Buffer> {
        self.encoded_size(decoded)?.check(bytes.len())?;
        Ok(Buffer { bytes: bytes.iter().rev().copied().collect(), ..Buffer::default() })
    }

    fn encode(&self, chunk: &Buffer, _: &Repr) -> Result<Vec<u8>> {
        Ok(chunk.bytes.iter().rev().copied().collect())
    }
}

/// A byte more at the end.
#[derive(Debug)]
struct Marked(u8);

impl BytesToBytes for Marked {
    fn name(&self) -> &'static str {
        "own.marked"
    }

    fn decode(&self, bytes: &[u8], size: OutputSize) -> Result<Vec<u8>> {
        match bytes.split_last() {
            Some((mark, rest)) if *mark == self.0 => size.check(rest.len()).map(|()| rest.to_vec()),
            _ => Err(zaro::Error::invalid("the mark is not there")),
        }
    }

    fn encode(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        Ok([bytes, &[self.0]].concat())
    }
}

fn write(new: &NewArray) -> Result<SharedStore> {
    let store: SharedStore = Arc::new(MemoryStore::new());
    let array = blocking::block_on(create_array(&store, "", new, Existing::Refuse))?;
    let values = Values::new((0..8).collect::<Vec<u8>>(), Order::C);
    array.write_slab_blocking(&Selection::all(), values, &WriteOptions::default())?;
    Ok(store)
}

fn read(store: &SharedStore) -> Result<Vec<u8>> {
    let zarr = blocking::block_on(Zarr::from_store(Arc::clone(store), OpenOptions::default()))?;
    blocking::block_on(zarr.array(""))?.read_blocking(Selection::all())
}

fn marked(name: &str) -> CodecMeta {
    CodecMeta::new(name, vec![("mark".to_owned(), Json::int(7))])
}

#[test]
fn codecs_of_users_are_written_and_read() {
    let known = parse_codecs("gzip:1").unwrap();
    let new = NewArray::new(DataType::UINT8, [8]);
    // Unknown before, known after.
    let own = new.clone().with_codecs(Some(vec![marked("own.marked")]));
    assert_eq!(write(&own).unwrap_err().kind(), ErrorKind::Unsupported);

    register("own.marked", CodecKind::Bytes, |request| {
        let mark = request.config.iter().find(|(name, _)| name == "mark").and_then(|(_, m)| m.as_u64());
        Ok(Codec::Bytes(Box::new(Marked(mark.and_then(|m| u8::try_from(m).ok()).unwrap_or(0)))))
    })
    .unwrap();
    register("own.backwards", CodecKind::ToBytes, |_| Ok(Codec::ToBytes(Box::new(Backwards)))).unwrap();
    register("own.liar", CodecKind::Array, |_| Ok(Codec::ToBytes(Box::new(Backwards)))).unwrap();

    let store = write(&own).unwrap();
    let stored = blocking::block_on(store.get("c/0", None)).unwrap().unwrap();
    assert_eq!(*stored, [0, 1, 2, 3, 4, 5, 6, 7, 7]);
    assert_eq!(read(&store).unwrap(), [0, 1, 2, 3, 4, 5, 6, 7]);

    // In the place of `bytes`, inside a shard, before one of ours.
    let codecs = [vec![CodecMeta::new("own.backwards", vec![])], known, vec![marked("own.marked")]].concat();
    let shards = new.clone().with_chunks(Some(vec![4])).with_shards(Some(vec![8])).with_codecs(Some(codecs));
    assert_eq!(read(&write(&shards).unwrap()).unwrap(), [0, 1, 2, 3, 4, 5, 6, 7]);

    // In V2 the name is an id.
    let v2 = new.clone().with_format(Format::V2).with_codecs(Some(vec![marked("v2.own.marked")]));
    let store = write(&v2).unwrap();
    let document = blocking::block_on(store.get(".zarray", None)).unwrap().unwrap();
    assert!(String::from_utf8_lossy(&document).contains(r#""id": "own.marked""#), "{document:?}");
    assert_eq!(read(&store).unwrap(), [0, 1, 2, 3, 4, 5, 6, 7]);

    // What is not what it was said to be is found when a chain is built.
    let liar = new.with_codecs(Some(vec![CodecMeta::new("own.liar", vec![])]));
    assert!(write(&liar).unwrap_err().to_string().contains("registered as Array"));
}

#[test]
fn names_are_taken_once() {
    let make = |_: &zaro::codec::CodecRequest<'_>| Ok(Codec::Bytes(Box::new(Marked(1))));
    for name in
        ["gzip", "bytes", "sharding_indexed", "numcodecs.blosc", "v2.zlib", "v2.own", "imagecodecs_floatpred"]
    {
        assert_eq!(register(name, CodecKind::Bytes, make).unwrap_err().kind(), ErrorKind::Usage, "{name}");
    }
    register("own.once", CodecKind::Bytes, make).unwrap();
    assert!(register("own.once", CodecKind::Bytes, make).is_err());
}
