//! The only file with `unsafe`: R's memory and R's functions.
//!
//! Why it is sound:
//!
//! * R's API is used on R's own thread only. [`call`] is entered there; [`Kept`] and [`Function`] are used there: worker
//!   threads get plain Rust values, or the bytes of a vector that R's thread keeps alive while they run.
//! * An R error is a jump. Whatever can jump (allocation, evaluation, translation of text) runs inside [`protect`],
//!   which stops the jump in C; the closures given to it own nothing that would have to be dropped.
//! * Vectors made here are registered with R ([`Kept`]) until they are part of a result, so the garbage collector leaves
//!   them alone.
//! * A Rust panic is caught before it would reach C.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use crate::value::{NA_INT, Value};

#[repr(C)]
pub(crate) struct Opaque([u8; 0]);
type Sexp = *mut Opaque;

unsafe extern "C" {
    static R_NilValue: Sexp;
    static R_NaString: Sexp;
    static R_NamesSymbol: Sexp;
    static R_GlobalEnv: Sexp;
    fn TYPEOF(x: Sexp) -> c_int;
    fn Rf_xlength(x: Sexp) -> isize;
    fn Rf_allocVector(kind: u32, n: isize) -> Sexp;
    fn Rf_protect(x: Sexp) -> Sexp;
    fn Rf_unprotect(n: c_int);
    fn R_PreserveObject(x: Sexp);
    fn R_ReleaseObject(x: Sexp);
    fn INTEGER(x: Sexp) -> *mut i32;
    fn LOGICAL(x: Sexp) -> *mut i32;
    fn REAL(x: Sexp) -> *mut f64;
    fn RAW(x: Sexp) -> *mut u8;
    fn COMPLEX(x: Sexp) -> *mut [f64; 2];
    fn STRING_ELT(x: Sexp, i: isize) -> Sexp;
    fn SET_STRING_ELT(x: Sexp, i: isize, v: Sexp);
    fn VECTOR_ELT(x: Sexp, i: isize) -> Sexp;
    fn SET_VECTOR_ELT(x: Sexp, i: isize, v: Sexp) -> Sexp;
    fn Rf_mkCharLenCE(text: *const c_char, n: c_int, encoding: c_int) -> Sexp;
    fn Rf_translateCharUTF8(x: Sexp) -> *const c_char;
    fn Rf_getAttrib(x: Sexp, name: Sexp) -> Sexp;
    fn Rf_setAttrib(x: Sexp, name: Sexp, value: Sexp) -> Sexp;
    fn Rf_install(name: *const c_char) -> Sexp;
    fn Rf_lang3(f: Sexp, a: Sexp, b: Sexp) -> Sexp;
    fn Rf_eval(call: Sexp, env: Sexp) -> Sexp;
    fn vmaxget() -> *mut c_void;
    fn vmaxset(mark: *const c_void);
    fn zaro_protect(work: extern "C-unwind" fn(*mut c_void) -> Sexp, data: *mut c_void) -> Sexp;
    fn zaro_interrupted() -> c_int;
}

const LGL: u32 = 10;
const INT: u32 = 13;
const REAL_: u32 = 14;
const CPLX: u32 = 15;
const STR: u32 = 16;
const LIST: u32 = 19;
const RAW_: u32 = 24;
const UTF8: c_int = 1;
const BYTES: c_int = 2;

/// An R error that was stopped: the token that resumes it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Jump(Sexp);

/// Runs `work`, and stops an R error in it. `work` must own nothing: a jump skips its destructors.
fn protect<F: Fn() -> Sexp>(work: &F) -> Result<Sexp, Jump> {
    extern "C-unwind" fn run<F: Fn() -> Sexp>(data: *mut c_void) -> Sexp {
        // SAFETY: `data` is the `&F` below, which outlives the call.
        unsafe { (*data.cast::<F>())() }
    }
    // SAFETY: on R's thread; a jump ends in `zaro_protect`.
    let out = unsafe { zaro_protect(run::<F>, ptr::from_ref(work).cast_mut().cast()) };
    if out.addr() & 1 == 1 { Err(Jump(out)) } else { Ok(out) }
}

