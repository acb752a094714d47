//! Bob Jenkins' lookup3 hash (its `hashlittle`), which HDF5 uses for its metadata.

/// The hash of `data`, starting from `initval`.
pub(crate) fn lookup3(data: &[u8], initval: u32) -> u32 {
    // The length enters modulo 2^32, as in the original.
    let length = u32::try_from(data.len() & 0xffff_ffff).unwrap_or(0);
    let start = 0xdead_beef_u32.wrapping_add(length).wrapping_add(initval);
    let mut s = [start; 3];
    // The last group, of 1 to 12 bytes, is mixed differently, so a full one is not taken here.
    let mut rest = data;
    while rest.len() > 12 {
        let Some((group, more)) = rest.split_first_chunk::<12>() else { break };
        add(&mut s, group);
        mix(&mut s);
        rest = more;
    }
    if !rest.is_empty() {
        let mut group = [0; 12];
        group.iter_mut().zip(rest).for_each(|(g, r)| *g = *r);
        add(&mut s, &group);
        finish(&mut s);
    }
    s[2]
}

/// Adds 12 bytes as three little-endian words.
fn add(s: &mut [u32; 3], group: &[u8; 12]) {
    for (s, word) in s.iter_mut().zip(group.as_chunks::<4>().0) {
        *s = s.wrapping_add(u32::from_le_bytes(*word));
    }
}

fn mix([a, b, c]: &mut [u32; 3]) {
    let step = |x: &mut u32, y: &mut u32, z: u32, turn: u32| {
        *x = x.wrapping_sub(*y) ^ y.rotate_left(turn);
        *y = y.wrapping_add(z);
    };
    step(a, c, *b, 4);
    step(b, a, *c, 6);
    step(c, b, *a, 8);
    step(a, c, *b, 16);
    step(b, a, *c, 19);
    step(c, b, *a, 4);
}

fn finish([a, b, c]: &mut [u32; 3]) {
    let step = |x: &mut u32, y: u32, turn: u32| *x = (*x ^ y).wrapping_sub(y.rotate_left(turn));
    step(c, *b, 14);
    step(a, *c, 11);
    step(b, *a, 25);
    step(c, *b, 16);
    step(a, *c, 4);
    step(b, *a, 14);
    step(c, *b, 24);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_all_group_lengths() {
        let count: Vec<u8> = (0..24).collect();
        for (data, hash) in [
            (&b""[..], 0xdead_beef),
            (b"x", 0xfaac_85a7),
            (b"123456789012", 0xb578_f5b0),
            (b"1234567890123", 0xde86_d9f5),
            (&count, 0x9c0a_dd53),
        ] {
            assert_eq!(lookup3(data, 0), hash, "{data:?}");
        }
    }
}
