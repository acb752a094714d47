//! OME-XML: parses image metadata, and writes the document without pixels.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, Writer};

use super::ImageSource;
use crate::error::{Error, Result, invalid};

/// The maximum number of images, channels or blocks in one document.
const MAX_ITEMS: usize = 1 << 22;

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct OmeDocument {
    /// The UUID of its file.
    pub(super) uuid: Option<String>,
    /// The file that has the document, if this one only refers to it.
    pub(super) elsewhere: Option<String>,
    pub(super) images: Vec<OmeImage>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct OmeImage {
    pub(super) name: Option<String>,
    /// t, c, z, y, x.
    pub(super) sizes: [u64; 5],
    /// `DimensionOrder`, such as XYZCT: the first varies fastest.
    pub(super) order: String,
    /// Along t, z, y, x: the size and its unit.
    pub(super) t: (Option<f64>, Option<String>),
    pub(super) z: (Option<f64>, Option<String>),
    pub(super) y: (Option<f64>, Option<String>),
    pub(super) x: (Option<f64>, Option<String>),
    pub(super) channels: Vec<OmeChannel>,
    pub(super) blocks: Vec<TiffBlock>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct OmeChannel {
    pub(super) name: Option<String>,
    pub(super) color: Option<[u8; 3]>,
    pub(super) samples: u64,
    /// In nanometers.
    pub(super) emission: Option<f64>,
}

/// A `TiffData`: planes in a file.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct TiffBlock {
    pub(super) ifd: Option<u64>,
    pub(super) count: Option<u64>,
    /// t, c, z of the first.
    pub(super) first: [u64; 3],
    pub(super) file: Option<String>,
    pub(super) uuid: Option<String>,
}

pub(super) fn is_ome(text: &str) -> bool {
    let head: String = text.chars().take(4096).collect();
    text.starts_with('<') && (head.contains("<OME") || head.contains(":OME"))
}

fn damaged(e: impl std::fmt::Display) -> Error {
    invalid!("the OME-XML is damaged: {e}")
}

/// The attributes of an element, read when asked for.
struct XmlAttributes<'a>(&'a BytesStart<'a>);

impl XmlAttributes<'_> {
    fn text(&self, name: &str) -> Option<String> {
        let found = self.0.attributes().flatten().find(|a| a.key.local_name().as_ref() == name.as_bytes())?;
        let raw = String::from_utf8_lossy(&found.value);
        Some(match quick_xml::escape::unescape(&raw) {
            Ok(text) => text.into_owned(),
            Err(_) => raw.into_owned(),
        })
    }

    fn count(&self, name: &str) -> Result<Option<u64>> {
        match self.text(name) {
            None => Ok(None),
            Some(text) => match text.trim().parse() {
                Ok(n) => Ok(Some(n)),
                Err(_) => Err(invalid!("OME-XML: {name} is {text:?}, expected a non-negative integer")),
            },
        }
    }

    fn size(&self, name: &str) -> Result<u64> {
        match self.count(name)? {
            Some(n) if n > 0 => Ok(n),
            Some(_) => Err(invalid!("OME-XML: {name} is 0")),
            None => Err(invalid!("OME-XML: {name} is missing")),
        }
    }

    fn float(&self, name: &str) -> Option<f64> {
        self.text(name)?.trim().parse().ok().filter(|x: &f64| x.is_finite() && *x > 0.0)
    }
}

pub(super) fn parse(text: &str) -> Result<OmeDocument> {
    let mut reader = Reader::from_str(text);
    reader.config_mut().check_end_names = false;
    let mut document = OmeDocument::default();
    let mut in_uuid = false;
    let mut in_pixels = false;
    let mut items = 0usize;
    loop {
        let event = reader.read_event().map_err(damaged)?;
        items += 1;
        if items > MAX_ITEMS * 4 {
            return Err(Error::unsupported("OME-XML with so many elements is not supported"));
        }
        let (start, is_empty) = match &event {
            Event::Start(start) => (start, false),
            Event::Empty(start) => (start, true),
            Event::Text(text) if in_uuid => {
                let uuid = String::from_utf8_lossy(text).trim().to_owned();
                if let Some(block) = document.images.last_mut().and_then(|i| i.blocks.last_mut())
                    && !uuid.is_empty()
                {
                    block.uuid = Some(uuid);
                }
                continue;
            }
            Event::End(end) => {
                match end.local_name().as_ref() {
                    b"UUID" => in_uuid = false,
                    b"Pixels" => in_pixels = false,
                    _ => {}
                }
                continue;
            }
            Event::Eof => return Ok(document),
            _ => continue,
        };
        let a = XmlAttributes(start);
        let image = document.images.last_mut();
        match (start.local_name().as_ref(), image) {
            (b"OME", _) => document.uuid = a.text("UUID"),
            (b"BinaryOnly", _) => document.elsewhere = a.text("MetadataFile"),
            (b"Image", _) => {
                document
                    .images
                    .push(OmeImage { name: a.text("Name").filter(|n| !n.is_empty()), ..OmeImage::default() });
            }
            (b"Pixels", Some(image)) => {
                in_pixels = !is_empty;
                read_pixels(&a, image)?;
            }
            (b"Channel", Some(image)) if in_pixels => image.channels.push(read_channel(&a)?),
            (b"TiffData", Some(image)) if in_pixels => image.blocks.push(read_block(&a)?),
            (b"UUID", Some(image)) if in_pixels => {
                if let Some(block) = image.blocks.last_mut() {
                    block.file = a.text("FileName");
                    in_uuid = !is_empty;
                }
            }
            _ => {}
        }
    }
}