/// A vector that is kept alive.
#[derive(Debug)]
pub(crate) struct Kept(Sexp);

// SAFETY: other threads only move it; it is used and dropped on R's thread, where every `Value` with one is made and
// consumed.
unsafe impl Send for Kept {}
// SAFETY: a shared reference gives access to nothing.
unsafe impl Sync for Kept {}

impl Drop for Kept {
    fn drop(&mut self) {
        // SAFETY: it was registered once.
        unsafe { R_ReleaseObject(self.0) }
    }
}

/// The kinds of vector that elements are decoded into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Logical,
    Integer,
    Double,
    Complex,
    Raw,
}

impl Kind {
    pub(crate) fn size(self) -> usize {
        match self {
            Self::Logical | Self::Integer => 4,
            Self::Double => 8,
            Self::Complex => 16,
            Self::Raw => 1,
        }
    }

    fn code(self) -> u32 {
        match self {
            Self::Logical => LGL,
            Self::Integer => INT,
            Self::Double => REAL_,
            Self::Complex => CPLX,
            Self::Raw => RAW_,
        }
    }
}

impl Kept {
    /// A new vector of `n` elements, not initialised.
    pub(crate) fn new(kind: Kind, n: usize) -> Result<Self, Jump> {
        let length = isize::try_from(n).unwrap_or(isize::MAX);
        let made = protect(&|| unsafe {
            let v = Rf_protect(Rf_allocVector(kind.code(), length));
            R_PreserveObject(v);
            Rf_unprotect(1);
            v
        })?;
        Ok(Self(made))
    }

    /// Its memory. The borrow keeps it alive, and alone.
    pub(crate) fn bytes(&mut self, kind: Kind, n: usize) -> &mut [u8] {
        let size = n.saturating_mul(kind.size());
        // SAFETY: `new` made it with this kind and length; no other reference exists, and any bits are a valid `u8`.
        unsafe {
            let at: *mut u8 = match kind {
                Kind::Logical => LOGICAL(self.0).cast(),
                Kind::Integer => INTEGER(self.0).cast(),
                Kind::Double => REAL(self.0).cast(),
                Kind::Complex => COMPLEX(self.0).cast(),
                Kind::Raw => RAW(self.0),
            };
            if n == 0 { &mut [] } else { std::slice::from_raw_parts_mut(at, size) }
        }
    }
}

/// A function of R, valid during the call it was given to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Function(Sexp);

// SAFETY: carried, not used, by other threads.
unsafe impl Send for Function {}
unsafe impl Sync for Function {}

impl Function {
    /// Calls it with two values, and ignores what it returns. An R error in it is returned.
    pub(crate) fn call(self, a: &Value, b: &Value) -> Result<(), Jump> {
        protect(&|| unsafe {
            let a = Rf_protect(build(a));
            let b = Rf_protect(build(b));
            let call = Rf_protect(Rf_lang3(self.0, a, b));
            Rf_eval(call, R_GlobalEnv);
            Rf_unprotect(3);
            R_NilValue
        })
        .map(|_| ())
    }
}

/// Whether the user pressed Ctrl-C; asking forgets it.
pub(crate) fn interrupted() -> bool {
    // SAFETY: on R's thread; it does not jump.
    unsafe { zaro_interrupted() != 0 }
}

