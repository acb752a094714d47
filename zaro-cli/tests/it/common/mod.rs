//! What every test needs: small stores written by hand, and the built binary.
#![allow(dead_code, reason = "no test uses all of it")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "these are tests")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// A folder that goes away with the test.
pub(crate) struct Store {
    dir: TempDir,
}

impl Store {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a temporary folder") }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Writes the object behind `key`.
    pub(crate) fn put(&self, key: &str, bytes: impl AsRef<[u8]>) -> &Self {
        let path = self.dir.path().join(key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
        self
    }

    /// Writes a V3 group.
    pub(crate) fn group(&self, node: &str) -> &Self {
        self.put(&join(node, "zarr.json"), r#"{"zarr_format":3,"node_type":"group"}"#)
    }

    /// Writes a V3 array of one uncompressed chunk. `extra` is more members, each with a comma before it.
    pub(crate) fn array(
        &self,
        node: &str,
        shape: &[u64],
        data_type: &str,
        fill: &str,
        extra: &str,
        chunk: &[u8],
    ) -> &Self {
        // An earlier array of another rank may be in the way.
        let chunks = self.dir.path().join(join(node, "c"));
        let _ = std::fs::remove_dir_all(&chunks);
        let _ = std::fs::remove_file(&chunks);
        self.put(&join(node, "zarr.json"), v3_document(shape, shape, data_type, fill, extra));
        let zeros = vec!["0"; shape.len()].join("/");
        let key = if shape.is_empty() { "c".to_owned() } else { format!("c/{zeros}") };
        self.put(&join(node, &key), chunk)
    }

    /// Runs `zaro` with this folder where an argument says `@`, or begins with `@:`.
    pub(crate) fn zaro(&self, args: &[&str]) -> Run {
        let here = self.dir.path().to_str().unwrap();
        let word = |a: &&str| match a.strip_prefix("@:") {
            Some(rest) => format!("{here}{rest}"),
            None if *a == "@" => here.to_owned(),
            None => (*a).to_owned(),
        };
        let words: Vec<String> = args.iter().map(word).collect();
        zaro(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

/// An image that another program wrote.
pub(crate) fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../zaro/testdata/images").join(name)
}

/// All files below a folder, with their content.
pub(crate) fn tree(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut out = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(at) = open.pop() {
        for entry in std::fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
                out.push((name, std::fs::read(&path).unwrap_or_default()));
            }
        }
    }
    out.sort();
    out
}

/// Copies a folder with all in it.
pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn join(node: &str, key: &str) -> String {
    if node.is_empty() { key.to_owned() } else { format!("{node}/{key}") }
}

pub(crate) fn v3_document(shape: &[u64], chunks: &[u64], data_type: &str, fill: &str, extra: &str) -> String {
    let data_type = if data_type.starts_with('{') { data_type.to_owned() } else { format!("{data_type:?}") };
    let bytes = match data_type.as_str() {
        "\"uint8\"" | "\"int8\"" | "\"bool\"" => r#"{"name":"bytes"}"#,
        "\"string\"" => r#"{"name":"vlen-utf8"}"#,
        _ => r#"{"name":"bytes","configuration":{"endian":"little"}}"#,
    };
    format!(
        r#"{{"zarr_format":3,"node_type":"array","shape":{shape:?},"data_type":{data_type},
        "chunk_grid":{{"name":"regular","configuration":{{"chunk_shape":{chunks:?}}}}},
        "chunk_key_encoding":{{"name":"default","configuration":{{"separator":"/"}}}},
        "fill_value":{fill},"codecs":[{bytes}]{extra}}}"#
    )
}

/// A V2 array's `.zarray`.
pub(crate) fn v2_document(shape: &[u64], dtype: &str, fill: &str) -> String {
    format!(
        r#"{{"zarr_format":2,"shape":{shape:?},"chunks":{shape:?},"dtype":{dtype},"compressor":null,
        "fill_value":{fill},"order":"C","filters":null}}"#
    )
}

/// How a run of `zaro` ended.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
}

impl Run {
    /// Standard output as text; the run must have ended well.
    pub(crate) fn text(self) -> String {
        assert_eq!(self.code, 0, "{}", self.err);
        String::from_utf8(self.out).expect("text")
    }

    /// The run must have ended with this code, and a message that says so.
    pub(crate) fn fails(self, code: i32, message: &str) {
        assert_eq!(self.code, code, "{}", self.err);
        assert!(self.err.contains(message), "{message:?} in {}", self.err);
    }
}

/// Runs `zaro` with something on its standard input.
pub(crate) fn zaro_with(args: &[&str], input: &[u8]) -> Run {
    let mut child = Command::new(env!("CARGO_BIN_EXE_zaro"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("zaro runs");
    // It may have ended before it read everything.
    let _ = child.stdin.take().unwrap().write_all(input);
    let Output { status, stdout, stderr } = child.wait_with_output().expect("zaro ends");
    Run {
        code: status.code().expect("no signal"),
        out: stdout,
        err: String::from_utf8_lossy(&stderr).into_owned(),
    }
}

/// A numpy file.
pub(crate) fn npy(descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    let header = format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n");
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend(u16::try_from(header.len()).unwrap().to_le_bytes());
    out.extend(header.as_bytes());
    out.extend(data);
    out
}

/// Runs `zaro`.
pub(crate) fn zaro(args: &[&str]) -> Run {
    let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_zaro"))
        .args(args)
        .env_remove("NO_COLOR")
        .output()
        .expect("zaro runs");
    Run {
        code: status.code().expect("no signal"),
        out: stdout,
        err: String::from_utf8_lossy(&stderr).into_owned(),
    }
}

/// Little-endian bytes of numbers.
pub(crate) fn f32s(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Little-endian bytes of numbers.
pub(crate) fn f64s(numbers: &[f64]) -> Vec<u8> {
    numbers.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Little-endian bytes of numbers.
pub(crate) fn i16s(numbers: &[i16]) -> Vec<u8> {
    numbers.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Little-endian bytes of numbers.
pub(crate) fn i64s(numbers: &[i64]) -> Vec<u8> {
    numbers.iter().flat_map(|x| x.to_le_bytes()).collect()
}
