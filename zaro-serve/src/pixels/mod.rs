//! Numbers and pictures by URL: tiles, regions, values, series, histograms, thumbnails, IIIF, DeepZoom, map tiles.
//!
//! ```text
//!   tile thumb region values meta  iiif dzi xyz    routes
//!   draw                                           one way to draw, whatever it is
//!   made                                           tags, encodings, conditions of what is made
//!   planes typed paint nifti                       numbers, and pictures of them
//!   stack                                          levels, stored and made
//!   cost kept                                      what it costs; what was made before
//! ```
//!
//! Everything is planned from metadata before it is read: see [`cost`].

mod cost;
mod draw;
mod dzi;
mod iiif;
mod kept;
mod made;
mod meta;
mod nifti;
mod paint;
mod params;
mod planes;
mod region;
mod stack;
#[cfg(test)]
mod tests;
mod thumb;
mod tile;
mod typed;
mod values;
mod xyz;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use zaro::Zarr;

use crate::answer::{Caching, Fault, Response};
use crate::app::App;
use crate::config::{Config, Limits};
use crate::path::RequestPath;
use crate::request::{Query, Request};
use crate::sources::Source;
use cost::{Cost, Gate};
use draw::Drawable;
use kept::Kept;
use made::Made;
use stack::Stack;

/// Things kept open at once.
const MOST_OPEN: u64 = 256;

/// What all requests for pixels share.
#[derive(Debug)]
pub(crate) struct Pixels {
    gate: Gate,
    made: Kept<Made>,
    stacks: Kept<Stack>,
    drawables: Kept<Drawable>,
    /// Value ranges of fields that were guessed.
    ranges: Kept<(f64, f64)>,
}

impl Pixels {
    /// Half of the memory is for work, a few percent for what was made.
    pub(crate) fn new(config: &Config) -> Self {
        let memory = config.options.store.context.memory();
        let share = u64::try_from(memory / 32).unwrap_or(u64::MAX);
        Self {
            gate: Gate::new(memory / 2),
            made: Kept::new(share.clamp(4 << 20, 256 << 20)),
            stacks: Kept::new(MOST_OPEN),
            drawables: Kept::new(MOST_OPEN),
            ranges: Kept::new(MOST_OPEN * 4),
        }
    }
}

/// The parameter that says who asks: no answer depends on it once it is answered.
const TOKEN: &str = "token";

/// The first segments of the routes here.
pub(crate) const ROUTES: [&str; 10] =
    ["meta", "tile", "thumb", "region", "value", "series", "histogram", "iiif", "dzi", "xyz"];

/// A request for something of a source.
#[derive(Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) pixels: &'a Pixels,
    pub(crate) limits: &'a Limits,
    pub(crate) request: &'a Request,
    pub(crate) source: Arc<Source>,
    /// The path of a node.
    pub(crate) path: String,
    /// The parameters: of the query, or of an identifier.
    pub(crate) query: Query,
    /// The address under which clients reach the server, such as `https://example.org`; empty if it is not known.
    pub(crate) base: String,
}

impl Ask<'_> {
    /// The name of this state of the source: that of a version tells it, others have the time they were opened at.
    fn state(&self) -> String {
        match self.source.caching {
            Caching::Immutable if self.source.name.contains('@') => self.source.name.clone(),
            _ => format!("{}\0{:?}", self.source.name, self.source.since),
        }
    }

    /// The name of what is asked for, of this state of the source.
    fn name(&self) -> String {
        let mut out = format!("{}\0{}", self.state(), self.request.path);
        for (key, value) in self.request.query.pairs().iter().filter(|(key, _)| key != TOKEN) {
            out.push_str(&format!("\0{key}\0{value}"));
        }
        // Absolute addresses are written into some answers.
        out.push_str(&format!("\0{}", self.base));
        out
    }

    fn lasts(&self) -> Option<Duration> {
        (self.source.caching != Caching::Immutable).then_some(made::LIVE)
    }

    fn zarr(&self) -> Result<&Arc<Zarr>, Fault> {
        self.source.zarr().map_err(|e| Fault::behind(&e))
    }

    /// The levels of what is at the path.
    async fn stack(&self) -> Result<Arc<Stack>, Fault> {
        let multiscale = self.query.get("multiscale");
        let member = self.query.get("member");
        let name =
            [self.state().as_str(), &self.path, multiscale.unwrap_or(""), member.unwrap_or("")].join("\0");
        let zarr = self.zarr()?;
        let open = Box::pin(Stack::open(zarr, &self.path, multiscale, member));
        self.pixels.stacks.get(&name, self.lasts(), |_| 1, open).await
    }

    /// Checks the cost, and waits for a turn.
    async fn enter(
        &self,
        cost: Cost,
        nearest: impl FnOnce() -> Option<usize>,
    ) -> Result<tokio::sync::OwnedSemaphorePermit, Fault> {
        cost.check(self.limits, nearest)?;
        self.pixels.gate.enter(cost).await
    }
}

/// Answers a request for one of [`ROUTES`].
pub(crate) fn answer<'a>(
    app: &'a App,
    request: &'a Request,
    path: &'a RequestPath,
) -> BoxFuture<'a, Result<Response, Fault>> {
    Box::pin(routed(app, request, path))
}

async fn routed(app: &App, request: &Request, path: &RequestPath) -> Result<Response, Fault> {
    if !request.is_get() {
        return Err(Fault::method());
    }
    let segments = path.segments();
    let (route, rest) = match segments.split_first() {
        Some((route, rest)) if !rest.is_empty() => (*route, rest),
        _ => return Err(Fault::not_found()),
    };
    match route {
        "iiif" => return iiif::answer(app, request, rest).await,
        "dzi" => return dzi::answer(app, request, rest).await,
        _ => {}
    }
    // A slash at the end of a node's path says nothing new.
    let (name, rest) = match rest.split_first() {
        Some((name, rest)) if !rest.iter().any(|segment| segment.contains('/')) => (*name, rest),
        _ => return Err(Fault::not_found()),
    };
    match route {
        "tile" => tile::answer(app, request, name, rest).await,
        "xyz" => xyz::answer(app, request, name, rest).await,
        "thumb" => thumb::answer(&ask(app, request, name, rest).await?).await,
        "region" => region::answer(&ask(app, request, name, rest).await?).await,
        "value" => values::value(&ask(app, request, name, rest).await?).await,
        "series" => values::series(&ask(app, request, name, rest).await?).await,
        "histogram" => values::histogram(&ask(app, request, name, rest).await?).await,
        "meta" => meta::answer(&ask(app, request, name, rest).await?).await,
        _ => Err(Fault::not_found()),
    }
}

async fn ask<'a>(app: &'a App, request: &'a Request, name: &str, node: &[&str]) -> Result<Ask<'a>, Fault> {
    let source = app.source(request, name).await?;
    Ok(Ask {
        pixels: &app.pixels,
        limits: &app.config.limits,
        request,
        source,
        path: node.join("/"),
        query: request.query.without(TOKEN),
        base: base(app, request),
    })
}

/// The address of the server: the one it was given, or the one it was asked by, if that is nothing but a name.
fn base(app: &App, request: &Request) -> String {
    app.config.base_for(request.header("host").unwrap_or(""))
}

/// Runs work that takes a while on a thread of its own, so that nobody waits for it but those who asked.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Fault> {
    let failed = |_| Fault::new(hyper::StatusCode::INTERNAL_SERVER_ERROR, "the work failed");
    tokio::task::spawn_blocking(work).await.map_err(failed)
}
