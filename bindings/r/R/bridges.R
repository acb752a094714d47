# Bridges to other packages, none of which is needed otherwise.

need <- function(package) {
  if (!requireNamespace(package, quietly = TRUE)) fail("unsupported", "this needs the package '", package, "'")
}

#' A lazy array as a table
#'
#' One row for each element: its coordinates, or positions from 0 where there are none,
#' and its value.
#'
#' @param x A [zaro_array()].
#' @param row.names,optional Not used.
#' @param ... Not used.
#' @return A data frame; a tibble if 'tibble' is attached.
#' @examples
#' sst <- zaro_array(zaro_demo(), "sst")
#' head(as.data.frame(zaro_sel(sst, month = "2000-07", lat = c(0, 10))))
#' @export
as.data.frame.zaro_array <- function(x, row.names = NULL, optional = FALSE, ...) {
  at <- kept(x)
  values <- materialise(x)
  n <- dim(x)
  axes <- coordinates(x, at)
  out <- list()
  before <- 1
  for (k in seq_along(at)) {
    v <- or(axes[[k]], seq_len(n[k]) - 1)
    name <- if (is.null(x$names) || is.na(x$names[at[k]])) paste0("dim", at[k] - 1) else x$names[at[k]]
    after <- length(x) / before / max(n[k], 1)
    out[[name]] <- rep(rep(v, each = before), times = after)
    before <- before * n[k]
  }
  classes <- attributes(values)[c("class", "tzone", "units")]
  value <- if (is.list(values)) I(unlist_dim(values)) else as.vector(values)
  for (name in names(classes)[!vapply(classes, is.null, NA)]) attr(value, name) <- classes[[name]]
  out[[variable(x)]] <- value
  out <- structure(out, class = "data.frame", row.names = .set_row_names(length(value)))
  if ("package:tibble" %in% search()) tibble::as_tibble(out) else out
}

unlist_dim <- function(x) {
  dim(x) <- NULL
  x
}

# What a dimension is, by its coordinate's attributes: "x", "y", "time" or "".
role <- function(x, d) {
  path <- native("coordinates", store = resolved(x$store), path = x$path)[d]
  attributes <- if (!is.na(path)) array_meta(x$store, path)@attributes else list()
  name <- tolower(if (is.null(x$names) || is.na(x$names[d])) "" else x$names[d])
  text <- function(key) if (is.character(attributes[[key]])) attributes[[key]][1] else ""
  standard <- text("standard_name")
  units <- text("units")
  if (grepl("^degrees?_?east$|^degrees?_?E$", units, ignore.case = TRUE) ||
      standard %in% c("longitude", "projection_x_coordinate") || text("axis") == "X" ||
      name %in% c("lon", "longitude", "x")) return("x")
  if (grepl("^degrees?_?north$|^degrees?_?N$", units, ignore.case = TRUE) ||
      standard %in% c("latitude", "projection_y_coordinate") || text("axis") == "Y" ||
      name %in% c("lat", "latitude", "y")) return("y")
  if (standard == "time" || text("axis") == "T" || grepl(" since ", units)) return("time")
  ""
}

# The reference system: what the grid mapping says, or longitudes and latitudes.
crs_of <- function(x) {
  mapping <- array_meta(x$store, x$path)@attributes$grid_mapping
  if (is.character(mapping)) {
    group <- dirname(x$path)
    path <- if (group == ".") mapping else paste0(group, "/", mapping)
    attributes <- tryCatch(array_meta(x$store, path)@attributes, zaro_error = function(e) list())
    wkt <- or(attributes$crs_wkt, attributes$spatial_ref)
    if (is.character(wkt)) return(wkt)
  }
  at <- kept(x)
  paths <- native("coordinates", store = resolved(x$store), path = x$path)[at]
  units <- vapply(paths, function(p) {
    unit <- if (!is.na(p)) array_meta(x$store, p)@attributes$units
    if (is.character(unit)) unit[1] else ""
  }, "")
  if (any(grepl("^degrees?_?(east|E)$", units)) && any(grepl("^degrees?_?(north|N)$", units))) "EPSG:4326" else NA_character_
}

