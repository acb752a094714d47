//! MD5 of several messages in parallel SIMD lanes.
//!
//! Each step of MD5 depends on the previous one, so a single message leaves a core mostly waiting. Eight at once, four
//! per register if the compiler vectorizes, give several times the throughput. Used for short files, the most frequent.

use md5::{Digest as _, Md5};

/// The MD5s of all messages, in their order.
pub(crate) fn md5_all(messages: &[&[u8]]) -> Vec<[u8; 16]> {
    let mut out = vec![[0; 16]; messages.len()];
    let mut order: Vec<usize> = (0..messages.len()).collect();
    let length = |i: &usize| messages.get(*i).map_or(0, |m| m.len());
    order.sort_by_key(|i| std::cmp::Reverse(length(i)));
    let mut rest = order.as_slice();
    while let [longest, others @ ..] = rest {
        let group = rest.get(..rest.len().min(wide::LANES)).unwrap_or_default();
        let (taken, digests) = if is_worth_it(group.iter().map(length)) {
            let together: Vec<&[u8]> = group.iter().filter_map(|i| messages.get(*i)).copied().collect();
            (group, wide::md5_all(&together))
        } else {
            let alone = messages.get(*longest).map(|m| Md5::digest(m).into());
            (std::slice::from_ref(longest), alone.into_iter().collect())
        };
        for (i, digest) in taken.iter().zip(digests) {
            if let Some(place) = out.get_mut(*i) {
                *place = digest;
            }
        }
        rest = if taken.len() > 1 { rest.get(taken.len()..).unwrap_or_default() } else { others };
    }
    out
}

/// Whether lengths, the longest first, are similar enough: idle lanes cost as much as busy ones, and a single message
/// is faster alone than in eight lanes. Lanes are vectorized only in optimized builds.
fn is_worth_it(mut lengths: impl ExactSizeIterator<Item = usize> + Clone) -> bool {
    let total: usize = lengths.clone().sum();
    let longest = lengths.next().unwrap_or(0);
    !cfg!(debug_assertions) && lengths.len() > 3 && total / 6 >= longest
}

mod wide {
    use crate::num::u64_of;

    /// How many messages at once: two registers of four.
    pub(super) const LANES: usize = 8;

    /// The four words of the state, each of all messages.
    type State = [[u32; LANES]; 4];

