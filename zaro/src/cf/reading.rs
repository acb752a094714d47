//! Reads a part of an array as stored, or decoded by the CF conventions.

use super::{Cf, Lost, Related, ValueForm, undecoded_times};
use crate::array::windows::{ArrayView, Cutting};
use crate::array::{Array, Order, ReadOptions, Slab, invalid_utf32};
use crate::boxed;
use crate::error::Result;
use crate::format::Layout;
use crate::format::calendar::Calendar;
use crate::meta::DataType;
use crate::num;

/// A view of an array to read, and how to decode it.
#[derive(Debug)]
pub struct Reading {
    array: Array,
    /// The selection, without the character dimension if there is one.
    view: ArrayView,
    /// The characters per text, and the selection including their dimension.
    letters: Option<(usize, ArrayView)>,
    cf: Option<Cf>,
    /// Why declared times stay numbers.
    undecoded: Option<String>,
}

impl Reading {
    /// Elements as stored.
    #[must_use]
    pub fn stored(array: &Array, view: ArrayView) -> Self {
        Self { array: array.clone(), view, letters: None, cf: None, undecoded: None }
    }

    /// Elements decoded by the attributes of the array and of the arrays [beside it](super::related). Calls `warn` for
    /// attributes that cannot be applied.
    #[must_use]
    pub fn decoded(array: &Array, view: ArrayView, related: &Related, warn: &mut dyn FnMut(&str)) -> Self {
        let cf = Cf::new(array.meta(), related, warn);
        let folded = view.folded().filter(|_| related.letters);
        let (view, letters) = match folded {
            Some((folded, letters)) => (folded, Some((letters, view))),
            None => (view, None),
        };
        let undecoded = undecoded_times(array.meta(), related);
        Self { array: array.clone(), view, letters, cf, undecoded }
    }

    /// The selection.
    #[must_use]
    pub fn view(&self) -> &ArrayView {
        &self.view
    }

    /// Whether CF decoding changes anything.
    #[must_use]
    pub fn is_decoded(&self) -> bool {
        self.cf.is_some()
    }

    /// The type of the elements as returned.
    #[must_use]
    pub fn data_type(&self) -> DataType {
        match (&self.cf, &self.letters) {
            (Some(cf), _) => cf.data_type(),
            (None, Some((letters, _))) => DataType::FixedBytes(*letters),
            (None, None) => self.array.meta().data_type.clone(),
        }
    }

    /// Type, shape and order of the whole result.
    #[must_use]
    pub fn layout(&self, order: Order) -> Layout {
        let names = self.view.names(self.array.meta());
        Layout { shape: self.view.shape(), names, data_type: self.data_type(), order, width: 0 }
    }

    /// The estimated memory per element.
    async fn item_size(&self) -> Result<usize> {
        // Elements of variable size may be longer elsewhere.
        let read = match self.array.item_bytes().await? {
            about if self.array.meta().data_type.is_variable() => about.saturating_mul(2).max(256),
            exact => exact,
        };
        // Times become strings.
        let made = |cf: &Cf| if cf.data_type().is_variable() { 64 } else { cf.data_type().size() };
        let letters = self.letters.as_ref().map_or(1, |(n, _)| n.saturating_mul(2));
        Ok(read.saturating_mul(letters).saturating_add(self.cf.as_ref().map_or(0, made)).max(1))
    }

    /// Splits the selection into windows of at most `budget` bytes each, in order.
    pub async fn windows(&self, budget: usize, order: Order) -> Result<impl Iterator<Item = ArrayView> + '_> {
        let item_size = self.item_size().await?;
        // A tiny budget is raised a little, or a large array would be read element by element.
        let total = self.view.count()?.saturating_mul(num::u64_of(item_size));
        let least = usize::try_from((total >> 12).min(1 << 20)).unwrap_or(0);
        let cutting = Cutting { item_size, budget: budget.max(least), order, sequential: true };
        Ok(self.view.windows(self.array.meta(), cutting).map(|window| self.view.narrowed(&window)))
    }

    /// The CF decoding, if there is any.
    pub(crate) fn cf(&self) -> Option<&Cf> {
        self.cf.as_ref()
    }

    /// Why the elements stay numbers though their units declare times.
    pub(crate) fn undecoded(&self) -> Option<&str> {
        self.undecoded.as_deref()
    }

    /// Reads and decodes a window, or any other part of the view. Counts in `lost` what cannot be decoded.
    #[boxed]
    pub async fn read(&self, view: &ArrayView, options: &ReadOptions, lost: &mut Lost) -> Result<Slab> {
        let slab = self.read_packed(view, options, lost).await?;
        self.apply(slab, lost)
    }

    /// The CF name of the calendar, if the elements are times.
    #[must_use]
    pub fn calendar(&self) -> Option<&'static str> {
        self.cf.as_ref().and_then(Cf::calendar).map(Calendar::name)
    }

    /// Reads times as seconds from 1970-01-01 00:00 of their calendar, in the order of `options`: for programs whose own
    /// times are numbers. Missing ones are NaN. `None` if the elements are not times.
    #[boxed]
    pub async fn read_seconds(
        &self,
        view: &ArrayView,
        options: &ReadOptions,
        lost: &mut Lost,
    ) -> Result<Option<Vec<f64>>> {
        let Some(cf) = self.cf.as_ref() else { return Ok(None) };
        let ValueForm::Moments(axis) = &cf.form else { return Ok(None) };
        let slab = self.read_packed(view, options, lost).await?;
        Ok(Some(slab.items().map(|item| cf.seconds(axis, item, lost)).collect()))
    }

    /// Decodes elements that were read in another way.
    pub fn apply(&self, slab: Slab, lost: &mut Lost) -> Result<Slab> {
        match &self.cf {
            Some(cf) => cf.apply(&slab, lost),
            None => Ok(slab),
        }
    }

    /// Reads without decoding; characters are joined to texts already.
    pub(crate) async fn read_packed(
        &self,
        view: &ArrayView,
        options: &ReadOptions,
        lost: &mut Lost,
    ) -> Result<Slab> {
        let selection = match &self.letters {
            Some((_, whole)) => view.unfolded(whole).selection()?,
            None => view.selection()?,
        };
        let mut slab = self.array.read_slab(&selection, options).await?;
        if let Some(texts) = lost.texts.as_mut().filter(|_| !slab.data_type.is_variable()) {
            *texts = texts.saturating_add(invalid_utf32(&slab.data_type, &slab.bytes));
        }
        if let Some((letters, _)) = &self.letters {
            slab = joined(slab, *letters)?;
        }
        Ok(slab)
    }
}

/// Joins `letters` characters along the last dimension to texts of that length.
fn joined(slab: Slab, letters: usize) -> Result<Slab> {
    let shape = slab.shape.split_last().map(|(_, rest)| rest.to_vec()).unwrap_or_default();
    let bytes = match slab.order {
        Order::C => slab.bytes,
        // Fortran order: the first characters of all texts, then the second ones.
        Order::F => {
            let texts = slab.bytes.len().checked_div(letters).unwrap_or(0);
            let letter = |i: usize, k: usize| slab.bytes.get(k * texts + i).copied().unwrap_or(0);
            (0..texts).flat_map(|i| (0..letters).map(move |k| (i, k))).map(|(i, k)| letter(i, k)).collect()
        }
    };
    Slab::new(&DataType::FixedBytes(letters), &shape, slab.order, bytes)
}