#' A lazy array as a stars object
#'
#' Reads it, decoded by CF, with the dimensions (x, y, time), coordinates, and the
#' reference system. Regular coordinates are taken as the centres of cells.
#'
#' @param .x A [zaro_array()].
#' @param ... Not used.
#' @return A `stars` object.
#' @examplesIf requireNamespace("stars", quietly = TRUE)
#' sst <- zaro_array(zaro_demo(), "sst")
#' stars::st_as_stars(zaro_sel(sst, month = "2000-07"))
#' @exportS3Method stars::st_as_stars
st_as_stars.zaro_array <- function(.x, ...) {
  need("stars")
  x <- .x
  x$order <- "reversed"
  x$cf <- TRUE
  at <- kept(x)
  axes <- coordinates(x, at)
  roles <- vapply(at, function(d) role(x, d), "")
  values <- materialise(x)
  classes <- attributes(values)
  if (is.null(dim(values))) dim(values) <- length(values)
  names <- names(dim(x))
  if (is.null(names)) names <- paste0("dim", at - 1)
  dim(values) <- stats::setNames(as.integer(dim(values)), names)
  unit <- array_meta(x$store, x$path)@attributes$units
  out <- stars::st_as_stars(stats::setNames(list(values), variable(x)))
  for (k in seq_along(at)) {
    v <- axes[[k]]
    if (is.null(v)) next
    spatial <- roles[k] %in% c("x", "y")
    if (spatial && is_regular(v)) {
      # stars counts from the edge of the first cell.
      v <- v - (v[2] - v[1]) / 2
      out <- stars::st_set_dimensions(out, k, offset = v[1], delta = v[2] - v[1])
    } else {
      out <- stars::st_set_dimensions(out, k, values = as.vector_keeping(v), point = TRUE)
    }
  }
  crs <- crs_of(x)
  xy <- match(c("x", "y"), roles)
  if (!anyNA(xy)) {
    out <- stars::st_set_dimensions(out, xy = names[xy])
    if (!is.na(crs) && requireNamespace("sf", quietly = TRUE)) out <- sf::st_set_crs(out, crs)
  }
  out
}

as.vector_keeping <- function(v) {
  dim(v) <- NULL
  v
}

#' A lazy array as a raster of terra
#'
#' Reads an array with two spatial dimensions, decoded by CF; every other one becomes
#' layers. The first row is the northernmost.
#'
#' @param x A [zaro_array()].
#' @return A `SpatRaster`.
#' @examplesIf requireNamespace("terra", quietly = TRUE)
#' sst <- zaro_array(zaro_demo(), "sst")
#' zaro_rast(zaro_sel(sst, month = c("2000-06", "2000-08")))
#' @export
zaro_rast <- function(x) {
  need("terra")
  x$order <- "zarr"
  x$cf <- TRUE
  at <- kept(x)
  roles <- vapply(at, function(d) role(x, d), "")
  xy <- c(match("y", roles), match("x", roles))
  if (anyNA(xy)) {
    if (length(at) < 2) fail("usage", "a raster needs two dimensions")
    xy <- length(at) - 1:0
  }
  axes <- coordinates(x, at)
  values <- materialise(x)
  if (is.logical(values)) storage.mode(values) <- "integer"
  rest <- setdiff(seq_along(at), xy)
  values <- aperm(unclass(values), c(xy, rest))
  layers <- prod(dim(values)[-(1:2)])
  rows <- or(axes[[xy[1]]], rev(seq_len(dim(values)[1])) - 0.5)
  columns <- or(axes[[xy[2]]], seq_len(dim(values)[2]) - 0.5)
  values <- array(values, c(dim(values)[1:2], layers))
  if (length(rows) > 1 && rows[1] < rows[2]) {
    rows <- rev(rows)
    values <- values[dim(values)[1]:1, , , drop = FALSE]
  }
  if (length(columns) > 1 && columns[1] > columns[2]) {
    columns <- rev(columns)
    values <- values[, dim(values)[2]:1, , drop = FALSE]
  }
  edges <- function(v) {
    half <- if (length(v) > 1) (max(v) - min(v)) / (length(v) - 1) / 2 else 0.5
    c(min(v) - half, max(v) + half)
  }
  for (v in list(rows, columns)) {
    if (length(v) > 2 && !is_regular(v)) warn("grid", "the coordinates are not regular; cells are taken as of equal size")
  }
  crs <- crs_of(x)
  out <- terra::rast(values, extent = terra::ext(c(edges(columns), edges(rows))), crs = if (is.na(crs)) "" else crs)
  names(out) <- if (layers == 1) variable(x) else paste0(variable(x), "_", seq_len(layers))
  times <- if (length(rest) == 1) axes[[rest]]
  if (inherits(times, c("POSIXct", "Date"))) terra::time(out) <- as.vector_keeping(times)
  out
}