/// The R object of a value. May jump; owns nothing.
///
/// # Safety
///
/// On R's thread, inside [`protect`].
unsafe fn build(value: &Value) -> Sexp {
    let length = |n: usize| isize::try_from(n).unwrap_or(isize::MAX);
    // SAFETY: on R's thread; each vector is protected until it is stored or returned, and indices are below its length.
    unsafe {
        match value {
            Value::Null => R_NilValue,
            Value::Logical(v) => {
                let out = Rf_allocVector(LGL, length(v.len()));
                ptr::copy_nonoverlapping(v.as_ptr(), LOGICAL(out), v.len());
                out
            }
            Value::Int(v) => {
                let out = Rf_allocVector(INT, length(v.len()));
                ptr::copy_nonoverlapping(v.as_ptr(), INTEGER(out), v.len());
                out
            }
            Value::Real(v) => {
                let out = Rf_allocVector(REAL_, length(v.len()));
                ptr::copy_nonoverlapping(v.as_ptr(), REAL(out), v.len());
                out
            }
            Value::Complex(v) => {
                let out = Rf_allocVector(CPLX, length(v.len()));
                ptr::copy_nonoverlapping(v.as_ptr(), COMPLEX(out), v.len());
                out
            }
            Value::Raw(v) => {
                let out = Rf_allocVector(RAW_, length(v.len()));
                ptr::copy_nonoverlapping(v.as_ptr(), RAW(out), v.len());
                out
            }
            Value::Text(v) => {
                let out = Rf_protect(Rf_allocVector(STR, length(v.len())));
                for (i, text) in v.iter().enumerate() {
                    SET_STRING_ELT(
                        out,
                        length(i),
                        text.as_deref().map_or(R_NaString, |t| char_of(t.as_bytes())),
                    );
                }
                Rf_unprotect(1);
                out
            }
            Value::Words(v) => {
                let out = Rf_protect(Rf_allocVector(STR, length(v.len())));
                for (i, text) in v.iter().enumerate() {
                    SET_STRING_ELT(out, length(i), char_of(text));
                }
                Rf_unprotect(1);
                out
            }
            Value::List(v) => {
                let out = Rf_protect(Rf_allocVector(LIST, length(v.len())));
                for (i, (_, item)) in v.iter().enumerate() {
                    SET_VECTOR_ELT(out, length(i), build(item));
                }
                if v.iter().any(|(name, _)| !name.is_empty()) {
                    let names = Rf_protect(Rf_allocVector(STR, length(v.len())));
                    for (i, (name, _)) in v.iter().enumerate() {
                        SET_STRING_ELT(names, length(i), char_of(name.as_bytes()));
                    }
                    Rf_setAttrib(out, R_NamesSymbol, names);
                    Rf_unprotect(1);
                }
                Rf_unprotect(1);
                out
            }
            Value::Kept(kept) => kept.0,
            Value::Function(f) => f.0,
            Value::With(inner, attributes) => {
                let out = Rf_protect(build(inner));
                for (name, item) in attributes {
                    let item = Rf_protect(build(item));
                    Rf_setAttrib(out, Rf_install(name.as_ptr()), item);
                    Rf_unprotect(1);
                }
                Rf_unprotect(1);
                out
            }
        }
    }
}

/// R's form of a text: UTF-8, or marked as bytes if it is not.
///
/// # Safety
///
/// As [`build`].
unsafe fn char_of(text: &[u8]) -> Sexp {
    let encoding = if std::str::from_utf8(text).is_ok() { UTF8 } else { BYTES };
    let n = c_int::try_from(text.len()).unwrap_or(c_int::MAX);
    // SAFETY: `n` bytes are there; a NUL among them is an R error.
    unsafe { Rf_mkCharLenCE(text.as_ptr().cast(), n, encoding) }
}

