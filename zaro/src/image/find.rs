//! Detects the OME-Zarr object at a path (image, plate, well or collection) and finds its images and labels.

use std::sync::Arc;

use crate::array::Array;
use crate::boxed;
use crate::error::{Error, ErrorKind, Result, usage};
use crate::group::{Node, Zarr};
use crate::image::model::{self, Axis, Group, Labels, Level, Multiscale, Omero, Plate, Well};
use crate::image::parse;
use crate::image::version::{self, ImageVersion, Stated};
use crate::meta::path::{join, shown};
use crate::meta::{Format, Json, NodeMeta};
use crate::store::JOURNAL;
use crate::store::StoreExt as _;

/// An image: its multiscales and rendering settings.
#[derive(Debug, Clone)]
pub struct Image {
    /// The path of its group.
    pub path: String,
    /// Its version.
    pub version: ImageVersion,
    /// Whether the version was inferred, since the document does not state it.
    pub assumed: bool,
    /// Its multiscales; there is at least one, with at least one level.
    pub multiscales: Vec<Multiscale>,
    /// Its rendering settings.
    pub omero: Option<Omero>,
    /// Colours and properties of its values, if it is a label image.
    pub label: Option<Labels>,
    /// All attributes of its group.
    pub attributes: Arc<Json>,
}

/// Labels or a mask of an image.
#[derive(Debug, Clone)]
pub struct LabelImage {
    /// The path of its group, or of the array of a mask.
    pub path: String,
    /// Its name: the path below `labels` or `masks`.
    pub name: String,
    /// Its axes.
    pub axes: Vec<Axis>,
    /// Its levels, the largest first; paths from the root of the Zarr. A mask has one.
    pub levels: Vec<Level>,
    /// Its colours.
    pub labels: Labels,
    /// Whether it is a plain array, as in the seed version.
    pub is_mask: bool,
}

/// The OME-Zarr object at a path.
#[derive(Debug, Clone)]
pub enum Found {
    /// An image, or the labels of one.
    Image(Box<Image>),
    /// A plate.
    Plate {
        /// The path of its group.
        path: String,
        /// The plate.
        plate: Plate,
        /// Its version.
        version: ImageVersion,
    },
    /// A well.
    Well {
        /// The path of its group.
        path: String,
        /// The well.
        well: Well,
        /// Its version.
        version: ImageVersion,
    },
    /// Several images: a `bioformats2raw.layout`, or a labels group.
    Collection {
        /// The path of the group.
        path: String,
        /// The paths of the images, in order.
        images: Vec<String>,
        /// Its version.
        version: ImageVersion,
    },
}

impl Image {
    /// The multiscale of that name; the first if there is none of that name, or `name` is `None`.
    pub fn multiscale(&self, name: Option<&str>) -> Result<&Multiscale> {
        model::choose(&self.multiscales, name)
            .ok_or_else(|| Error::invalid("the image has no multiscales").with_node(shown(&self.path)))
    }

    /// The levels of one of its multiscales, with their paths from the root of the Zarr.
    pub(crate) fn levels(&self, multiscale: &Multiscale) -> Vec<Level> {
        let placed = |l: &Level| Level { path: join(&self.path, l.path.trim_matches('/')), ..l.clone() };
        multiscale.levels.iter().map(placed).collect()
    }

    /// The array of a level.
    #[boxed]
    pub async fn array(&self, zarr: &Zarr, level: &Level) -> Result<Array> {
        zarr.array(&join(&self.path, level.path.trim_matches('/'))).await
    }

    /// The arrays of all levels of a multiscale, the largest first.
    #[boxed]
    pub async fn arrays(&self, zarr: &Zarr, multiscale: &Multiscale) -> Result<Vec<Array>> {
        futures::future::try_join_all(multiscale.levels.iter().map(|level| self.array(zarr, level))).await
    }

    /// Its labels and masks: those listed in `labels` or `masks`, or, if there is no list, all that exist.
    #[boxed]
    pub async fn labels(&self, zarr: &Zarr) -> Result<Vec<LabelImage>> {
        let mut all = Vec::new();
        for (folder, name) in self.label_names(zarr).await? {
            all.push(self.label_image(zarr, &folder, &name).await?);
        }
        Ok(all)
    }

    /// Like [`Self::labels`] without opening them: the path of the group each is in, and its name there.
    pub(crate) async fn label_names(&self, zarr: &Zarr) -> Result<Vec<(String, String)>> {
        let mut all = Vec::new();
        for name in ["labels", "masks"] {
            let path = join(&self.path, name);
            let Some(node) = node_at(zarr, &path).await? else { continue };
            let listed = match parse::group(node.meta.attributes()).listed {
                Some(listed) => listed,
                None => unlisted(zarr, &path).await?,
            };
            all.extend(listed.iter().map(|name| (path.clone(), name.trim_matches('/').to_owned())));
        }
        Ok(all)
    }

