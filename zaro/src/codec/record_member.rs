//! `record_member`: extracts one field of records, as in kerchunk references to tables.
//!
//! V2: `{"id": "record_member", "member": "x", "dtype": [["t", ">f8"], ["x", "<f4"]]}`. The chunk holds whole records;
//! decoding picks one field of each, as its bytes are. There is no way back.

use super::config::Config;
use super::{BytesToBytes, OutputSize};
use crate::error::{Error, Result, invalid};
use crate::meta::dtype::DataType;
use crate::meta::typestr;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RecordMember {
    record: usize,
    offset: usize,
    width: usize,
}

impl RecordMember {
    pub(super) fn from_config(config: &Config<'_>) -> Result<Self> {
        let dtype = typestr::parse_config(config.need("dtype")?).map_err(|e| e.with_field("dtype"))?;
        config.need("member")?;
        let member = config.str("member")?.unwrap_or_default();
        let DataType::Struct(fields) = dtype.fixed()? else {
            return Err(Error::invalid("\"dtype\" must be a list of fields").with_field("dtype"));
        };
        let field = fields.iter().find(|f| f.name == member);
        let field = field.ok_or_else(|| invalid!("there is no field {member:?}").with_field("member"))?;
        let (record, width) = (dtype.fixed()?.size(), field.data_type.size());
        if width == 0 {
            return Err(invalid!("the field {member:?} has no bytes").with_field("dtype"));
        }
        Ok(Self { record, offset: field.offset, width })
    }
}

impl BytesToBytes for RecordMember {
    fn name(&self) -> &'static str {
        "record_member"
    }

    fn encoded_size(&self, decoded: OutputSize) -> Result<OutputSize> {
        if let OutputSize::Exact(n) = decoded
            && !n.is_multiple_of(self.width)
        {
            return Err(invalid!("{n} bytes are not a multiple of the field's {}", self.width));
        }
        Ok(decoded.map(|n| (n / self.width).saturating_mul(self.record)))
    }

    fn decode(&self, bytes: &[u8], size: OutputSize) -> Result<Vec<u8>> {
        if !bytes.len().is_multiple_of(self.record) {
            return Err(invalid!(
                "{} bytes are not a multiple of the record size {}",
                bytes.len(),
                self.record
            ));
        }
        size.check(bytes.len() / self.record * self.width)?;
        let of =
            |record: &[u8]| record.get(self.offset..self.offset + self.width).unwrap_or_default().to_vec();
        Ok(bytes.chunks_exact(self.record).flat_map(of).collect())
    }

    fn encode(&self, _: &[u8]) -> Result<Vec<u8>> {
        Err(Error::unsupported("a field of records cannot be written by itself"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::bytes;
    use super::*;

    #[test]
    fn a_field_of_each_record_is_picked() {
        let config = r#"{"member": "x", "dtype": [["t", "|S3"], ["x", ">u2", [2]], ["y", "|i1"]]}"#;
        let (c, records) = (bytes("record_member", config), b"abc1234-def5678+");
        assert_eq!(c.decode(records, OutputSize::Exact(8)).unwrap(), b"12345678");
        assert_eq!(c.encoded_size(OutputSize::Exact(8)).unwrap(), OutputSize::Exact(16));
        assert!(c.decode(records, OutputSize::Exact(4)).is_err());
        assert!(c.decode(&records[..15], OutputSize::AtMost(8)).is_err());
        assert!(c.encoded_size(OutputSize::Exact(7)).is_err());
        assert!(c.encode(b"1234").is_err());
    }
}
