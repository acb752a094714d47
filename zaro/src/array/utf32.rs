//! Detects invalid UTF-32 text.

use crate::meta::DataType;

/// The number of texts in `bytes`, the little-endian elements of a fixed-size type, with an invalid code point, such as
/// half of a surrogate pair. Fields of structs are included.
#[must_use]
pub fn invalid_utf32(data_type: &DataType, bytes: &[u8]) -> u64 {
    if !has_text(data_type) {
        return 0;
    }
    bytes.chunks_exact(data_type.size().max(1)).map(|element| in_element(data_type, element)).sum()
}

fn in_element(data_type: &DataType, element: &[u8]) -> u64 {
    match data_type {
        DataType::FixedUtf32(_) => {
            let (codes, _) = element.as_chunks::<4>();
            u64::from(codes.iter().any(|c| char::from_u32(u32::from_le_bytes(*c)).is_none()))
        }
        DataType::Struct(fields) => {
            let of_field = |offset: usize, t: &DataType| {
                let end = offset.saturating_add(t.size());
                invalid_utf32(t, element.get(offset..end).unwrap_or_default())
            };
            fields.iter().map(|f| of_field(f.offset, &f.data_type)).sum()
        }
        DataType::SubArray(item, _) => invalid_utf32(item, element),
        _ => 0,
    }
}

fn has_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::FixedUtf32(_) => true,
        DataType::Struct(fields) => fields.iter().any(|f| has_text(&f.data_type)),
        DataType::SubArray(item, _) => has_text(item),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_texts_are_found_in_structs_too() {
        let text = DataType::FixedUtf32(2);
        let odd = [0x41, 0, 0, 0, 0, 0xd8, 0, 0];
        assert_eq!(invalid_utf32(&text, &odd), 1);
        assert_eq!(invalid_utf32(&text, &[0x41, 0, 0, 0, 0xff, 0xff, 1, 0]), 0);
        let pair = DataType::SubArray(text.into(), [2].into());
        let t = DataType::structure([("n".to_owned(), DataType::UINT8), ("t".to_owned(), pair)]);
        let element = [&[9][..], &odd, &odd].concat();
        assert_eq!(invalid_utf32(&t, &element.repeat(3)), 6);
        assert_eq!(invalid_utf32(&DataType::UINT8, &odd), 0);
    }
}