    /// Opens one of its labels or masks.
    pub(crate) async fn label_image(&self, zarr: &Zarr, folder: &str, name: &str) -> Result<LabelImage> {
        let name = name.trim_matches('/').to_owned();
        let path = join(folder, &name);
        let node = zarr.node(&path).await?;
        match &node.meta {
            NodeMeta::Array(meta) => {
                let axes = axes_of(self.multiscales.first(), meta.shape.len());
                let level = Level { path: path.clone(), scale: None, translation: None };
                Ok(LabelImage {
                    path,
                    name,
                    axes,
                    levels: vec![level],
                    labels: parse::mask(&meta.attributes),
                    is_mask: true,
                })
            }
            NodeMeta::Group(meta) => {
                let group = parse::group(&meta.attributes);
                let multiscale = group.multiscales.into_iter().next().ok_or_else(|| {
                    Error::invalid("the labels have no multiscales").with_node(shown(&path))
                })?;
                let mut labels = group.label.unwrap_or_default();
                let levels: Vec<Level> = multiscale
                    .levels
                    .into_iter()
                    .map(|l| Level { path: join(&path, l.path.trim_matches('/')), ..l })
                    .collect();
                // Some interim writers put the colours of labels on the array.
                if labels.colors.is_empty()
                    && let Some(first) = levels.first()
                    && let Ok(node) = zarr.node(&first.path).await
                {
                    labels.colors = parse::mask(node.meta.attributes()).colors;
                }
                Ok(LabelImage { path, name, axes: multiscale.axes, levels, labels, is_mask: false })
            }
        }
    }
}

/// The axes of an array of `rank` dimensions that belongs to an image: the image's, or the last of t, c, z, y, x.
fn axes_of(image: Option<&Multiscale>, rank: usize) -> Vec<Axis> {
    if let Some(image) = image.filter(|image| image.axes.len() == rank) {
        return image.axes.clone();
    }
    let mut axes = Axis::usual(rank);
    // The seed's style arrays had one more leading dimension.
    while axes.len() < rank {
        axes.insert(0, Axis::named(&format!("d{}", axes.len())));
    }
    axes
}

