//! Copies decoded elements into the output buffer.
//!
//! The only code where several threads write into one buffer, and so the only `unsafe` of the array layer.
//!
//! **Why it is sound.** An [`Output`] owns its memory from allocation until it is turned back into a `Vec`, or owns the
//! buffer it points into, or has borrowed it from a caller that waits until it is dropped ([`Output::lend`]). Access to
//! the memory takes it by value; while it is shared, nobody holds a reference into it except inside [`Output::window`],
//! see below. Every write goes through [`StridedCopy::copy`], [`StridedCopy::fill`] or [`Output::window`]; each first
//! computes the lowest and highest byte it will touch, on both sides, and refuses if either is outside its buffer. Two
//! threads never write the same byte: a read cuts the selection at chunk borders, each position of the output belongs
//! to exactly one position of the array, each of those to exactly one chunk, and each chunk is placed by one thread.
//! (Even if that were violated by a bug, the bytes are plain data and are not read before all writers are done.)
#![allow(unsafe_code, reason = "see the module's proof")]
#![allow(clippy::as_conversions, reason = "offsets were checked to lie inside a buffer, so they fit isize")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::any::Any;
use std::sync::mpsc;

use super::select::Sel;
use crate::error::{Error, Result};
use crate::num;

/// The output buffer while it is filled by many threads.
#[derive(Debug)]
pub(crate) struct Output {
    ptr: *mut u8,
    len: usize,
    memory: BufferOwner,
}

/// Who owns the memory.
#[derive(Debug)]
enum BufferOwner {
    /// Allocated here, as zeros.
    Ours,
    /// A buffer we own.
    Held(Box<dyn Any + Send + Sync>),
    /// Borrowed; the lender waits until this is dropped.
    Lent { _until: mpsc::Sender<()> },
}

// SAFETY: see the module's proof: writes are bounds-checked and disjoint.
unsafe impl Send for Output {}
// SAFETY: as above.
unsafe impl Sync for Output {}

impl Output {
    /// `len` zero bytes; an error if allocation fails.
    pub(crate) fn zeroed(len: usize) -> Result<Self> {
        if len == 0 {
            return Ok(Self { ptr: std::ptr::NonNull::dangling().as_ptr(), len, memory: BufferOwner::Ours });
        }
        let layout = Layout::array::<u8>(len).map_err(|_| too_large(len))?;
        // SAFETY: the layout's size is not zero.
        let ptr = unsafe { alloc_zeroed(layout) };
        if ptr.is_null() {
            return Err(too_large(len));
        }
        advise_huge(ptr, len);
        Ok(Self { ptr, len, memory: BufferOwner::Ours })
    }

