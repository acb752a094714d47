//! `grib`: decodes chunks that are whole GRIB messages.
//!
//! V2: `{"id": "grib", "var": "t2m", "dtype": "float64"}`, as kerchunk writes it: the values of the message's grid in
//! the order of the message, missing ones as NaN; for the variables `latitude` and `longitude`, where the points are.
//! Without a `dtype` the values have the array's type. V3: the same under the name `grib`, which turns values to bytes.
//!
//! `gribscan.rawgrib` (V2) is the same with missing values as 9999, and without settings. `gribberish` (V2 and V3)
//! names the variable, and perhaps two settings that change the order of the points, which we refuse.
//!
//! The values are those that eccodes gives, bit for bit: of the first field, if there are more. Messages are not
//! written.

mod aec;
mod bits;
mod complex;
mod edition1;
mod geo;
mod message;
mod pack;
mod project;

use super::bytes::Bytes;
use super::config::Config;
use super::number::{self, NumberOp};
use super::registry::CodecRequest;
use super::{ArrayToBytes, Buffer, BytesToBytes, Codec, OutputSize, Repr, filter};
use crate::error::{Error, Result, invalid, unsupported};
use crate::meta::dtype::DataType;
use crate::meta::typestr;
use bits::Bits;

/// A message may stand for this many bytes for each of its own: if all values are the same, none takes any room.
const EXPANSION: usize = 1 << 24;

/// What eccodes says where there is no value, unless told otherwise.
const MISSING: f64 = 9999.0;

/// What is wanted of a message.
#[derive(Debug, Clone, Copy, PartialEq)]
enum MessagePart {
    /// The values; missing ones are this.
    Values(f64),
    /// Where the points are.
    Place(geo::GeoAxis),
}

#[derive(Debug, Clone, PartialEq)]
struct Grib {
    part: MessagePart,
    data_type: DataType,
    order: Bytes,
    /// Whether points in another order than rows of one direction are refused.
    plain_order: bool,
}

pub(super) fn from_config(request: &CodecRequest<'_>, config: &Config<'_>) -> Result<Codec> {
    let name = request.name;
    let mut codec = Grib {
        part: match config.str("var")? {
            Some("latitude") => MessagePart::Place(geo::GeoAxis::Latitude),
            Some("longitude") => MessagePart::Place(geo::GeoAxis::Longitude),
            _ => MessagePart::Values(f64::NAN),
        },
        data_type: number::plain(request.data_type)?.into_owned(),
        order: Bytes { endian: None, mixed: Vec::new() },
        plain_order: name.ends_with("gribberish"),
    };
    if name.ends_with("rawgrib") {
        (codec.part, codec.data_type) = (MessagePart::Values(MISSING), DataType::FLOAT64);
    }
    for setting in ["adjust_longitude_range", "north_up"] {
        if config.bool(setting)? == Some(true) {
            return Err(unsupported!("{setting:?} changes the order of the points and is not supported"));
        }
    }
    if let Some(dtype) = config.get("dtype") {
        let dtype = typestr::parse_config(dtype).map_err(|e| e.with_field("dtype"))?;
        codec.data_type = number::plain(dtype.fixed()?)?.into_owned();
        codec.order = Bytes { endian: dtype.endian, mixed: dtype.mixed };
    }
    Ok(if filter::is_v2(request) {
        Codec::Bytes(Box::new(codec))
    } else {
        codec.order = Bytes { endian: None, mixed: Vec::new() };
        Codec::ToBytes(Box::new(codec))
    })
}

