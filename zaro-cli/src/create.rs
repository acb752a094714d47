//! `zaro create`: create an empty array or a group.

use clap::Args;
use zaro::hierarchy::{self, Existing};
use zaro::meta::{Json, MemoryLayout, NewArray};
use zaro::{Error, Result};

use crate::args::{Common, Target};
use crate::making::{self, Extents, Making};

const EXAMPLES: &str = "\
Examples:
  An array with default settings (zstd, chunks of up to 1 MiB):
      zaro create data.zarr temperature --shape 365,180,360 --dtype float32 --fill NaN
  In shards, with named dimensions and attributes:
      zaro create data.zarr sst --shape 365,180,360 --dtype int16 --chunks 1,90,90 \\
          --shards 73,180,360 --codec blosc:zstd:5 --dims time,lat,lon --attrs '{\"units\": \"K\"}'
  A Zarr V2 array on its own:
      zaro create old.zarr --shape 100 --dtype '<i2' --codec zlib:6 --zarr-format 2
  A group:
      zaro create data.zarr winter --group --attrs @winter.json
  Like another array, but shorter:
      zaro create data.zarr part --like data.zarr/temperature --shape 31,180,360

Missing parent groups are created too. Without --zarr-format, a node has the version of its
parent group, else 3.";

/// Create an array or a group
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Create {
    #[command(flatten)]
    target: Target,
    /// Shape of the array; '' for a scalar
    #[arg(long, value_name = "N,N,…", value_parser = making::parse_extents)]
    shape: Option<Extents>,
    /// Create a group instead of an array
    #[arg(long, conflicts_with_all = ["shape", "like", "order", "dtype", "chunks", "shards", "codec", "fill", "endian", "separator", "key_encoding", "dims"])]
    group: bool,
    /// Copy unspecified settings from this array, such as data.zarr/temperature
    #[arg(long, value_name = "URI")]
    like: Option<String>,
    #[command(flatten)]
    making: Making,
    /// Order of elements within a chunk: C (last dimension fastest), F, or dimensions such as 2,0,1
    #[arg(long, value_name = "ORDER", help_heading = "How it is stored")]
    order: Option<MemoryLayout>,
    /// Replace an existing node and everything below it
    #[arg(long)]
    overwrite: bool,
    /// Write consolidated metadata in the root group (fewer requests for remote readers)
    #[arg(long)]
    consolidate: bool,
}

impl Create {
    /// Runs the command.
    pub(crate) async fn run(&self, common: &Common) -> Result<()> {
        let existing = if self.overwrite { Existing::Replace } else { Existing::Refuse };
        let (store, path) = common.open_for_writing(&self.target, false).await?;
        if self.consolidate && path.is_empty() && !self.group {
            return Err(Error::usage("--consolidate needs a root group; here the root is an array"));
        }
        if self.group {
            let attributes = self.making.attrs.as_deref().map(making::attributes_of).transpose()?;
            let format = zaro::create::format_for(&store, &path, common.format()).await?;
            let attributes = Json::Object(attributes.unwrap_or_default());
            hierarchy::create_group(&store, &path, format, &attributes, existing).await?;
        } else {
            let mut new = self.described(common).await?;
            if self.like.is_none() || common.format().is_some() {
                new.format = zaro::create::format_for(&store, &path, common.format()).await?;
            }
            self.making.apply(&mut new)?;
            if let Some(order) = &self.order {
                new.layout = order.clone();
            }
            hierarchy::create_array(&store, &path, &new, existing).await?;
        }
        if self.consolidate {
            hierarchy::consolidate(&store, "").await?;
        }
        store.finish().await?;
        common.note(&format!("created {} in {store}", zaro::internal::path::shown(&path)));
        Ok(())
    }

    /// The array with its shape and type, and the settings of `--like`.
    async fn described(&self, common: &Common) -> Result<NewArray> {
        let mut new = match &self.like {
            Some(uri) => NewArray::like(common.open(uri).await?.array("").await?.meta())?,
            None => NewArray::default(),
        };
        match (&self.shape, self.like.is_none()) {
            (Some(shape), _) => new.shape.clone_from(&shape.0),
            (None, true) => return Err(Error::usage("add --shape and --dtype for an array, or --group")),
            (None, false) => {}
        }
        match (self.making.data_type()?, self.like.is_none()) {
            (Some((t, endian)), _) => {
                if t != new.data_type {
                    // A fill value and codecs of another type need not fit.
                    (new.fill, new.codecs) = (None, None);
                }
                new.data_type = t;
                new.endian = endian.unwrap_or(new.endian);
            }
            (None, true) => {
                return Err(Error::usage("the data type is missing; add it, such as --dtype float32"));
            }
            (None, false) => {}
        }
        Ok(new)
    }
}
