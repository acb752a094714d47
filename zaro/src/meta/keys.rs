//! Chunk key encodings: from chunk index to key and back.

use std::fmt::Write;

/// A chunk key encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkKeys {
    /// V3's `default`: a leading `c`. Else V2's form: only the numbers, `0` for a scalar.
    pub prefixed: bool,
    /// `/` or `.`
    pub separator: char,
}

impl ChunkKeys {
    /// Replaces `out` with the key of chunk `index` below the node `node` (a normalized path).
    pub fn write(&self, node: &str, index: &[u64], out: &mut String) {
        out.clear();
        out.push_str(node);
        if !node.is_empty() {
            out.push('/');
        }
        if self.prefixed {
            out.push('c');
        } else if index.is_empty() {
            out.push('0');
        }
        for (i, n) in index.iter().enumerate() {
            if self.prefixed || i > 0 {
                out.push(self.separator);
            }
            // Writing to a string cannot fail.
            let _ = write!(out, "{n}");
        }
    }

    /// The key of chunk `index` below `node`.
    #[must_use]
    pub fn key(&self, node: &str, index: &[u64]) -> String {
        let mut out = String::new();
        self.write(node, index, &mut out);
        out
    }

    /// The index of the chunk whose key below its node is `key`, if it is the key of one.
    #[must_use]
    pub fn index(&self, key: &str, rank: usize) -> Option<Vec<u64>> {
        let numbers = match (self.prefixed, rank) {
            (true, 0) => return (key == "c").then(Vec::new),
            (false, 0) => return (key == "0").then(Vec::new),
            (true, _) => key.strip_prefix('c')?.strip_prefix(self.separator)?,
            (false, _) => key,
        };
        let index: Vec<u64> = numbers.split(self.separator).map(|n| n.parse().ok()).collect::<Option<_>>()?;
        // `01` and `+1` are numbers, but no keys.
        (index.len() == rank && self.key("", &index) == key).then_some(index)
    }

    /// The same encoding with the other separator.
    #[must_use]
    pub fn other_separator(self) -> Self {
        Self { separator: if self.separator == '/' { '.' } else { '/' }, ..self }
    }

    /// The V3 name of the encoding.
    #[must_use]
    pub fn name(&self) -> &'static str {
        if self.prefixed { "default" } else { "v2" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_follow_both_encodings() {
        let default = ChunkKeys { prefixed: true, separator: '/' };
        let v2 = ChunkKeys { prefixed: false, separator: '.' };
        assert_eq!(default.key("", &[1, 2]), "c/1/2");
        assert_eq!(default.key("a/b", &[]), "a/b/c");
        assert_eq!(v2.key("a", &[1, 2]), "a/1.2");
        assert_eq!(v2.key("", &[]), "0");
        assert_eq!(default.index("c/1/2", 2), Some(vec![1, 2]));
        assert_eq!(default.index("c", 0), Some(vec![]));
        assert_eq!(v2.index("1.2", 2), Some(vec![1, 2]));
        for (keys, key, rank) in
            [(default, "c/1", 2), (default, "c/01/2", 2), (v2, "1.+2", 2), (v2, ".zarray", 1), (v2, "1", 0)]
        {
            assert_eq!(keys.index(key, rank), None, "{key}");
        }
    }
}
