//! The keys of chunks.

use std::fmt::Write;

/// How the key of a chunk is made of its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkKeys {
    /// V3's `default`: a leading `c`. Else V2's form: the numbers alone, `0` for a scalar.
    pub prefixed: bool,
    /// `/` or `.`
    pub separator: char,
}

impl ChunkKeys {
    /// The key of chunk `index` below the node `node` (its key form), written over `out`.
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
    }
}