    /// Uses a buffer that it owns until it is [returned](Output::into_owner), and which must be `len` bytes long.
    ///
    /// The buffer is boxed, so it does not move, and nobody else accesses its bytes before this is taken apart.
    pub(crate) fn owning<B: AsMut<[u8]> + Send + Sync + 'static>(buffer: B, len: usize) -> Result<Self> {
        let mut buffer = Box::new(buffer);
        let bytes: &mut [u8] = (*buffer).as_mut();
        let (ptr, found) = (bytes.as_mut_ptr(), bytes.len());
        Self { ptr, len: found, memory: BufferOwner::Held(buffer) }.of_length(len)
    }

    /// The buffer of [`Output::owning`].
    pub(crate) fn into_owner<B: 'static>(mut self) -> Result<B> {
        match std::mem::replace(&mut self.memory, BufferOwner::Held(Box::new(()))) {
            BufferOwner::Held(buffer) => {
                buffer.downcast().map(|b| *b).map_err(|_| Error::usage("another buffer"))
            }
            _ => Err(Error::usage("another buffer")),
        }
    }

    /// Lends `buffer` to `f`, and waits until the `Output` passed to `f` is dropped, wherever that is.
    pub(crate) fn lend<R>(buffer: &mut [u8], f: impl FnOnce(Self) -> R) -> R {
        /// Waits also if `f` panics: others may still be writing.
        struct Wait(mpsc::Receiver<()>);
        impl Drop for Wait {
            fn drop(&mut self) {
                // Nothing is ever sent: it returns when the sender is dropped.
                let _ = self.0.recv();
            }
        }
        let (until, gone) = mpsc::channel();
        let wait = Wait(gone);
        let memory = BufferOwner::Lent { _until: until };
        let done = f(Self { ptr: buffer.as_mut_ptr(), len: buffer.len(), memory });
        drop(wait);
        done
    }

    /// Fails if it is not `len` bytes long.
    pub(crate) fn of_length(self, len: usize) -> Result<Self> {
        if self.len == len {
            return Ok(self);
        }
        Err(Error::usage(format!("the result has {len} bytes, the buffer {}", self.len)))
    }

    /// Whether untouched bytes are zero.
    pub(crate) fn is_zeroed(&self) -> bool {
        matches!(self.memory, BufferOwner::Ours)
    }

    /// The filled memory.
    pub(crate) fn into_vec(self) -> Vec<u8> {
        if !self.is_zeroed() || self.len == 0 {
            return Vec::new();
        }
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: allocated in `zeroed` with the layout of `len` bytes; every byte is initialised (as zero at least);
        // `this` gives the memory up.
        unsafe { Vec::from_raw_parts(this.ptr, this.len, this.len) }
    }

    /// Lets `f` write bytes `at .. at + len` of the output.
    ///
    /// Only for a chunk whose place in the output is exactly that run, so that no other thread touches it.
    pub(crate) fn window<R>(&self, at: usize, len: usize, f: impl FnOnce(&mut [u8]) -> R) -> Result<R> {
        if at.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(Error::invalid("a chunk lies outside the result"));
        }
        // SAFETY: in bounds by the check; exclusive by the module's proof.
        Ok(f(unsafe { std::slice::from_raw_parts_mut(self.ptr.add(at), len) }))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.is_zeroed()
            && self.len > 0
            && let Ok(layout) = Layout::array::<u8>(self.len)
        {
            // SAFETY: allocated in `zeroed` with this layout and not given away (`into_vec` forgets `self`).
            unsafe { dealloc(self.ptr, layout) }
        }
    }
}

fn too_large(len: usize) -> Error {
    Error::usage(format!(
        "the result would take {len} bytes, more memory than this machine has; read a part of it"
    ))
}

/// Requests huge pages for a large output: half of the cost of filling fresh memory is page faults.
fn advise_huge(ptr: *mut u8, len: usize) {
    #[cfg(target_os = "linux")]
    {
        const HUGE: usize = 2 << 20;
        let skip = ptr.align_offset(HUGE);
        let inner = len.saturating_sub(skip) / HUGE * HUGE;
        if inner > 0 {
            // SAFETY: the range lies inside our allocation; the advice does not change its content. Failure is harmless.
            unsafe { libc::madvise(ptr.add(skip).cast(), inner, libc::MADV_HUGEPAGE) };
        }
    }
}

/// One loop of a copy: `count` steps of `src` and `dst` bytes.
#[derive(Debug, Clone, Copy)]
struct Loop {
    count: usize,
    src: isize,
    dst: isize,
}

/// A copy between strided layouts, ready to run.
#[derive(Debug)]
pub(crate) struct StridedCopy {
    /// Regular loops, outermost first.
    loops: Vec<Loop>,
    /// Loops over pairs of offsets, run outside the regular ones.
    lists: Vec<Vec<(isize, isize)>>,
    src: isize,
    dst: isize,
    size: usize,
    /// Lowest and one past the highest byte touched on each side.
    src_range: (i128, i128),
    dst_range: (i128, i128),
    empty: bool,
}

impl StridedCopy {
    /// From a C-ordered chunk of `shape` to an output with these byte `strides`.
    pub(crate) fn new(shape: &[u64], sels: &[&Sel], strides: &[usize], size: usize) -> Result<Self> {
        let mut nest = Self {
            loops: Vec::with_capacity(sels.len()),
            lists: Vec::new(),
            src: 0,
            dst: 0,
            size,
            src_range: (0, size as i128),
            dst_range: (0, size as i128),
            empty: false,
        };
        let mut step = size as i128;
        for ((sel, extent), stride) in sels.iter().zip(shape).zip(strides).rev() {
            nest.add(sel, step, *stride as i128)?;
            step = step.saturating_mul(i128::from(*extent));
        }
        nest.tidy();
        Ok(nest)
    }

    /// The reverse copy: from the output's side to the chunk's.
    pub(crate) fn inverse(mut self) -> Self {
        std::mem::swap(&mut self.src, &mut self.dst);
        std::mem::swap(&mut self.src_range, &mut self.dst_range);
        self.loops.iter_mut().for_each(|l| std::mem::swap(&mut l.src, &mut l.dst));
        self.lists.iter_mut().flatten().for_each(|pair| *pair = (pair.1, pair.0));
        self.tidy();
        self
    }

