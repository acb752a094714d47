#' References of a virtual Zarr as a table
#'
#' One row for each chunk of a store of references (Kerchunk's JSON or Parquet, an
#' Icechunk repository): where its bytes are.
#'
#' @param store What [zaro()] returns, or an address.
#' @param path An array, or a group for all arrays below it.
#' @return A data frame with the columns `array`, `key`, the index of the chunk from 0
#'   in a column for each dimension (of one array), `path`, `offset`, `length` and
#'   `inline`, a list of raw vectors. A tibble if 'tibble' is attached.
#' @examples
#' refs <- file.path(tempdir(), "refs.json")
#' writeLines('{".zgroup": "{\"zarr_format\": 2}",
#'   "x/.zarray": "{\"zarr_format\": 2, \"shape\": [4], \"chunks\": [2], \"dtype\": \"|u1\",
#'     \"compressor\": null, \"filters\": null, \"fill_value\": 0, \"order\": \"C\"}",
#'   "x/0": "ab", "x/1": ["file.bin", 10, 2]}', refs)
#' zaro_refs(refs, "x")
#' @export
zaro_refs <- function(store, path = "") {
  tables <- native("refs", store = resolved(as_store(store)), path = path)
  one <- function(name) {
    t <- tables[[name]]
    out <- data.frame(array = rep(name, length(t$key)), key = as.character(t$key))
    if (length(tables) == 1) for (d in names(t$index)) out[[d]] <- t$index[[d]]
    out$path <- as.character(t$path)
    out$offset <- t$offset
    out$length <- t$length
    out$inline <- I(t$inline)
    out
  }
  out <- do.call(rbind, lapply(names(tables), one))
  if (is.null(out)) out <- data.frame(array = character(), key = character(), path = character(), offset = numeric(), length = numeric())
  if ("package:tibble" %in% search()) tibble::as_tibble(out) else out
}

#' Versions of a Zarr
#'
#' Branches and tags of an Icechunk repository, or the manifests of an archive.
#'
#' @param store What [zaro()] returns, or an address: of the repository, or of the folder
#'   of manifests.
#' @param zarr The Zarr whose versions are wanted, if the archive has several.
#' @return A data frame: `kind` (`branch`, `tag` or `manifest`), `name`, `version` (a
#'   snapshot or a checksum, for `at` of [zaro()]), `modified`, `files` and `size`.
#' @seealso [zaro_manifest()], which records one.
#' @examples
#' archive <- file.path(tempdir(), "archive")
#' zaro_manifest(zaro_demo(), archive, zarr = "ocean-1")
#' zaro_versions(archive, zarr = "ocean-1")
#' @export
zaro_versions <- function(store, zarr = NULL) {
  store <- as_store(store)
  if (!is.null(zarr)) store$options$zarr <- zarr
  out <- as.data.frame(native("versions", store = resolved(store)))
  out$modified <- .POSIXct(out$modified, tz = "UTC")
  out
}

#' Checksum and manifest of a Zarr
#'
#' `zaro_checksum()` gives the Dandi Zarr checksum: one line that stands for all files.
#' `zaro_manifest()` writes a document that lists them, under a name of its own, or into
#' an archive under the identifier of the Zarr.
#'
#' @param store A folder, or a Zarr in a bucket for `zaro_checksum()`.
#' @param all_files Whether files count that are not part of a Zarr, such as `.git`.
#' @param to A file, or with `zarr` the folder of an archive.
#' @param zarr The identifier of the Zarr.
#' @return The checksum; for `zaro_manifest()` a list of `file` and `checksum`, invisibly.
#' @examples
#' zaro_checksum(zaro_demo())
#' @export
zaro_checksum <- function(store, all_files = FALSE) {
  native("checksum", store = resolved(as_store(store)), all_files = isTRUE(all_files))
}

#' @rdname zaro_checksum
#' @export
zaro_manifest <- function(store, to, zarr = NULL) {
  invisible(native("manifest", store = resolved(as_store(store)), to = path.expand(to), zarr = zarr))
}

