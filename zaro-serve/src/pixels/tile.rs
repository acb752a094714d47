//! `/tile/{name}/{path…}/{level}/{row}_{column}.{bin|png|jpg}`: numbers or a picture, 512 x 512.

use super::cost::nearest;
use super::draw::Drawable;
use super::paint::{PictureFormat, encode};
use super::stack::{Kind, Pick, Rung, Stack};
use super::typed::{self, Note};
use super::{Ask, ask, made, params, planes};
use crate::answer::{Fault, Response};
use crate::app::App;
use crate::request::Request;

/// What a tile is asked for as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Numbers,
    Picture(PictureFormat),
}

/// Row, column and form of a tile.
fn parse(file: &str) -> Option<(u64, u64, Form)> {
    let (place, end) = file.rsplit_once('.')?;
    let (row, column) = place.split_once('_')?;
    let form = match end {
        "bin" => Form::Numbers,
        "png" | "jpg" => Form::Picture(PictureFormat::parse(end)?),
        _ => return None,
    };
    Some((number(row)?, number(column)?, form))
}

/// Digits only.
pub(crate) fn number(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) { None } else { text.parse().ok() }
}

/// The level by its number among stored and made ones, or `z` and a zoom.
fn rung(stack: &Stack, text: &str) -> Option<(Rung, Option<usize>)> {
    if let Some(zoom) = text.strip_prefix('z') {
        return Some((stack.zoom(u32::try_from(number(zoom)?).ok()?)?, None));
    }
    let level = usize::try_from(number(text)?).ok()?;
    Some((stack.rungs().get(level).copied()?, Some(level)))
}

/// The nearest level whose tiles may be made, judged by the one at the same place.
fn nearest_level(ask: &Ask<'_>, stack: &Stack, asked: Option<usize>, pick: &Pick) -> Option<usize> {
    let rungs = stack.rungs();
    let fits = |level: usize| {
        let rung = rungs.get(level);
        let window = rung.and_then(|rung| rung.tile(0, 0));
        let cost = rung.zip(window).and_then(|(rung, window)| stack.cost(rung, &window, pick).ok());
        cost.is_some_and(|cost| cost.fits(ask.limits))
    };
    nearest(asked?, rungs.len(), fits)
}

/// Answers a request for a tile.
pub(crate) async fn answer(
    app: &App,
    request: &Request,
    name: &str,
    rest: &[&str],
) -> Result<Response, Fault> {
    let [node @ .., level, file] = rest else { return Err(Fault::not_found()) };
    let (row, column, form) = parse(file).ok_or_else(Fault::not_found)?;
    let ask = ask(app, request, name, node).await?;
    match form {
        Form::Numbers => ask.query.only(&[&params::PLANES[..], &["raw"]].concat())?,
        Form::Picture(_) => ask.query.only(&params::both(&["raw"]))?,
    }
    let (ask, level) = (&ask, *level);
    made::answer(ask, async move {
        let stack = ask.stack().await?;
        let (rung, number) = rung(&stack, level).ok_or_else(Fault::not_found)?;
        let window = rung.tile(row, column).ok_or_else(Fault::not_found)?;
        let pick = params::pick(&ask.query, ask.zarr()?, &stack).await?;
        let other = || nearest_level(ask, &stack, number, &pick);
        match form {
            Form::Numbers => {
                let _turn = ask.enter(stack.cost(&rung, &window, &pick)?, other).await?;
                let stored = ask.query.get("raw").is_some_and(|raw| raw == "1");
                let planes = planes::read(&stack, &rung, &window, &pick, stored).await?;
                let meta = stack.array(rung.level)?.meta();
                let note = match &stack.member {
                    Some((at, own)) => Note::of_member(meta, level.to_owned(), *at, own),
                    None => {
                        let is_decoded = stack.kind == Kind::Field && planes.data_type != meta.data_type;
                        Note::of(meta, level.to_owned(), is_decoded)
                    }
                };
                typed::made(planes, &note)
            }
            Form::Picture(format) => {
                let drawable = Drawable::open(ask, &ask.query).await?;
                encode(drawable.window(ask, &rung, &window, other).await?, format).await
            }
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_are_named_by_row_and_column() {
        assert_eq!(parse("3_12.bin"), Some((3, 12, Form::Numbers)));
        assert_eq!(parse("0_0.png"), Some((0, 0, Form::Picture(PictureFormat::Png))));
        for wrong in ["0_0.gif", "0.png", "-1_0.png", "+1_0.bin", "a_b.bin", "_.bin", "0_0"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