    fn add(&mut self, sel: &Sel, step: i128, stride: i128) -> Result<()> {
        let fit = |n: i128| isize::try_from(n).map_err(|_| Error::invalid("a chunk is too large"));
        let widen = |range: &mut (i128, i128), a: i128, b: i128| {
            range.0 += a.min(b);
            range.1 += a.max(b);
        };
        match sel {
            Sel::Range { start, step: by, count, dst } => {
                let Some(last) = count.checked_sub(1) else {
                    self.empty = true;
                    return Ok(());
                };
                let s0 = i128::from(*start).saturating_mul(step);
                // A single position does not move, however long the stride.
                let by = if last == 0 { 0 } else { i128::from(*by).saturating_mul(step) };
                let d0 = i128::from(*dst).saturating_mul(stride);
                widen(&mut self.src_range, s0, s0.saturating_add(by.saturating_mul(i128::from(last))));
                widen(&mut self.dst_range, d0, d0.saturating_add(stride.saturating_mul(i128::from(last))));
                self.src = fit((self.src as i128).saturating_add(s0))?;
                self.dst = fit((self.dst as i128).saturating_add(d0))?;
                self.loops.push(Loop { count: num::usize_of(*count)?, src: fit(by)?, dst: fit(stride)? });
            }
            Sel::Listed(pairs) => {
                let mut list = Vec::with_capacity(pairs.len());
                let (mut low, mut high) = ((i128::MAX, i128::MAX), (i128::MIN, i128::MIN));
                for (s, d) in pairs {
                    let (s, d) = (i128::from(*s).saturating_mul(step), i128::from(*d).saturating_mul(stride));
                    low = (low.0.min(s), low.1.min(d));
                    high = (high.0.max(s), high.1.max(d));
                    list.push((fit(s)?, fit(d)?));
                }
                if list.is_empty() {
                    self.empty = true;
                    return Ok(());
                }
                widen(&mut self.src_range, low.0, high.0);
                widen(&mut self.dst_range, low.1, high.1);
                self.lists.push(list);
            }
        }
        Ok(())
    }

    /// Drops and merges loops, and orders them so that the output is written forwards.
    fn tidy(&mut self) {
        self.loops.retain(|l| l.count != 1);
        self.loops.sort_by_key(|l| std::cmp::Reverse(l.dst));
        let mut joined: Vec<Loop> = Vec::with_capacity(self.loops.len());
        for l in self.loops.drain(..) {
            match joined.last_mut() {
                Some(outer)
                    if l.dst.checked_mul(l.count as isize) == Some(outer.dst)
                        && l.src.checked_mul(l.count as isize) == Some(outer.src) =>
                {
                    *outer = Loop { count: outer.count * l.count, ..l };
                }
                _ => joined.push(l),
            }
        }
        // A transposing copy reads along one dimension and writes along another: make those two the innermost, so that
        // they can be done in tiles.
        let size = self.size as isize;
        if let Some((last, rest)) = joined.split_last()
            && last.src != size
            && let Some(at) =
                rest.iter().enumerate().min_by_key(|(_, l)| l.src.unsigned_abs()).map(|(i, _)| i)
        {
            let l = joined.remove(at);
            joined.insert(joined.len() - 1, l);
        }
        self.loops = joined;
    }

    fn check(range: (i128, i128), len: usize, what: &str) -> Result<()> {
        if range.0 >= 0 && range.1 <= len as i128 {
            Ok(())
        } else {
            Err(Error::invalid(format!("a chunk lies outside the {what}")))
        }
    }

    /// Copies from `src` into the output.
    pub(crate) fn copy(&self, src: &[u8], out: &Output) -> Result<()> {
        if self.empty || self.size == 0 {
            return Ok(());
        }
        self.copy_to(src, out, 0)
    }

    /// Copies from `src` into `dst`.
    pub(crate) fn copy_into(&self, src: &[u8], dst: &mut [u8]) -> Result<()> {
        // Dropped before the borrow ends.
        let out = Output { ptr: dst.as_mut_ptr(), len: dst.len(), memory: BufferOwner::Held(Box::new(())) };
        self.copy(src, &out)
    }