fn read_pixels(a: &XmlAttributes<'_>, image: &mut OmeImage) -> Result<()> {
    image.sizes = [a.size("SizeT")?, a.size("SizeC")?, a.size("SizeZ")?, a.size("SizeY")?, a.size("SizeX")?];
    image.order = a.text("DimensionOrder").unwrap_or_else(|| "XYZCT".to_owned());
    image.t = (a.float("TimeIncrement"), a.text("TimeIncrementUnit"));
    image.z = (a.float("PhysicalSizeZ"), a.text("PhysicalSizeZUnit"));
    image.y = (a.float("PhysicalSizeY"), a.text("PhysicalSizeYUnit"));
    image.x = (a.float("PhysicalSizeX"), a.text("PhysicalSizeXUnit"));
    Ok(())
}

fn read_channel(a: &XmlAttributes<'_>) -> Result<OmeChannel> {
    // Red, green, blue, alpha from the highest byte on, as a signed number; some writers use unsigned.
    let color = a.text("Color").and_then(|text| text.trim().parse::<i64>().ok());
    let bits = color
        .and_then(|n| i32::try_from(n).map(i32::to_be_bytes).or(u32::try_from(n).map(u32::to_be_bytes)).ok());
    // Some writers use this as a default: white with alpha 0 means no colour.
    let emission = a.float("EmissionWavelength").map(|n| match a.text("EmissionWavelengthUnit").as_deref() {
        Some("\u{b5}m" | "\u{3bc}m" | "um") => n * 1000.0,
        _ => n,
    });
    Ok(OmeChannel {
        name: a.text("Name").filter(|n| !n.is_empty()),
        color: bits.map(|[r, g, b, _]| [r, g, b]),
        samples: a.count("SamplesPerPixel")?.unwrap_or(1).max(1),
        emission,
    })
}

fn read_block(a: &XmlAttributes<'_>) -> Result<TiffBlock> {
    let or_zero = |name: &str| a.count(name).map(|n| n.unwrap_or(0));
    Ok(TiffBlock {
        ifd: a.count("IFD")?,
        count: a.count("PlaneCount")?.or(a.count("NumPlanes")?),
        first: [or_zero("FirstT")?, or_zero("FirstC")?, or_zero("FirstZ")?],
        file: None,
        uuid: None,
    })
}

/// The OME-XML of several images without pixels, for a `bioformats2raw.layout`: that of the file if it has one, else a
/// new one from the known metadata.
pub fn metadata_only(images: &[Arc<ImageSource>]) -> Result<String> {
    match images.iter().find_map(|i| i.xml.clone()) {
        Some(xml) => stripped(&xml),
        None => Ok(written(images)),
    }
}

/// The same document with `MetadataOnly` in place of pixels.
fn stripped(xml: &str) -> Result<String> {
    let mut reader = Reader::from_str(xml);
    reader.config_mut().check_end_names = false;
    let mut writer = Writer::new(Vec::new());
    let mut skipped = 0usize;
    // Whether the open Pixels element still needs it.
    let mut wanted = false;
    let put = |writer: &mut Writer<Vec<u8>>, event: Event<'_>| writer.write_event(event).map_err(damaged);
    let empty = || Event::Empty(BytesStart::new("MetadataOnly"));
    loop {
        let event = reader.read_event().map_err(damaged)?;
        let (name, ends) = match &event {
            Event::Start(s) | Event::Empty(s) => (s.local_name().as_ref().to_vec(), false),
            Event::End(e) => (e.local_name().as_ref().to_vec(), true),
            _ => (Vec::new(), false),
        };
        let is_data = matches!(name.as_slice(), b"TiffData" | b"BinData" | b"MetadataOnly");
        let follows = if ends { name == b"Pixels" } else { is_data || name == b"Plane" };
        if wanted && skipped == 0 && follows {
            put(&mut writer, empty())?;
            wanted = false;
        }
        match event {
            Event::Eof => break,
            Event::Start(_) if skipped > 0 || is_data => skipped += 1,
            Event::End(_) if skipped > 0 => skipped -= 1,
            _ if skipped > 0 => {}
            Event::Empty(_) if is_data => {}
            Event::Empty(s) if name == b"Pixels" => {
                let end = s.to_end().into_owned();
                put(&mut writer, Event::Start(s))?;
                put(&mut writer, empty())?;
                put(&mut writer, Event::End(end))?;
            }
            other => {
                wanted |= matches!(other, Event::Start(_)) && name == b"Pixels";
                put(&mut writer, other)?;
            }
        }
    }
    String::from_utf8(writer.into_inner()).map_err(damaged)
}