#' Check a Zarr against the rules
#'
#' @param store What [zaro()] returns, or an address.
#' @param path The node to begin at.
#' @param data Whether to read and decode every chunk as well.
#' @return A data frame of faults: `level` (`error` or `warning`), `node`, `field`,
#'   `rule` and `message`; no rows if there are none.
#' @examples
#' zaro_validate(zaro_demo(), data = TRUE)
#' @export
zaro_validate <- function(store, path = "", data = FALSE) {
  out <- native("validate", store = resolved(as_store(store)), path = path, data = isTRUE(data))
  columns <- c("level", "node", "field", "rule", "message")
  found <- as.data.frame(lapply(stats::setNames(out[columns], columns), as.character))
  attr(found, "nodes") <- out$nodes
  attr(found, "chunks") <- out$chunks
  found
}

#' Render an OME-Zarr image
#'
#' Renders an image, a well or a plate: channels with their colours and windows, labels
#' on top. Only the chunks of the level that the size needs are read.
#'
#' @param store What [zaro()] returns, or an address.
#' @param path The image, well or plate.
#' @param size The size in pixels: one number for the longer side, or two.
#' @param level The resolution level, from 0; by default the one that the size needs.
#' @param z,t The plane and the time, from 0; several planes with `project`.
#' @param project `"max"` or `"mean"` over `z`.
#' @param channels Channels to show, by name or number, each with settings if wanted, such
#'   as `"DAPI:color=00FF00,window=0..4000"`.
#' @param labels Names of label images to draw, or `"all"`.
#' @param opacity How opaque labels are, from 0 to 1.
#' @param crop A part: x, y, width and height, in pixels of the full resolution.
#' @param field The field of a well, from 0.
#' @return `zaro_image()`: an array of height, width and 4 (red, green, blue, opacity)
#'   from 0 to 1, for [graphics::rasterImage()], with a `plot()` method.
#'   `zaro_image_info()`: a list of what is there: levels, axes, channels, labels, wells.
#' @examples
#' path <- file.path(tempdir(), "picture.zarr")
#' if (!file.exists(path)) {
#'   zaro_create(path, attributes = list(multiscales = list(list(
#'     version = "0.4", axes = list(list(name = "y", type = "space"), list(name = "x", type = "space")),
#'     datasets = list(list(path = "0", coordinateTransformations =
#'       list(list(type = "scale", scale = c(1, 1)))))))), zarr_format = 2)
#'   zaro_write(path, "0", outer(0:63, 0:95, "+"), create = TRUE, data_type = "uint8", zarr_format = 2)
#' }
#' picture <- zaro_image(path)
#' dim(picture)
#' plot(picture)
#' @export
zaro_image <- function(store, path = "", size = NULL, level = NULL, z = NULL, t = NULL, project = NULL,
                       channels = NULL, labels = NULL, opacity = 1, crop = NULL, field = NULL) {
  out <- native("render",
    store = resolved(as_store(store)), path = path,
    size = if (!is.null(size)) paste(format(size, scientific = FALSE, trim = TRUE), collapse = "x"),
    level = level, z = z, t = t, project = project,
    channels = if (!is.null(channels)) as.character(channels), labels = labels, opacity = opacity,
    crop = if (!is.null(crop)) paste(format(crop, scientific = FALSE, trim = TRUE), collapse = ","), field = field
  )
  # Bytes are red, green, blue, opacity of one pixel after the other, row by row.
  rgba <- array(as.integer(out$rgba) / 255, c(4, out$width, out$height))
  structure(aperm(rgba, c(3, 2, 1)), channels = out$channels, class = c("zaro_image", "array"))
}

#' @rdname zaro_image
#' @export
zaro_image_info <- function(store, path = "") native("image", store = resolved(as_store(store)), path = path)

#' @export
print.zaro_image <- function(x, ...) {
  cat("<zaro_image> ", dim(x)[2], " x ", dim(x)[1], " pixels\n", sep = "")
  for (c in attr(x, "channels")) {
    cat("  channel ", c$index, if (!is.null(c$label)) paste0(" (", c$label, ")"), ": ", c$color, ", ", c$start, " to ", c$end, "\n", sep = "")
  }
  invisible(x)
}

#' @export
plot.zaro_image <- function(x, ...) {
  old <- graphics::par(mar = c(0, 0, 0, 0))
  on.exit(graphics::par(old))
  graphics::plot.new()
  graphics::plot.window(c(0, dim(x)[2]), c(0, dim(x)[1]), asp = 1)
  graphics::rasterImage(structure(unclass(x), channels = NULL), 0, 0, dim(x)[2], dim(x)[1], interpolate = FALSE)
  invisible(x)
}