# --- DelayedArray -----------------------------------------------------------------------------------------

#' A lazy array for DelayedArray
#'
#' `zaro_delayed()` gives a `DelayedArray`, which reads the blocks that it needs: in this
#' process, or in the workers of 'BiocParallel', which open the Zarr themselves.
#'
#' @param x A [zaro_array()].
#' @return A `DelayedArray`.
#' @examplesIf requireNamespace("DelayedArray", quietly = TRUE)
#' d <- zaro_delayed(zaro_array(zaro_demo(), "ice", cf = FALSE))
#' d
#' sum(d)
#' @export
zaro_delayed <- function(x) {
  need("DelayedArray")
  if (is.null(dim(x))) fail("usage", "a scalar is not an array")
  x$int64 <- if (x$int64 %in% c("integer64", "character")) "double" else x$int64
  DelayedArray::DelayedArray(methods::new("ZaroSeed", x = x))
}

#' @rdname zaro_delayed
#' @slot x The array.
#' @exportClass ZaroSeed
methods::setClass("ZaroSeed", slots = c(x = "ANY"))

#' @rdname zaro_delayed
#' @export
methods::setMethod("dim", "ZaroSeed", function(x) unname(dim(x@x)))

#' @rdname zaro_delayed
#' @export
methods::setMethod("dimnames", "ZaroSeed", function(x) NULL)

seed_extract <- function(x, index) {
  a <- x@x
  at <- kept(a)
  for (k in seq_along(at)) {
    if (!is.null(index[[k]])) a$index[[at[k]]] <- position(a, at[k], index[[k]])
  }
  out <- materialise(a)
  out <- if (inherits(out, c("POSIXct", "Date", "difftime"))) array(as.numeric(out), dim(out)) else out
  # The type is that of the metadata, whatever the values.
  type <- seed_type(x)
  if (typeof(out) != type) storage.mode(out) <- type
  dim(out) <- unname(dim(out))
  out
}

seed_type <- function(x) {
  a <- x@x
  for (d in seq_along(a$index)) a$index[d] <- list(numeric())
  a$dropped[] <- FALSE
  out <- materialise(a)
  # An integer array may hold what is R's NA among integers; doubles hold all.
  if (a$data_type == "int32" && typeof(out) == "integer") "double" else typeof(out)
}

seed_chunkdim <- function(x) {
  a <- x@x
  meta <- array_meta(a$store, a$path)
  size <- or(meta@shard_shape, meta@chunk_shape)
  at <- kept(a)
  as.integer(pmax(pmin(size[at], dim(a)), 1))
}

# Methods of generics that are not there until DelayedArray is.
register_delayed <- function(...) {
  where <- new.env(parent = asNamespace("zaro"))
  from <- asNamespace("DelayedArray")
  set <- function(f, definition) {
    generic <- methods::getGeneric(f, where = from)
    if (!is.null(generic)) methods::setMethod(generic, "ZaroSeed", definition, where = where)
  }
  set("extract_array", seed_extract)
  set("type", seed_type)
  set("chunkdim", seed_chunkdim)
  invisible()
}