/// The arrays and multiscales below the group at `path`, descending through plain groups.
pub(crate) async fn unlisted(zarr: &Zarr, path: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut open = vec![String::new()];
    while let Some(below) = open.pop() {
        let here = join(path, &below);
        let nodes = zarr.children(&here).await?;
        if !zarr.is_consolidated() {
            // In the seed version, intermediate directories need not be groups.
            let plain = |name: &String| !name.starts_with('.') && !nodes.iter().any(|n| n.name() == name);
            let listing = zarr.store().list(&here).await?;
            if !below.is_empty() && listing.objects.iter().any(|name| name == JOURNAL) {
                // Created concurrently and not visible yet.
                continue;
            }
            let folders = listing.prefixes;
            open.extend(folders.iter().filter(|name| plain(name)).map(|name| join(&below, name)));
        }
        for node in nodes {
            let name = join(&below, node.name());
            match &node.meta {
                NodeMeta::Array(_) => found.push(name),
                NodeMeta::Group(meta) if !parse::group(&meta.attributes).multiscales.is_empty() => {
                    found.push(name)
                }
                NodeMeta::Group(_) => open.push(name),
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The node at `path`; `None` if there is none.
pub(crate) async fn node_at(zarr: &Zarr, path: &str) -> Result<Option<Node>> {
    match zarr.node(path).await {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        node => node.map(Some),
    }
}

/// Detects the OME-Zarr object at `path`.
#[boxed]
pub async fn find(zarr: &Zarr, path: &str) -> Result<Found> {
    let path = zarr.key_of(path)?;
    let node = zarr.node(&path).await?;
    let format = node.meta.format();
    let NodeMeta::Group(meta) = node.meta else {
        return Err(Error::invalid(
            "this is an array, not an image; open the group with the multiscales instead",
        )
        .with_node(shown(&path)));
    };
    let attributes = meta.attributes;
    let group = parse::group(&attributes);
    let has_levels = group.multiscales.iter().any(|m| !m.levels.is_empty());
    if has_levels {
        return Ok(Found::Image(Box::new(image(zarr, path, format, attributes, group).await?)));
    }
    let (version, _) = version_of(zarr, &path, format, &attributes, &group).await?;
    if let Some(plate) = group.plate {
        return Ok(Found::Plate { path, plate, version });
    }
    if let Some(well) = group.well {
        return Ok(Found::Well { path, well, version });
    }
    if group.layout {
        let images = series(zarr, &path).await?;
        return Ok(Found::Collection { path, images, version });
    }
    if let Some(listed) = group.listed {
        let images = listed.iter().map(|name| join(&path, name.trim_matches('/'))).collect();
        return Ok(Found::Collection { path, images, version });
    }
    Err(Error::invalid(
        "not an OME-Zarr: the group has no multiscales, plate, well, labels or bioformats2raw.layout",
    )
    .with_node(shown(&path)))
}

/// The image at `path`; an error if it is something else.
#[boxed]
pub async fn image_at(zarr: &Zarr, path: &str) -> Result<Image> {
    match find(zarr, path).await? {
        Found::Image(image) => Ok(*image),
        Found::Plate { path, .. } => Err(not_one("a plate", &path)),
        Found::Well { path, .. } => Err(not_one("a well", &path)),
        Found::Collection { path, images, .. } => match images.as_slice() {
            [] => Err(Error::not_found("the collection has no images").with_node(shown(&path))),
            [only] => Box::pin(image_at(zarr, only)).await,
            _ => Err(not_one(&format!("a collection of {} images", images.len()), &path)),
        },
    }
}

fn not_one(what: &str, path: &str) -> Error {
    usage!("this is {what}, not a single image; give the path of an image in it").with_node(shown(path))
}

/// The paths of all images at `path` and below it, in document order: the fields of wells, the series of a layout.
/// Labels are not included. A missing or broken well is listed itself.
#[boxed]
pub async fn images(zarr: &Zarr, path: &str) -> Result<Vec<String>> {
    match find(zarr, path).await? {
        Found::Image(image) => Ok(vec![image.path]),
        Found::Collection { images, .. } => Ok(images),
        Found::Well { path, well, .. } => Ok(fields(&path, &well)),
        Found::Plate { path, plate, .. } => {
            let wells = plate.wells.iter().map(|w| join(&path, w.path.trim_matches('/')));
            let found = futures::future::try_join_all(wells.map(|well| async move {
                match find(zarr, &well).await {
                    Ok(Found::Well { path, well, .. }) => Ok(fields(&path, &well)),
                    // Not a well, or missing: opening it reports that, and the other wells are not hidden.
                    Ok(_) => Ok(vec![well]),
                    Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Invalid) => Ok(vec![well]),
                    Err(e) => Err(e),
                }
            }))
            .await?;
            Ok(found.into_iter().flatten().collect())
        }
    }
}

fn fields(path: &str, well: &Well) -> Vec<String> {
    well.fields.iter().map(|f| join(path, f.path.trim_matches('/'))).collect()
}

async fn image(
    zarr: &Zarr,
    path: String,
    format: Format,
    attributes: Arc<Json>,
    group: Group,
) -> Result<Image> {
    let (version, assumed) = version_of(zarr, &path, format, &attributes, &group).await?;
    let multiscales = group.multiscales.into_iter().filter(|m| !m.levels.is_empty()).collect();
    Ok(Image { path, version, assumed, multiscales, omero: group.omero, label: group.label, attributes })
}

/// The version of a group, and whether it was inferred.
pub(crate) async fn version_of(
    zarr: &Zarr,
    path: &str,
    format: Format,
    attributes: &Json,
    group: &Group,
) -> Result<(ImageVersion, bool)> {
    let has_masks = || async {
        let node = node_at(zarr, &join(path, "masks")).await?;
        Ok::<_, Error>(node.is_some_and(|node| matches!(node.meta, NodeMeta::Group(_))))
    };
    match version::stated(attributes) {
        // Seed writers stated 0.1, too; masks identify them.
        Stated::Known(ImageVersion::V01, _) if has_masks().await? => Ok((ImageVersion::Seed, false)),
        Stated::Known(version, _) => Ok((version, false)),
        // A labels group has the version of its image.
        Stated::Nothing if group.listed.is_some() && group.multiscales.is_empty() => {
            let above = path.rsplit_once('/').map_or("", |(above, _)| above);
            match zarr.node(above).await.map(|node| version::stated(node.meta.attributes())) {
                Ok(Stated::Known(version, _)) if !path.is_empty() => Ok((version, true)),
                _ => Ok((version::assumed(attributes, format, None, path.ends_with("masks")), true)),
            }
        }
        Stated::Unknown(_) | Stated::Nothing => {
            let first = group.multiscales.iter().find_map(|m| m.levels.first());
            let mut separator = None;
            if let Some(level) = first
                && let Ok(node) = zarr.node(&join(path, level.path.trim_matches('/'))).await
                && let NodeMeta::Array(meta) = node.meta
            {
                separator = Some(meta.keys.separator);
            }
            let masks = format == Format::V2 && has_masks().await?;
            Ok((version::assumed(attributes, format, separator, masks), true))
        }
    }
}

/// The images of a `bioformats2raw.layout`: those of the plate, those listed in `OME`, or 0, 1, 2 and so on.
async fn series(zarr: &Zarr, path: &str) -> Result<Vec<String>> {
    let ome = node_at(zarr, &join(path, "OME")).await?;
    if let Some(listed) = ome.and_then(|node| parse::group(node.meta.attributes()).series) {
        return Ok(listed.iter().map(|name| join(path, name.trim_matches('/'))).collect());
    }
    let mut images = Vec::new();
    for number in 0u64.. {
        let image = join(path, &number.to_string());
        if node_at(zarr, &image).await?.is_none() {
            break;
        }
        images.push(image);
    }
    Ok(images)
}