impl Grib {
    /// `n` numbers out of a message.
    fn numbers(&self, message: &[u8], n: usize) -> Result<Vec<f64>> {
        let field = match (message::edition(message)?, self.part) {
            (2, _) => message::parse(message)?,
            (1, MessagePart::Values(missing)) => return edition1::values(message, n, missing),
            (1, _) => return Err(Error::unsupported("coordinates of GRIB 1 are not supported")),
            (edition, _) => return Err(unsupported!("GRIB edition {edition} is not supported")),
        };
        if self.plain_order && geo::scanning(&field)? & 0x30 != 0 {
            return Err(Error::unsupported("points that are not in rows of one direction are not supported"));
        }
        match self.part {
            MessagePart::Values(missing) => values(&field, n, missing),
            MessagePart::Place(axis) => geo::places(&field, axis, n),
        }
    }

    /// The same as elements of the codec's type.
    fn elements(&self, message: &[u8], n: usize) -> Result<Vec<u8>> {
        let mut out = number::store(NumberOp::Float(self.numbers(message, n)?), &self.data_type)?;
        self.order.swap(&mut out, &self.data_type);
        Ok(out)
    }
}

/// The most bytes that a message of so many decoded ones is read with.
fn whole(decoded: usize) -> OutputSize {
    OutputSize::AtMost(decoded.saturating_mul(16).saturating_add(1 << 30))
}

/// The values of a field of `n` points.
fn values(field: &message::GribField<'_>, n: usize, missing: f64) -> Result<Vec<f64>> {
    if field.points != n {
        return Err(invalid!("the GRIB message has {} points where {n} were expected", field.points));
    }
    let unfit = || invalid!("the GRIB message has {} values for {n} points", field.values);
    let Some(bitmap) = field.bitmap else {
        return if field.values == n { pack::unpack(field, missing) } else { Err(unfit()) };
    };
    if field.values > n {
        return Err(unfit());
    }
    let mut present = pack::unpack(field, missing)?.into_iter();
    let mut bits = Bits::new(bitmap);
    let mut out = Vec::with_capacity(n);
    for _ in 0..n {
        out.push(match bits.read(1) {
            Some(1) => present.next().ok_or_else(unfit)?,
            _ => missing,
        });
    }
    if present.next().is_some() { Err(unfit()) } else { Ok(out) }
}

impl BytesToBytes for Grib {
    fn name(&self) -> &'static str {
        "grib"
    }

    /// Beside the values a message holds a description of its own, a bitmap, and perhaps more fields; and if only the
    /// places of the points are wanted, much that is not.
    fn encoded_size(&self, decoded: OutputSize) -> Result<OutputSize> {
        Ok(whole(decoded.limit()))
    }

    fn expansion(&self) -> usize {
        EXPANSION
    }

    fn decode(&self, bytes: &[u8], size: OutputSize) -> Result<Vec<u8>> {
        let OutputSize::Exact(length) = size else {
            return Err(Error::unsupported(
                "a GRIB message below another codec of unknown size is not supported",
            ));
        };
        let width = self.data_type.size().max(1);
        if !length.is_multiple_of(width) {
            return Err(invalid!("{length} bytes are not a multiple of the {width} of {}", self.data_type));
        }
        super::output::justified(length, bytes.len(), EXPANSION)?;
        self.elements(bytes, length / width)
    }

    fn encode(&self, _: &[u8]) -> Result<Vec<u8>> {
        Err(Error::unsupported("zaro does not write GRIB messages"))
    }
}

impl ArrayToBytes for Grib {
    fn name(&self) -> &'static str {
        "grib"
    }

    fn encoded_size(&self, decoded: &Repr) -> Result<OutputSize> {
        number::plain(&decoded.data_type)?;
        Ok(whole(decoded.byte_size()?))
    }

    fn decode(&self, bytes: &[u8], decoded: &Repr) -> Result<Buffer> {
        super::output::justified(decoded.byte_size()?, bytes.len(), EXPANSION)?;
        let out = self.elements(bytes, decoded.count()?)?;
        Ok(Buffer::fixed(number::cast(&out, &self.data_type, &decoded.data_type)?))
    }

    fn encode(&self, _: &Buffer, _: &Repr) -> Result<Vec<u8>> {
        Err(Error::unsupported("zaro does not write GRIB messages"))
    }
}