/// A copy of an argument.
fn argument(x: Sexp) -> Result<Value, Jump> {
    // SAFETY: on R's thread; arguments are protected by the caller; vectors have the length that R says.
    unsafe {
        let n = usize::try_from(Rf_xlength(x)).unwrap_or(0);
        let at = |i: usize| isize::try_from(i).unwrap_or(isize::MAX);
        Ok(match u32::try_from(TYPEOF(x)).unwrap_or(0) {
            0 => Value::Null,
            LGL => Value::Logical(copied(LOGICAL(x), n)),
            INT => Value::Int(copied(INTEGER(x), n)),
            REAL_ => Value::Real(copied(REAL(x), n)),
            CPLX => Value::Complex(copied(COMPLEX(x), n)),
            RAW_ => Value::Raw(copied(RAW(x), n)),
            STR => Value::Text((0..n).map(|i| text(STRING_ELT(x, at(i)))).collect::<Result<_, _>>()?),
            LIST => {
                let names = Rf_getAttrib(x, R_NamesSymbol);
                let name = |i: usize| match u32::try_from(TYPEOF(names)) {
                    Ok(STR) => text(STRING_ELT(names, at(i))).map(Option::unwrap_or_default),
                    _ => Ok(String::new()),
                };
                let item = |i: usize| Ok((name(i)?, argument(VECTOR_ELT(x, at(i)))?));
                Value::List((0..n).map(item).collect::<Result<_, _>>()?)
            }
            // A closure.
            3 => Value::Function(Function(x)),
            _ => Value::Null,
        })
    }
}

/// A copy of `n` elements.
///
/// # Safety
///
/// They are there.
unsafe fn copied<T: Copy>(at: *const T, n: usize) -> Vec<T> {
    // R's empty vectors have no valid address. SAFETY: the caller's promise.
    if n == 0 { Vec::new() } else { unsafe { std::slice::from_raw_parts(at, n).to_vec() } }
}

fn text(x: Sexp) -> Result<Option<String>, Jump> {
    // SAFETY: as above; the translation may jump, and its memory is R's until the mark is reset.
    unsafe {
        if x == R_NaString {
            return Ok(None);
        }
        let mark = vmaxget();
        let at = std::cell::Cell::new(ptr::null());
        protect(&|| {
            at.set(Rf_translateCharUTF8(x));
            R_NilValue
        })?;
        let out = std::ffi::CStr::from_ptr(at.get()).to_string_lossy().into_owned();
        vmaxset(mark);
        Ok(Some(out))
    }
}

/// What a call ends with, besides a value.
pub(crate) enum Ended {
    /// An R error.
    Jumped(Jump),
    /// The user's interrupt; the value is for the case that R does not act on it.
    Interrupted(Value),
}

impl From<Jump> for Ended {
    fn from(jump: Jump) -> Self {
        Self::Jumped(jump)
    }
}

/// The entry from C: a name, and a list of arguments.
///
/// # Safety
///
/// On R's thread, with two R objects that stay protected, and a valid pointer.
#[unsafe(no_mangle)]
unsafe extern "C" fn zaro_r_call(op: Sexp, args: Sexp, stopped: *mut c_int) -> Sexp {
    let run = || -> Result<Value, Ended> {
        let (op, args) = (argument(op)?, argument(args)?);
        crate::dispatch(op.as_str().unwrap_or_default(), args)
    };
    let ended = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Ok(crate::failure_of_panic()));
    let value = match ended {
        Ok(value) => value,
        Err(Ended::Jumped(jump)) => return jump.0,
        Err(Ended::Interrupted(value)) => {
            // SAFETY: the caller's own variable.
            unsafe { *stopped = 1 }
            value
        }
    };
    // SAFETY: inside `protect`. `value` outlives it, so that kept vectors are released after they are in the result.
    match protect(&|| unsafe { Rf_protect(build(&value)) }) {
        Ok(out) => {
            drop(value);
            // SAFETY: it was protected in `build`'s closure; nothing is allocated until C returns it.
            unsafe { Rf_unprotect(1) };
            out
        }
        Err(jump) => jump.0,
    }
}

/// R's missing double: a NaN with the payload 1954.
pub(crate) fn na_real() -> f64 {
    f64::from_bits(0x7FF0_0000_0000_07A2)
}

const _: () = assert!(NA_INT == i32::MIN);