fn escaped(text: &str) -> Cow<'_, str> {
    quick_xml::escape::escape(text)
}

/// Writes a new document from the known metadata of the images.
fn written(images: &[Arc<ImageSource>]) -> String {
    let mut out = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<OME xmlns=\"http://www.openmicroscopy.org/Schemas/OME/2016-06\">\n",
    );
    for (i, image) in images.iter().enumerate() {
        let [t, c, z, y, x] = image.sizes;
        let kind = match image.data_type.to_string().as_str() {
            "float32" => "float".to_owned(),
            "float64" => "double".to_owned(),
            other => other.to_owned(),
        };
        let _ = writeln!(out, "<Image ID=\"Image:{i}\" Name=\"{}\">", escaped(&image.name));
        let _ = write!(
            out,
            "<Pixels ID=\"Pixels:{i}\" DimensionOrder=\"XYZCT\" Type=\"{kind}\" SizeX=\"{x}\" SizeY=\"{y}\" \
             SizeZ=\"{z}\" SizeC=\"{c}\" SizeT=\"{t}\""
        );
        for (axis, name) in [(super::X, "X"), (super::Y, "Y"), (super::Z, "Z")] {
            let size = image.scale.get(axis).copied().flatten();
            let unit = image.units.get(axis).cloned().flatten();
            if let (Some(size), Some("micrometer")) = (size, unit.as_deref()) {
                let _ = write!(out, " PhysicalSize{name}=\"{size}\"");
            }
        }
        out.push_str(">\n");
        for k in 0..c.min(1 << 14) {
            let name =
                usize::try_from(k).ok().and_then(|k| image.channels.get(k)).and_then(|c| c.label.clone());
            let _ = write!(out, "<Channel ID=\"Channel:{i}:{k}\" SamplesPerPixel=\"1\"");
            if let Some(name) = name {
                let _ = write!(out, " Name=\"{}\"", escaped(&name));
            }
            out.push_str("/>\n");
        }
        out.push_str("<MetadataOnly/>\n</Pixels>\n</Image>\n");
    }
    out.push_str("</OME>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const XML: &str = r#"<?xml version="1.0"?><ome:OME xmlns:ome="x" UUID="urn:uuid:a">
<ome:Image ID="Image:0" Name="a &amp; b"><ome:Pixels DimensionOrder="XYCZT" SizeT="1" SizeC="2" SizeZ="3" SizeY="4" SizeX="5"
 PhysicalSizeX="0.25" PhysicalSizeXUnit="µm" TimeIncrement="-1">
<ome:Channel ID="Channel:0" Name="DNA" Color="-16776961" SamplesPerPixel="1"><ome:LightPath/></ome:Channel>
<ome:Channel ID="Channel:1" EmissionWavelength="525.5"/>
<ome:TiffData IFD="2" PlaneCount="1" FirstZ="1"><ome:UUID FileName="b.tif">urn:uuid:b</ome:UUID></ome:TiffData>
<ome:TiffData/><ome:Plane TheZ="0"/></ome:Pixels></ome:Image></ome:OME>"#;

    #[test]
    fn images_channels_and_blocks_are_read() {
        let document = parse(XML).unwrap();
        assert_eq!(document.uuid.as_deref(), Some("urn:uuid:a"));
        let [image] = document.images.as_slice() else { panic!("{document:?}") };
        assert_eq!(image.name.as_deref(), Some("a & b"));
        assert_eq!((image.sizes, image.order.as_str()), ([1, 2, 3, 4, 5], "XYCZT"));
        assert_eq!(image.x, (Some(0.25), Some("µm".into())));
        assert_eq!(image.t.0, None);
        assert_eq!(image.channels[0].color, Some([255, 0, 0]));
        assert_eq!(image.channels[1].emission, Some(525.5));
        assert_eq!(
            image.blocks[0],
            TiffBlock {
                ifd: Some(2),
                count: Some(1),
                first: [0, 0, 1],
                file: Some("b.tif".into()),
                uuid: Some("urn:uuid:b".into())
            }
        );
        assert_eq!(image.blocks[1], TiffBlock::default());
    }

    #[test]
    fn pixels_are_replaced_once() {
        let text = stripped(XML).unwrap();
        assert_eq!(text.matches("MetadataOnly").count(), 1);
        assert!(!text.contains("TiffData") && text.contains("Plane TheZ") && text.contains("LightPath"));
        let none = stripped("<OME><Image><Pixels SizeX=\"1\"/></Image></OME>").unwrap();
        assert_eq!(none.matches("<MetadataOnly/>").count(), 1);
    }

    #[test]
    fn damaged_documents_are_errors() {
        for text in ["<OME><Image><Pixels SizeT=\"x\"/>", "<OME><Image><Pixels/>", "<OME><Image a=<"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
