//! `/meta/{name}/{path…}`: a node in the version-free model, and what can be shown of it.

use std::sync::Arc;

use zaro::coords::DatasetSummary;
use zaro::image::ImageOverview;
use zaro::internal::describe;
use zaro::meta::{Json, NodeMeta};
use zaro::{ErrorKind, Node, Zarr};

use super::made::Made;
use super::stack::{Stack, TILE, looking};
use super::{Ask, made};
use crate::answer::{Fault, Response};

/// Children in one answer, if no number is asked for, and at most.
const MOST_CHILDREN: usize = 1000;

/// Images of a plate or a collection that are described each.
const MOST_IMAGES: usize = 100;

/// Answers a request for the metadata of a node.
pub(crate) async fn answer(ask: &Ask<'_>) -> Result<Response, Fault> {
    ask.query.only(&["children", "after", "limit", "multiscale"])?;
    let limit = ask.query.number::<usize>("limit")?.unwrap_or(MOST_CHILDREN).min(MOST_CHILDREN);
    made::answer(ask, async move {
        let zarr = ask.zarr()?;
        let node = zarr.node(&ask.path).await?;
        let mut out = describe::node(&node);
        match &node.meta {
            NodeMeta::Array(_) => field(ask, zarr, &node, &mut out).await?,
            NodeMeta::Group(_) => image(ask, zarr, &mut out).await?,
        }
        if ask.query.get("children") == Some("1") {
            children(ask, zarr, limit, &mut out).await?;
        }
        Ok(Made::plain("application/json", out.compact()))
    })
    .await
}

/// The children of a group, a page at a time.
async fn children(ask: &Ask<'_>, zarr: &Zarr, limit: usize, out: &mut Json) -> Result<(), Fault> {
    let mut nodes = match zarr.children(&ask.path).await {
        Ok(nodes) => nodes,
        Err(e) if e.kind() == ErrorKind::Usage => Vec::new(),
        Err(e) => return Err(Fault::behind(&e)),
    };
    nodes.sort_by(|a, b| a.path.cmp(&b.path));
    let after = ask.query.get("after").unwrap_or("");
    let mut rest = nodes.iter().filter(|node| node.name() > after);
    let page: Vec<&Node> = rest.by_ref().take(limit).collect();
    out.set("children", page.iter().map(|node| describe::summary(node)).collect::<Json>());
    let next = page.last().filter(|_| rest.next().is_some()).map(|node| node.name().to_owned());
    out.set("next", next);
    Ok(())
}

/// What is known of an OME-Zarr; nothing for other groups.
async fn image(ask: &Ask<'_>, zarr: &Zarr, out: &mut Json) -> Result<(), Fault> {
    match zaro::image::find(zarr, &ask.path).await {
        Ok(zaro::image::Found::Plate { plate, .. }) if plate.wells.len() > MOST_IMAGES => {
            // Its wells are in its attributes; each is described when it is asked for.
            out.set("image", Json::from([("kind", "plate".into())]));
            return Ok(());
        }
        Ok(_) => {}
        Err(e) if e.kind() == ErrorKind::Invalid => return Ok(()),
        Err(e) => return Err(e.into()),
    }
    let overview = ImageOverview::of(zarr, &ask.path).await.map_err(looking)?;
    out.set("image", overview.to_json());
    if let Ok(stack) = ask.stack().await {
        out.set("tiles", tiles(&stack));
    }
    Ok(())
}

/// Dimensions, units and the values of coordinates of an array, and the tiles of it, if it has any.
async fn field(ask: &Ask<'_>, zarr: &Arc<Zarr>, node: &Node, out: &mut Json) -> Result<(), Fault> {
    let group = ask.path.rsplit_once('/').map_or("", |(group, _)| group);
    let names = match &node.meta {
        NodeMeta::Array(meta) => meta.dimension_names.clone().unwrap_or_default(),
        NodeMeta::Group(_) => Vec::new(),
    };
    // The array, and the coordinates beside it: not all of a group of thousands.
    let mut nodes = vec![node.clone()];
    for name in names.into_iter().flatten() {
        let at = if group.is_empty() { name } else { format!("{group}/{name}") };
        match zarr.node(&at).await {
            Ok(other) if other.path != node.path => nodes.push(other),
            Ok(_) => {}
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Usage | ErrorKind::Invalid) => {}
            Err(e) => return Err(Fault::behind(&e)),
        }
    }
    // Its future cannot be moved between threads, so it stays on one.
    let (zarr, runtime) = (zarr.clone(), tokio::runtime::Handle::current());
    let summary = super::apart(move || runtime.block_on(DatasetSummary::of(&zarr, &nodes))).await?;
    let variables: Json = summary.variables.values().map(|variable| variable.json()).collect();
    out.set("field", variables);
    if let Ok(stack) = ask.stack().await {
        out.set("tiles", tiles(&stack));
    }
    Ok(())
}

/// The levels that tiles can be asked for by number, and the highest zoom.
fn tiles(stack: &Stack) -> Json {
    let level = |rung: &super::stack::Rung| {
        Json::from([
            ("width", rung.width.into()),
            ("height", rung.height.into()),
            ("made", (!rung.is_stored()).into()),
        ])
    };
    Json::from([
        ("size", TILE.into()),
        ("levels", stack.rungs().iter().map(level).collect()),
        ("max_zoom", stack.top_zoom().into()),
    ])
}
