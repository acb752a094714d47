//! numcodecs' typed filters, in both of their forms.
//!
//! A filter recomputes the values of a chunk. In V2 it works on bytes, in the byte order of the types in its own
//! configuration ([`FilterOnBytes`]). Under its V3 name (`numcodecs.delta`) it works on values, whose byte order is
//! left to another codec ([`OnValues`]). The filter itself is written once, over little-endian bytes.

use std::fmt::Debug;

use super::bytes::Bytes;
use super::config::Config;
use super::registry::CodecRequest;
use super::{ArrayToArray, Buffer, BytesToBytes, Codec, OutputSize, Repr};
use crate::error::{Error, Result, invalid};
use crate::meta::dtype::DataType;
use crate::meta::fill::Fill;
use crate::meta::typestr::{self, TypeStr};

/// A filter, over little-endian elements. As many come out as went in.
pub(super) trait Filter: Debug + Send + Sync + 'static {
    /// The codec's name, for messages.
    fn name(&self) -> &'static str;

    /// From encoded to decoded elements.
    fn decode(&self, encoded: &[u8]) -> Result<Vec<u8>>;

    /// The inverse, as far as there is one.
    fn encode(&self, decoded: &[u8]) -> Result<Vec<u8>>;

    /// The fill value as the next codec sees it: what decodes to it, as nearly as can be.
    fn fill(&self, fill: &[u8]) -> Result<Vec<u8>> {
        self.encode(fill)
    }
}

/// The type on one side of a filter.
#[derive(Debug, Clone)]
pub(super) struct Side {
    pub(super) data_type: DataType,
    order: Bytes,
}

impl Side {
    /// Member `name` of a configuration. Under a V3 name it may be left out, where `otherwise` says so.
    pub(super) fn from_config(
        config: &Config<'_>,
        name: &'static str,
        otherwise: Option<&Side>,
    ) -> Result<Self> {
        match (config.get(name), otherwise) {
            (Some(json), _) => Self::new(typestr::parse_config(json)?).map_err(|e| e.with_field(name)),
            (None, Some(side)) => Ok(side.clone()),
            (None, None) => config.need(name).and_then(|_| Err(Error::invalid("no type"))),
        }
    }

    fn new(t: TypeStr) -> Result<Self> {
        Ok(Self { data_type: t.fixed()?.clone(), order: Bytes { endian: t.endian, mixed: t.mixed } })
    }

    /// What a V3 configuration may leave out: the type of the array. V2 may not.
    pub(super) fn of_array(request: &CodecRequest<'_>) -> Option<Self> {
        let order = Bytes { endian: None, mixed: Vec::new() };
        (!is_v2(request)).then(|| Self { data_type: request.data_type.clone(), order })
    }

    fn count(&self, bytes: usize) -> Result<usize> {
        let size = self.data_type.size().max(1);
        if !bytes.is_multiple_of(size) {
            return Err(invalid!("{bytes} bytes are not a multiple of the {size} of {}", self.data_type));
        }
        Ok(bytes / size)
    }
}

/// Whether a codec was asked for by its V2 name.
pub(super) fn is_v2(request: &CodecRequest<'_>) -> bool {
    request.name.starts_with("v2.")
}

/// The codec that `filter` is under the name asked for.
pub(super) fn make(request: &CodecRequest<'_>, filter: impl Filter, decoded: Side, encoded: Side) -> Codec {
    let typed = Typed { filter: Box::new(filter), decoded, encoded };
    if is_v2(request) {
        Codec::Bytes(Box::new(FilterOnBytes(typed)))
    } else {
        Codec::Array(Box::new(OnValues(typed)))
    }
}

#[derive(Debug)]
struct Typed {
    filter: Box<dyn Filter>,
    decoded: Side,
    encoded: Side,
}

/// A filter over bytes: V2.
#[derive(Debug)]
struct FilterOnBytes(Typed);

impl BytesToBytes for FilterOnBytes {
    fn name(&self) -> &'static str {
        self.0.filter.name()
    }

    fn encoded_size(&self, decoded: OutputSize) -> Result<OutputSize> {
        if let OutputSize::Exact(n) = decoded {
            self.0.decoded.count(n)?;
        }
        let (from, to) = (self.0.decoded.data_type.size().max(1), self.0.encoded.data_type.size());
        Ok(decoded.map(|n| (n / from).saturating_mul(to)))
    }

    fn decode(&self, bytes: &[u8], size: OutputSize) -> Result<Vec<u8>> {
        let Typed { filter, decoded, encoded } = &self.0;
        size.check(encoded.count(bytes.len())?.saturating_mul(decoded.data_type.size()))?;
        let mut input = bytes.to_vec();
        encoded.order.swap(&mut input, &encoded.data_type);
        let mut out = filter.decode(&input)?;
        decoded.order.swap(&mut out, &decoded.data_type);
        size.check(out.len())?;
        Ok(out)
    }

    fn encode(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let Typed { filter, decoded, encoded } = &self.0;
        decoded.count(bytes.len())?;
        let mut input = bytes.to_vec();
        decoded.order.swap(&mut input, &decoded.data_type);
        let mut out = filter.encode(&input)?;
        encoded.order.swap(&mut out, &encoded.data_type);
        Ok(out)
    }
}

/// A filter over values: V3.
#[derive(Debug)]
struct OnValues(Typed);

impl ArrayToArray for OnValues {
    fn name(&self) -> &'static str {
        self.0.filter.name()
    }

    fn encoded(&self, decoded: &Repr) -> Result<Repr> {
        let own = &self.0.decoded.data_type;
        // numpy views the array as the configured type, so only the size must agree.
        if decoded.data_type.is_variable() || decoded.data_type.size() != own.size() {
            return Err(invalid!("is for {own} elements, not {}", decoded.data_type));
        }
        let data_type = self.0.encoded.data_type.clone();
        let data_type = if data_type == *own { decoded.data_type.clone() } else { data_type };
        let fill = Fill(self.0.filter.fill(&decoded.fill.0)?.into());
        Ok(Repr { shape: decoded.shape.clone(), data_type, fill })
    }

    fn decode(&self, chunk: Buffer, decoded: &Repr, encoded: &Repr) -> Result<Buffer> {
        OutputSize::Exact(encoded.byte_size()?).check(chunk.bytes.len())?;
        let out = self.0.filter.decode(&chunk.bytes)?;
        OutputSize::Exact(decoded.byte_size()?).check(out.len())?;
        Ok(Buffer::fixed(out))
    }

    fn encode(&self, chunk: Buffer, _: &Repr, encoded: &Repr) -> Result<Buffer> {
        let out = self.0.filter.encode(&chunk.bytes)?;
        OutputSize::Exact(encoded.byte_size()?).check(out.len())?;
        Ok(Buffer::fixed(out))
    }
}