    const START: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];

    /// A block of a message.
    type Block = [u8; 64];

    /// A message that is being hashed.
    #[derive(Clone, Copy)]
    struct Lane<'m> {
        /// Its index among all messages.
        index: usize,
        /// Its remaining full blocks.
        blocks: &'m [Block],
        /// Where the last blocks, which end with its length, begin and end within `tails`.
        at: usize,
        end: usize,
    }

    /// The last blocks of each message.
    type Tails = [[Block; 2]; LANES];

    pub(super) fn md5_all(messages: &[&[u8]]) -> Vec<[u8; 16]> {
        let mut out = vec![[0; 16]; messages.len()];
        let mut waiting = messages.iter().enumerate();
        let mut lanes: [Option<Lane<'_>>; LANES] = [None; LANES];
        let mut tails: Tails = [[[0; 64]; 2]; LANES];
        let mut state: State = [[0; LANES]; 4];
        loop {
            for (i, (lane, tail)) in lanes.iter_mut().zip(&mut tails).enumerate() {
                if lane.is_none()
                    && let Some((index, message)) = waiting.next()
                {
                    let (blocks, rest) = message.as_chunks::<64>();
                    let end = finish(tail, rest, message.len());
                    *lane = Some(Lane { index, blocks, at: 0, end });
                    set(&mut state, i, START);
                }
            }
            // As far as all go together.
            let left = |l: &Lane<'_>| if l.blocks.is_empty() { l.end - l.at } else { l.blocks.len() };
            let Some(count) = lanes.iter().flatten().map(left).min() else { return out };
            let mut parts: [&[Block]; LANES] = [&[]; LANES];
            let mut any: &[Block] = &[];
            for (part, (lane, tail)) in parts.iter_mut().zip(lanes.iter().zip(&tails)) {
                if let Some(lane) = lane {
                    let from = if lane.blocks.is_empty() { tail.get(lane.at..) } else { Some(lane.blocks) };
                    *part = from.and_then(|f| f.get(..count)).unwrap_or_default();
                    any = part;
                }
            }
            // An idle lane hashes what another does, for nothing.
            for part in parts.iter_mut().filter(|p| p.is_empty()) {
                *part = any;
            }
            run(&mut state, &parts);
            for (i, lane) in lanes.iter_mut().enumerate() {
                let Some(l) = lane else { continue };
                if l.blocks.is_empty() {
                    l.at += count;
                } else {
                    l.blocks = l.blocks.get(count..).unwrap_or_default();
                }
                if l.blocks.is_empty() && l.at == l.end {
                    if let Some(place) = out.get_mut(l.index) {
                        *place = get(&state, i);
                    }
                    *lane = None;
                }
            }
        }
    }

    /// The last blocks of a message of `length` bytes that ends with `rest`: how many there are.
    fn finish(tail: &mut [Block; 2], rest: &[u8], length: usize) -> usize {
        *tail = [[0; 64]; 2];
        let bits = u64_of(length).wrapping_mul(8).to_le_bytes();
        let count = if rest.len() < 56 { 1 } else { 2 };
        let bytes = tail.as_flattened_mut();
        for (to, from) in bytes.iter_mut().zip(rest.iter().chain([&0x80])) {
            *to = *from;
        }
        for (to, from) in bytes.iter_mut().skip(count * 64 - 8).zip(bits) {
            *to = from;
        }
        count
    }

    fn set(state: &mut State, lane: usize, words: [u32; 4]) {
        for (row, word) in state.iter_mut().zip(words) {
            if let Some(place) = row.get_mut(lane) {
                *place = word;
            }
        }
    }

    fn get(state: &State, lane: usize) -> [u8; 16] {
        let mut out = [0; 16];
        let (places, _) = out.as_chunks_mut::<4>();
        for (place, row) in places.iter_mut().zip(state) {
            *place = row.get(lane).copied().unwrap_or_default().to_le_bytes();
        }
        out
    }

    /// The same word of eight messages, two SIMD registers.
    type Wide = [u32; LANES];

    /// `f` of each lane.
    #[inline(always)]
    fn each(a: Wide, b: Wide, f: impl Fn(u32, u32) -> u32) -> Wide {
        let mut out = a;
        for (x, y) in out.iter_mut().zip(b) {
            *x = f(*x, y);
        }
        out
    }

    #[inline(always)]
    fn add(a: Wide, b: Wide) -> Wide {
        each(a, b, u32::wrapping_add)
    }

    #[inline(always)]
    fn choose(b: Wide, c: Wide, d: Wide) -> Wide {
        each(d, each(b, each(c, d, |c, d| c ^ d), |b, x| b & x), |d, x| d ^ x)
    }

    #[inline(always)]
    fn choose_back(b: Wide, c: Wide, d: Wide) -> Wide {
        each(each(d, b, |d, b| d & b), each(d, c, |d, c| !d & c), |x, y| x | y)
    }

    #[inline(always)]
    fn parity(b: Wide, c: Wide, d: Wide) -> Wide {
        each(each(b, c, |b, c| b ^ c), d, |x, d| x ^ d)
    }

    #[inline(always)]
    fn odd(b: Wide, c: Wide, d: Wide) -> Wide {
        each(c, each(b, d, |b, d| b | !d), |c, x| c ^ x)
    }

    /// Hashes all blocks of the parts, which have equal length, into the state.
    fn run(state: &mut State, parts: &[&[Block]; LANES]) {
        let mut words = *state;
        let [p0, p1, p2, p3, p4, p5, p6, p7] = parts;
        let blocks = p0.iter().zip(*p1).zip(*p2).zip(*p3).zip(*p4).zip(*p5).zip(*p6).zip(*p7);
        for (((((((b0, b1), b2), b3), b4), b5), b6), b7) in blocks {
            compress(&mut words, [b0, b1, b2, b3, b4, b5, b6, b7]);
        }
        *state = words;
    }

    #[inline(always)]
    fn compress(state: &mut [Wide; 4], blocks: [&Block; LANES]) {
        let word = |i: usize| {
            let of = |b: &Block| u32::from_le_bytes(b.as_chunks::<4>().0.get(i).copied().unwrap_or_default());
            blocks.map(of)
        };
        let m: [Wide; 16] = std::array::from_fn(word);
        let [mut a, mut b, mut c, mut d] = *state;
        macro_rules! step {
            ($f:ident, $a:ident, $b:ident, $c:ident, $d:ident, $i:literal, $s:literal, $r:literal, $k:literal) => {
                let x = add(add($a, m[$i]), add([$k; LANES], $f($b, $c, $d)));
                $a = add(each(x, x, |x, y| x << $s | y >> $r), $b);
            };
        }
        step!(choose, a, b, c, d, 0, 7, 25, 0xd76aa478);
        step!(choose, d, a, b, c, 1, 12, 20, 0xe8c7b756);
        step!(choose, c, d, a, b, 2, 17, 15, 0x242070db);
        step!(choose, b, c, d, a, 3, 22, 10, 0xc1bdceee);
        step!(choose, a, b, c, d, 4, 7, 25, 0xf57c0faf);
        step!(choose, d, a, b, c, 5, 12, 20, 0x4787c62a);
        step!(choose, c, d, a, b, 6, 17, 15, 0xa8304613);
        step!(choose, b, c, d, a, 7, 22, 10, 0xfd469501);
        step!(choose, a, b, c, d, 8, 7, 25, 0x698098d8);
        step!(choose, d, a, b, c, 9, 12, 20, 0x8b44f7af);
        step!(choose, c, d, a, b, 10, 17, 15, 0xffff5bb1);
        step!(choose, b, c, d, a, 11, 22, 10, 0x895cd7be);
        step!(choose, a, b, c, d, 12, 7, 25, 0x6b901122);
        step!(choose, d, a, b, c, 13, 12, 20, 0xfd987193);
        step!(choose, c, d, a, b, 14, 17, 15, 0xa679438e);
        step!(choose, b, c, d, a, 15, 22, 10, 0x49b40821);
        step!(choose_back, a, b, c, d, 1, 5, 27, 0xf61e2562);
        step!(choose_back, d, a, b, c, 6, 9, 23, 0xc040b340);
        step!(choose_back, c, d, a, b, 11, 14, 18, 0x265e5a51);
        step!(choose_back, b, c, d, a, 0, 20, 12, 0xe9b6c7aa);
        step!(choose_back, a, b, c, d, 5, 5, 27, 0xd62f105d);
        step!(choose_back, d, a, b, c, 10, 9, 23, 0x02441453);
        step!(choose_back, c, d, a, b, 15, 14, 18, 0xd8a1e681);
        step!(choose_back, b, c, d, a, 4, 20, 12, 0xe7d3fbc8);
        step!(choose_back, a, b, c, d, 9, 5, 27, 0x21e1cde6);
        step!(choose_back, d, a, b, c, 14, 9, 23, 0xc33707d6);
        step!(choose_back, c, d, a, b, 3, 14, 18, 0xf4d50d87);
        step!(choose_back, b, c, d, a, 8, 20, 12, 0x455a14ed);
        step!(choose_back, a, b, c, d, 13, 5, 27, 0xa9e3e905);
        step!(choose_back, d, a, b, c, 2, 9, 23, 0xfcefa3f8);
        step!(choose_back, c, d, a, b, 7, 14, 18, 0x676f02d9);
        step!(choose_back, b, c, d, a, 12, 20, 12, 0x8d2a4c8a);
        step!(parity, a, b, c, d, 5, 4, 28, 0xfffa3942);
        step!(parity, d, a, b, c, 8, 11, 21, 0x8771f681);
        step!(parity, c, d, a, b, 11, 16, 16, 0x6d9d6122);
        step!(parity, b, c, d, a, 14, 23, 9, 0xfde5380c);
        step!(parity, a, b, c, d, 1, 4, 28, 0xa4beea44);
        step!(parity, d, a, b, c, 4, 11, 21, 0x4bdecfa9);
        step!(parity, c, d, a, b, 7, 16, 16, 0xf6bb4b60);
        step!(parity, b, c, d, a, 10, 23, 9, 0xbebfbc70);
        step!(parity, a, b, c, d, 13, 4, 28, 0x289b7ec6);
        step!(parity, d, a, b, c, 0, 11, 21, 0xeaa127fa);
        step!(parity, c, d, a, b, 3, 16, 16, 0xd4ef3085);
        step!(parity, b, c, d, a, 6, 23, 9, 0x04881d05);
        step!(parity, a, b, c, d, 9, 4, 28, 0xd9d4d039);
        step!(parity, d, a, b, c, 12, 11, 21, 0xe6db99e5);
        step!(parity, c, d, a, b, 15, 16, 16, 0x1fa27cf8);
        step!(parity, b, c, d, a, 2, 23, 9, 0xc4ac5665);
        step!(odd, a, b, c, d, 0, 6, 26, 0xf4292244);
        step!(odd, d, a, b, c, 7, 10, 22, 0x432aff97);
        step!(odd, c, d, a, b, 14, 15, 17, 0xab9423a7);
        step!(odd, b, c, d, a, 5, 21, 11, 0xfc93a039);
        step!(odd, a, b, c, d, 12, 6, 26, 0x655b59c3);
        step!(odd, d, a, b, c, 3, 10, 22, 0x8f0ccc92);
        step!(odd, c, d, a, b, 10, 15, 17, 0xffeff47d);
        step!(odd, b, c, d, a, 1, 21, 11, 0x85845dd1);
        step!(odd, a, b, c, d, 8, 6, 26, 0x6fa87e4f);
        step!(odd, d, a, b, c, 15, 10, 22, 0xfe2ce6e0);
        step!(odd, c, d, a, b, 6, 15, 17, 0xa3014314);
        step!(odd, b, c, d, a, 13, 21, 11, 0x4e0811a1);
        step!(odd, a, b, c, d, 4, 6, 26, 0xf7537e82);
        step!(odd, d, a, b, c, 11, 10, 22, 0xbd3af235);
        step!(odd, c, d, a, b, 2, 15, 17, 0x2ad7d2bb);
        step!(odd, b, c, d, a, 9, 21, 11, 0xeb86d391);
        let [sa, sb, sc, sd] = *state;
        *state = [add(sa, a), add(sb, b), add(sc, c), add(sd, d)];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_that_are_alike() {
        let worth = |lengths: &[usize]| is_worth_it(lengths.iter().copied());
        assert_eq!(worth(&[100; 8]), !cfg!(debug_assertions));
        assert!(!worth(&[100, 1, 1, 1, 1, 1, 1, 1]) && !worth(&[100; 3]) && !worth(&[]) && !worth(&[0; 3]));
    }

    #[test]
    fn many_are_as_each_alone() {
        // Every length around the borders of blocks, and mixed so that lanes end at different times.
        let bytes: Vec<u8> = (0..5000u32).map(|i| u8::try_from(i * i % 251).unwrap()).collect();
        let mut lengths: Vec<usize> = (0..260).collect();
        lengths.extend([5000, 0, 1, 4096, 64, 128, 4999, 55, 56, 63, 65, 119, 120]);
        for take in [0, 1, 2, 3, 7, 8, 9, 16, lengths.len()] {
            for skip in [0, 5] {
                let messages: Vec<&[u8]> =
                    lengths.iter().rev().skip(skip).take(take).filter_map(|n| bytes.get(..*n)).collect();
                let wanted: Vec<[u8; 16]> = messages.iter().map(|m| Md5::digest(m).into()).collect();
                assert_eq!(wide::md5_all(&messages), wanted);
                assert_eq!(md5_all(&messages), wanted);
            }
        }
    }
}