    /// Copies from `src` into the output, `by` bytes after the selected place.
    fn copy_to(&self, src: &[u8], out: &Output, by: isize) -> Result<()> {
        let to = (self.dst_range.0 + by as i128, self.dst_range.1 + by as i128);
        Self::check(self.src_range, src.len(), "decoded bytes")?;
        Self::check(to, out.len, "answer")?;
        self.each_list(0, self.src, self.dst + by, &mut |s, d| {
            // SAFETY: the lowest and highest byte of both sides were checked just now, and every offset the loops
            // reach lies between them; the answer's bytes are ours alone by the module's proof.
            unsafe { run(&self.loops, src.as_ptr().offset(s), out.ptr.offset(d), self.size) }
        });
        Ok(())
    }

    /// Fills the output with one element.
    pub(crate) fn fill(&self, element: &[u8], out: &Output) -> Result<()> {
        if self.empty || self.size == 0 {
            return Ok(());
        }
        if element.len() != self.size {
            return Err(Error::invalid("the fill value has the wrong size"));
        }
        Self::check(self.dst_range, out.len, "answer")?;
        // A row of fill values to copy from, so that long runs are copied and not looped over.
        let run_count =
            self.loops.last().filter(|l| l.dst == self.size as isize).map_or(1, |l| l.count.min(4096));
        let row = element.repeat(run_count);
        self.each_list(0, 0, self.dst, &mut |_, d| {
            // SAFETY: as in `copy`; `row` holds `run_count` elements.
            unsafe { run_fill(&self.loops, &row, out.ptr.offset(d), self.size) }
        });
        Ok(())
    }

    /// The offset in the output, if `src`, whole and in order, fills one contiguous run of it.
    pub(crate) fn as_run(&self, src_len: usize) -> Option<usize> {
        let whole = match self.loops.as_slice() {
            [] => self.size == src_len,
            [l] => {
                l.src == self.size as isize && l.dst == self.size as isize && l.count * self.size == src_len
            }
            _ => false,
        };
        (whole && self.lists.is_empty() && !self.empty && self.src == 0).then_some(self.dst as usize)
    }

