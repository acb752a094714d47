//! What the fuzz targets share: the start, where seeds go, and stores made of fuzzed bytes.

pub mod array;
pub mod cases;
pub mod documents;

use std::io::Write;
use std::path::{Path, PathBuf};

/// A seed: its name, and the input a target gets.
pub type Seed = (String, Vec<u8>);

/// Prepares a target. With `ZARO_SEEDS=FOLDER` set it writes the target's seeds there and ends instead.
///
/// libFuzzer's own panic hook ends the process before anything can catch the panic. Some code is allowed to catch
/// one (the pco library panics on some damage, and the codec turns that into an error), so panics unwind here; those
/// that nobody catches still end the process, in `libfuzzer-sys`.
pub fn start(seeds: impl FnOnce() -> Vec<Seed>) {
    std::panic::set_hook(Box::new(|info| {
        let text = info.to_string();
        // Caught by the codec; it would fill the log.
        if !text.contains("/pco-") {
            let _ = writeln!(std::io::stderr(), "{text}\n{}", std::backtrace::Backtrace::force_capture());
        }
    }));
    let Some(folder) = std::env::var_os("ZARO_SEEDS") else { return };
    let written = write(Path::new(&folder), seeds());
    match written {
        Ok(n) => println!("{n} seeds"),
        Err(e) => eprintln!("no seeds: {e}"),
    }
    std::process::exit(0);
}

fn write(folder: &Path, seeds: Vec<Seed>) -> std::io::Result<usize> {
    std::fs::create_dir_all(folder)?;
    for (name, bytes) in &seeds {
        std::fs::write(folder.join(name), bytes)?;
    }
    Ok(seeds.len())
}

/// The root of the repository, whose conformance stores are seeds too.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Numbers that look random, the same in every run.
pub struct Noise(pub u64);

impl Noise {
    /// The next one.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    /// `n` bytes that compress a little: small values that wander.
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        let mut at = 100u8;
        (0..n)
            .map(|_| {
                at = at.wrapping_add(u8::try_from(self.next() % 5).unwrap_or(0)).wrapping_sub(2);
                at
            })
            .collect()
    }
}
