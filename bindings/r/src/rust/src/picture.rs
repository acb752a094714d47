//! OME-Zarr images: what they are, and pictures of them.

use zaro::Result;
use zaro::image::ImageOverview;
use zaro::image::render::{
    ChannelSetting, Depth, LabelChoice, Picture, Projection, Region, Request, Settings, Size, View, render_to,
};

use crate::call::{Call, Stop, wait};
use crate::handles::{context, handle, path_of};
use crate::value::{Value, of_json};

/// Images, levels, channels, labels; the wells of a plate.
pub(crate) fn overview(call: &Call, args: &Value) -> Result<Value, Stop> {
    let handle = handle(call, args)?;
    let path = path_of(args)?;
    let json =
        call.run(|task| wait(task, async { Ok(ImageOverview::of(&handle.zarr, &path).await?.to_json()) }))?;
    Ok(of_json(&json))
}

fn request(args: &Value) -> Result<Request> {
    let channels: Result<Vec<ChannelSetting>> =
        args.texts("channels").iter().map(|c| ChannelSetting::parse(c)).collect();
    let labels = args.texts("labels");
    let labels = match labels.as_slice() {
        [] => LabelChoice::None,
        names if names.iter().any(|n| n == "all") => LabelChoice::All,
        _ => LabelChoice::Named(labels),
    };
    let z = args.wholes("z")?;
    let range = match z.as_slice() {
        [first, .., last] => Some(*first..last.saturating_add(1)),
        _ => None,
    };
    let depth = match (args.text("project"), z.as_slice()) {
        (Some("mean"), _) => Depth::Projected(Projection::Mean, range),
        (Some(_), _) => Depth::Projected(Projection::Max, range),
        (None, [z]) => Depth::Plane(*z),
        (None, []) => Depth::Default,
        (None, _) => {
            return Err(zaro::Error::usage("several planes need project = \"max\" or \"mean\""));
        }
    };
    let level = args.number("level")?;
    Ok(Request {
        settings: Settings {
            channels: channels?,
            labels,
            opacity: args.get("opacity").reals().first().copied().unwrap_or(1.0),
            memory: context().memory() / 2,
            ..Settings::default()
        },
        view: View {
            region: args.text("crop").map(Region::parse).transpose()?,
            size: args.text("size").map(Size::parse).transpose()?,
            level: level.and_then(|n| usize::try_from(n).ok()),
            depth,
            t: args.number("t")?,
        },
        field: args.number("field")?.and_then(|n| usize::try_from(n).ok()),
        ..Request::default()
    })
}

/// A picture: red, green, blue and opacity of each pixel, row by row.
pub(crate) fn render(call: &Call, args: &Value) -> Result<Value, Stop> {
    let handle = handle(call, args)?;
    let path = path_of(args)?;
    let request = request(args)?;
    let (picture, drawn) = call.run(|task| {
        let mut picture = Picture { width: 0, height: 0, rgba: Vec::new() };
        let drawn = wait(task, render_to(&handle.zarr, &path, &request, &mut picture))?;
        Ok((picture, drawn))
    })?;
    for note in &drawn.notes {
        call.warn("image", note.clone());
    }
    let channels: Vec<(String, Value)> = drawn
        .look
        .channels
        .iter()
        .map(|c| {
            let [r, g, b] = c.color;
            let one = Value::from([
                ("index", c.index.into()),
                ("label", c.label.clone().into()),
                ("color", format!("#{r:02X}{g:02X}{b:02X}").into()),
                ("start", c.curve.start.into()),
                ("end", c.curve.end.into()),
            ]);
            (String::new(), one)
        })
        .collect();
    Ok(Value::from([
        ("width", Value::from(u64::from(picture.width))),
        ("height", Value::from(u64::from(picture.height))),
        ("rgba", Value::Raw(picture.rgba)),
        ("channels", Value::List(channels)),
    ]))
}