    /// Copies from an object of `length` bytes that is read in pieces: `read` fills its buffer from an offset on.
    ///
    /// Gaps of fewer than `gap` bytes are read and discarded, and no piece is longer than `block`. A piece that is one
    /// run of the output is read straight into it, any other through `scratch`. Only for [regular](Self::is_regular)
    /// copies.
    pub(crate) fn pull(
        &self,
        length: usize,
        out: &Output,
        (gap, block): (usize, usize),
        scratch: &mut Vec<u8>,
        read: &dyn Fn(usize, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        if self.empty || self.size == 0 {
            return Ok(());
        }
        Self::check(self.src_range, length, "chunk")?;
        Self::check(self.dst_range, out.len, "answer")?;
        let mut loops = self.loops.clone();
        loops.sort_by_key(|l| std::cmp::Reverse(l.src.unsigned_abs()));
        // The innermost loops on the object's side that make up one piece.
        let (mut span, mut tail) = (self.size, loops.len());
        let mut group = None;
        while let Some(l) = tail.checked_sub(1).and_then(|i| loops.get(i)) {
            let step = l.src.unsigned_abs();
            if step.saturating_sub(span) > gap {
                break;
            }
            let wider = step.saturating_mul(l.count - 1).saturating_add(span);
            if wider > block {
                // Several steps of this loop still fit.
                group = Some((block / step.max(1)).max(1));
                break;
            }
            (span, tail) = (wider, tail - 1);
        }
        let inner = loops.split_off(tail);
        let grouped = if group.is_some() { loops.pop() } else { None };
        let group = group.unwrap_or(1);
        let (count, src_step, dst_step) = grouped.map_or((1, 0, 0), |l| (l.count, l.src, l.dst));
        let piece = |n: usize| {
            let head = grouped.map(|l| Loop { count: n, ..l });
            self.part(head.into_iter().chain(inner.iter().copied()))
        };
        let (full, rest) = (piece(group), piece(count % group));
        let mut one = |src: isize, dst: isize| {
            for at in (0..count).step_by(group) {
                let part = if count - at < group { &rest } else { &full };
                let low = (src + at as isize * src_step - part.src) as usize;
                let to = (dst + at as isize * dst_step) as usize;
                let span = part.src_range.1 as usize;
                if part.as_run(span).is_some() {
                    out.window(to, span, |window| read(low, window))??;
                } else {
                    let bytes = crate::codec::chain::room(scratch, span)?;
                    read(low, bytes)?;
                    part.copy_to(bytes, out, to as isize)?;
                }
            }
            Ok(())
        };
        each(&loops, self.src, self.dst, &mut one)
    }

    /// Whether it consists of regular loops alone, as [`StridedCopy::pull`] requires.
    pub(crate) fn is_regular(&self) -> bool {
        self.lists.is_empty()
    }

    /// A copy of some of the loops, whose lowest byte on both sides is byte 0.
    fn part(&self, loops: impl Iterator<Item = Loop>) -> Self {
        let mut part = Self {
            loops: loops.filter(|l| l.count > 0).collect(),
            lists: Vec::new(),
            src: 0,
            dst: 0,
            size: self.size,
            src_range: (0, self.size as i128),
            dst_range: (0, self.size as i128),
            empty: false,
        };
        for l in &part.loops {
            let last = l.count as isize - 1;
            part.src -= (l.src * last).min(0);
            part.src_range.1 += (l.src * last).unsigned_abs() as i128;
            part.dst_range.1 += (l.dst * last) as i128;
        }
        part.tidy();
        part
    }

    fn each_list(&self, depth: usize, src: isize, dst: isize, f: &mut dyn FnMut(isize, isize)) {
        match self.lists.get(depth) {
            None => f(src, dst),
            Some(list) => {
                for (s, d) in list {
                    self.each_list(depth + 1, src + s, dst + d, f);
                }
            }
        }
    }
}

/// Calls `f` with both offsets of every step of `loops`.
fn each(loops: &[Loop], src: isize, dst: isize, f: &mut dyn FnMut(isize, isize) -> Result<()>) -> Result<()> {
    match loops {
        [] => f(src, dst),
        [outer, rest @ ..] => (0..outer.count as isize)
            .try_for_each(|i| each(rest, src + i * outer.src, dst + i * outer.dst, f)),
    }
}

/// Runs the loops of a copy.
///
/// # Safety
/// Every element the loops reach lies inside the buffers `src` and `dst` point into, and nobody else uses those of
/// `dst`.
unsafe fn run(loops: &[Loop], src: *const u8, dst: *mut u8, size: usize) {
    // SAFETY: all offsets are among those the caller vouches for.
    unsafe {
        match loops {
            [] => std::ptr::copy_nonoverlapping(src, dst, size),
            [row] => line(*row, src, dst, size),
            [outer, row] if row.src == size as isize && row.dst == size as isize => {
                let bytes = row.count * size;
                let go = |f: &dyn Fn(*const u8, *mut u8)| {
                    for i in 0..outer.count as isize {
                        f(src.offset(i * outer.src), dst.offset(i * outer.dst));
                    }
                };
                // Short rows of a length known to the compiler are moved in registers, without a call.
                match bytes {
                    16 => rows::<16>(*outer, src, dst),
                    32 => rows::<32>(*outer, src, dst),
                    64 => rows::<64>(*outer, src, dst),
                    128 => rows::<128>(*outer, src, dst),
                    256 => rows::<256>(*outer, src, dst),
                    _ => go(&|s, d| std::ptr::copy_nonoverlapping(s, d, bytes)),
                }
            }
            [outer, row] => match size {
                1 => tiles::<1>(*outer, *row, src, dst),
                2 => tiles::<2>(*outer, *row, src, dst),
                4 => tiles::<4>(*outer, *row, src, dst),
                8 => tiles::<8>(*outer, *row, src, dst),
                16 => tiles::<16>(*outer, *row, src, dst),
                _ => {
                    for i in 0..outer.count as isize {
                        line(*row, src.offset(i * outer.src), dst.offset(i * outer.dst), size);
                    }
                }
            },
            [outer, rest @ ..] => {
                for i in 0..outer.count as isize {
                    run(rest, src.offset(i * outer.src), dst.offset(i * outer.dst), size);
                }
            }
        }
    }
}

/// Rows of `N` bytes.
///
/// # Safety
/// As [`run`].
unsafe fn rows<const N: usize>(outer: Loop, src: *const u8, dst: *mut u8) {
    for i in 0..outer.count as isize {
        // SAFETY: vouched for by the caller.
        unsafe {
            let row = src.offset(i * outer.src).cast::<[u8; N]>().read_unaligned();
            dst.offset(i * outer.dst).cast::<[u8; N]>().write_unaligned(row);
        }
    }
}

/// One row of elements.
///
/// # Safety
/// As [`run`].
unsafe fn line(row: Loop, src: *const u8, dst: *mut u8, size: usize) {
    // SAFETY: vouched for by the caller.
    unsafe {
        if row.src == size as isize && row.dst == size as isize {
            std::ptr::copy_nonoverlapping(src, dst, row.count * size);
            return;
        }
        match size {
            1 => elements::<1>(row, src, dst),
            2 => elements::<2>(row, src, dst),
            4 => elements::<4>(row, src, dst),
            8 => elements::<8>(row, src, dst),
            16 => elements::<16>(row, src, dst),
            _ => {
                for i in 0..row.count as isize {
                    std::ptr::copy_nonoverlapping(src.offset(i * row.src), dst.offset(i * row.dst), size);
                }
            }
        }
    }
}

/// A row of elements of `N` bytes.
///
/// # Safety
/// As [`run`].
unsafe fn elements<const N: usize>(row: Loop, src: *const u8, dst: *mut u8) {
    for i in 0..row.count as isize {
        // SAFETY: vouched for by the caller.
        unsafe {
            let e = src.offset(i * row.src).cast::<[u8; N]>().read_unaligned();
            dst.offset(i * row.dst).cast::<[u8; N]>().write_unaligned(e);
        }
    }
}

/// Two loops in tiles, so that neither side jumps through memory.
///
/// # Safety
/// As [`run`].
unsafe fn tiles<const N: usize>(a: Loop, b: Loop, src: *const u8, dst: *mut u8) {
    const TILE: usize = 32;
    for b0 in (0..b.count).step_by(TILE) {
        let columns = TILE.min(b.count - b0);
        for i in 0..a.count as isize {
            // SAFETY: vouched for by the caller: `i` and the columns stay inside both loops.
            unsafe {
                let s = src.offset(i * a.src + b0 as isize * b.src);
                let d = dst.offset(i * a.dst + b0 as isize * b.dst);
                elements::<N>(Loop { count: columns, ..b }, s, d);
            }
        }
    }
}

/// Runs the loops of a fill; `row` holds as many elements as fit a run, or a part of one.
///
/// # Safety
/// As [`run`], for `dst`.
unsafe fn run_fill(loops: &[Loop], row: &[u8], dst: *mut u8, size: usize) {
    // SAFETY: vouched for by the caller; reads stay inside `row`.
    unsafe {
        match loops {
            [] => std::ptr::copy_nonoverlapping(row.as_ptr(), dst, size),
            [last] if last.dst == size as isize => {
                let mut left = last.count * size;
                let mut at = dst;
                while left > 0 {
                    let n = left.min(row.len());
                    std::ptr::copy_nonoverlapping(row.as_ptr(), at, n);
                    at = at.add(n);
                    left -= n;
                }
            }
            [outer, rest @ ..] => {
                for i in 0..outer.count as isize {
                    run_fill(rest, row, dst.offset(i * outer.dst), size);
                }
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "small numbers of the tests' own")]
mod tests {
    use super::*;

    fn copy(shape: &[u64], sels: &[Sel], strides: &[usize], src: &[u8], len: usize) -> Vec<u8> {
        let out = Output::zeroed(len).unwrap();
        let sels: Vec<&Sel> = sels.iter().collect();
        StridedCopy::new(shape, &sels, strides, 1).unwrap().copy(src, &out).unwrap();
        out.into_vec()
    }

    #[test]
    fn copies_transpose_reverse_and_gather() {
        let src = [0, 1, 2, 3, 4, 5];
        let all = |n| Sel::range(0, 1, n);
        assert_eq!(copy(&[2, 3], &[all(2), all(3)], &[3, 1], &src, 6), src);
        assert_eq!(copy(&[2, 3], &[all(2), all(3)], &[1, 2], &src, 6), [0, 3, 1, 4, 2, 5]);
        assert_eq!(copy(&[2, 3], &[all(2), Sel::range(2, -1, 3)], &[3, 1], &src, 6), [2, 1, 0, 5, 4, 3]);
        let list = Sel::Listed(vec![(2, 1), (0, 0), (2, 2)]);
        assert_eq!(copy(&[2, 3], &[Sel::range(1, 1, 1), list], &[3, 1], &src, 3), [3, 5, 5]);
    }

    #[test]
    fn large_transposes_go_through_tiles() {
        let (rows, columns) = (100u64, 70u64);
        let src: Vec<u8> = (0..rows * columns).map(|i| (i % 251) as u8).collect();
        let sels = [Sel::range(0, 1, rows), Sel::range(0, 1, columns)];
        let out = copy(&[rows, columns], &sels, &[1, rows as usize], &src, src.len());
        for r in 0..rows as usize {
            for c in 0..columns as usize {
                assert_eq!(out[c * rows as usize + r], src[r * columns as usize + c]);
            }
        }
    }

    #[test]
    fn pieces_of_any_size_give_what_a_whole_copy_gives() {
        let shape = [6u64, 5, 7];
        let src: Vec<u8> = (0..210).map(|i| i as u8).collect();
        let ranges = [
            [(0, 1, 6), (0, 1, 5), (0, 1, 7)],
            [(5, -2, 3), (1, 3, 2), (6, -1, 7)],
            [(2, 1, 3), (4, 1, 1), (1, 1, 5)],
        ];
        for ranges in ranges {
            let sels = ranges.map(|(start, step, count)| Sel::range(start, step, count));
            let counts = ranges.map(|(_, _, n)| n as usize);
            let len = counts.iter().product();
            for strides in [[counts[1] * counts[2], counts[2], 1], [1, counts[0], counts[0] * counts[1]]] {
                let whole = copy(&shape, &sels, &strides, &src, len);
                let nest = StridedCopy::new(&shape, &[&sels[0], &sels[1], &sels[2]], &strides, 1).unwrap();
                for (gap, block) in [(0, 1), (0, 7), (3, 8), (3, 20), (40, 80), (40, 1000)] {
                    let out = Output::zeroed(len).unwrap();
                    let read = |at: usize, buf: &mut [u8]| {
                        assert!(buf.len() <= block.max(7), "{} bytes in a piece of {block}", buf.len());
                        buf.copy_from_slice(&src[at..at + buf.len()]);
                        Ok(())
                    };
                    nest.pull(210, &out, (gap, block), &mut Vec::new(), &read).unwrap();
                    assert_eq!(out.into_vec(), whole, "{ranges:?} {strides:?} {gap} {block}");
                }
                let out = Output::zeroed(len).unwrap();
                assert!(nest.pull(100, &out, (0, 1), &mut Vec::new(), &|_, _| Ok(())).is_err());
            }
        }
    }

    #[test]
    fn nothing_is_written_outside() {
        let out = Output::zeroed(4).unwrap();
        let sel = Sel::range(0, 1, 5);
        assert!(StridedCopy::new(&[5], &[&sel], &[1], 1).unwrap().copy(&[0; 5], &out).is_err());
        assert!(StridedCopy::new(&[5], &[&sel], &[1], 1).unwrap().fill(&[0], &out).is_err());
        let sel = Sel::range(0, 1, 3);
        assert!(StridedCopy::new(&[5], &[&sel], &[1], 1).unwrap().copy(&[0; 2], &out).is_err());
        let back = Sel::range(1, -1, 3);
        assert!(StridedCopy::new(&[5], &[&back], &[1], 1).unwrap().copy(&[0; 5], &out).is_err());
    }

    #[test]
    fn fills_repeat_the_element() {
        let out = Output::zeroed(12).unwrap();
        let (a, b) = (Sel::range(0, 1, 2), Sel::range(0, 1, 2));
        StridedCopy::new(&[2, 2], &[&a, &b], &[6, 2], 2).unwrap().fill(&[7, 8], &out).unwrap();
        assert_eq!(out.into_vec(), [7, 8, 7, 8, 0, 0, 7, 8, 7, 8, 0, 0]);
    }

    #[test]
    fn long_strides_overflow_nowhere() {
        let out = Output::zeroed(4).unwrap();
        let (one, two) = (Sel::range(0, i64::MAX, 1), Sel::range(0, 1 << 61, 2));
        StridedCopy::new(&[0, 0], &[&two, &one], &[2, 1], 1).unwrap().fill(&[7], &out).unwrap();
        StridedCopy::new(&[0, 0, 0], &[&two, &two, &one], &[2, 1, 1], 1).unwrap().fill(&[7], &out).unwrap();
        assert_eq!(out.into_vec(), [7, 7, 7, 7]);
    }
}
