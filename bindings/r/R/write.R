#' Create groups and arrays, and write
#'
#' `zaro_create()` creates an array, or a group if no `dim` is given; `zaro_write()`
#' writes elements into all or a part of an array, or appends them. Missing groups above
#' are created. A chunk is written as a whole or not at all; several processes may write
#' to one array at the same time.
#'
#' @param store An address, which need not exist, or what [zaro()] returns.
#' @param path The path of the node.
#' @param dim The shape of the array, in Zarr order; `NULL` for a group.
#' @param data_type Such as `"float32"`, `"int16"`, `"string"`, `"datetime64[s]"`.
#' @param chunks,shards Shapes; chosen by size, and none, if not given.
#' @param codecs Such as `"zstd:5"` or `"shuffle+zlib:9"`; `"none"` for none.
#' @param fill_value What elements are that nobody wrote.
#' @param dimension_names Names of the dimensions.
#' @param attributes A named list.
#' @param zarr_format 2 or 3; that of the hierarchy around it, or 3.
#' @param overwrite Whether to replace what is there.
#' @return `zaro_create()`: the store, invisibly. `zaro_write()`: the new shape, invisibly.
#' @examples
#' path <- tempfile(fileext = ".zarr")
#' zaro_create(path, "t", dim = c(0, 3), data_type = "float32", chunks = c(10, 3),
#'             dimension_names = c("time", "x"))
#' zaro_write(path, "t", matrix(1:6, 2), append = "time")
#' zaro_write(path, "t", matrix(0, 1, 1), start = c(1, 2))
#' zaro_read(path, "t")
#' zaro_attrs(path, "t", units = "K")
#' zaro_attrs(path, "t")
#' @export
zaro_create <- function(store, path = "", dim = NULL, data_type = "float64", chunks = NULL, shards = NULL,
                        codecs = NULL, fill_value = NULL, dimension_names = NULL, attributes = list(),
                        zarr_format = NULL, overwrite = FALSE) {
  store <- as_store(store)
  if (length(attributes) && is.null(names(attributes))) fail("usage", "'attributes' must be a named list")
  args <- list(store = resolved(store), path = path, attributes = as.list(attributes), zarr_format = zarr_format,
               overwrite = isTRUE(overwrite))
  if (is.null(dim)) {
    do.call(native, c("create_group", args))
  } else {
    if (!is.null(dimension_names) && length(dimension_names) != length(dim)) {
      fail("usage", "there must be a name for each of the ", length(dim), " dimensions")
    }
    fill <- if (!is.null(fill_value)) fill_text(fill_value)
    do.call(native, c("create", args, list(
      shape = as.numeric(dim), data_type = data_type, chunks = chunks, shards = shards, codecs = codecs, fill = fill,
      dimension_names = dimension_names
    )))
  }
  invisible(store)
}

fill_text <- function(x) {
  if (is.logical(x)) tolower(as.character(x)) else if (is.numeric(x)) format(x, digits = 17, trim = TRUE) else as.character(x)
}

#' @rdname zaro_create
#' @param x A vector or array. Of class `POSIXct`, `Date` and `difftime` for times, `integer64`
#'   for 64-bit integers, a list of raw vectors for bytes.
#' @param start The first element to write to, from 0 in each dimension.
#' @param append The dimension to append along, by name or number from 0.
#' @param order `"reversed"` if the dimensions of `x` are those of the Zarr reversed.
#' @param na What is written for `NA` in logical, integer and text data, which have no
#'   missing value in a Zarr; without it, `NA` is an error there.
#' @param create Whether to create the array, of the shape of `x`, if it does not exist.
#' @param single_writer Whether nobody else writes: for stores without conditional puts.
#' @param ... For `create`: arguments of `zaro_create()`.
#' @export
zaro_write <- function(store, path = "", x, start = NULL, append = NULL, order = c("zarr", "reversed"), na = NULL,
                       create = FALSE, single_writer = FALSE, ...) {
  order <- match.arg(order)
  store <- as_store(store)
  extents <- or(dim(x), length(x))
  if (isTRUE(create) && !node_exists(store, path)) {
    given <- list(...)
    type <- or(given$data_type, default_type(x))
    names <- or(given$dimension_names, names(extents))
    given$data_type <- given$dimension_names <- NULL
    do.call(zaro_create, c(list(store, path, dim = if (order == "reversed") rev(extents) else extents, data_type = type,
      dimension_names = if (order == "reversed" && is.null(given$dimension_names)) rev(names) else names), given))
  }
  class <- intersect(class(x), c("POSIXct", "Date", "difftime", "integer64"))
  if ("difftime" %in% class) units(x) <- "secs"
  data <- if (inherits(x, "factor")) as.character(x) else unclass(x)
  attributes(data) <- NULL
  kinds <- index <- NULL
  shape <- if (order == "reversed") rev(extents) else extents
  scalar <- length(x) == 1 && is.null(dim(x)) && is.null(start) && is.null(append)
  if (scalar && length(array_meta_shape(store, path)) == 0) extents <- integer()
  if (!is.null(start)) {
    if (length(start) != length(shape)) fail("usage", "start must have length ", length(shape))
    kinds <- rep("span", length(shape))
    index <- unname(Map(function(s, n) c(s, n), as.numeric(start), as.numeric(shape)))
  }
  out <- native("write", store = resolved(store), path = path, data = data, class = if (length(class)) class[1] else "",
                dim = as.numeric(extents), order = order, kinds = kinds, index = index,
                append = if (!is.null(append)) as.character(append), na = if (!is.null(na)) fill_text(na),
                single_writer = isTRUE(single_writer))
  invisible(out$shape)
}

array_meta_shape <- function(store, path) array_meta(store, path)@shape

node_exists <- function(store, path) {
  tryCatch({
    native("node", store = resolved(store), path = path)
    TRUE
  }, zaro_error_not_found = function(e) FALSE)
}

default_type <- function(x) {
  if (inherits(x, "integer64")) return("int64")
  if (inherits(x, "POSIXct")) return("datetime64[us]")
  if (inherits(x, "Date")) return("datetime64[D]")
  if (inherits(x, "difftime")) return("timedelta64[us]")
  switch(typeof(x), logical = "bool", integer = "int32", double = "float64", complex = "complex128", raw = "uint8",
         character = "string", list = "bytes", fail("usage", "a ", typeof(x), " cannot be written"))
}

#' Attributes, shape, and the rest of a node's life
#'
#' `zaro_attrs()` gives or changes attributes; `zaro_resize()` changes the shape of an
#' array; `zaro_consolidate()` writes the metadata of all nodes into the root, for fewer
#' requests; `zaro_delete()` deletes a node and everything below it.
#'
#' @inheritParams zaro_create
#' @param ... Attributes to set; `NULL` removes one.
#' @param replace Whether to remove all others.
#' @return `zaro_attrs()`: a named list, invisibly after a change; the others: invisibly,
#'   the new shape, how many nodes, and `NULL`.
#' @examples
#' path <- tempfile(fileext = ".zarr")
#' zaro_write(path, "x", 1:10, create = TRUE)
#' zaro_resize(path, "x", 12)
#' zaro_read(path, "x")
#' zaro_delete(path, "x")
#' @export
zaro_attrs <- function(store, path = "", ..., replace = FALSE) {
  store <- as_store(store)
  given <- list(...)
  if (length(given) || isTRUE(replace)) {
    if (length(given) && (is.null(names(given)) || any(!nzchar(names(given))))) fail("usage", "attributes must have names")
    gone <- vapply(given, is.null, NA)
    native("attributes", store = resolved(store), path = path, attributes = given[!gone],
           unset = names(given)[gone], replace = isTRUE(replace))
  }
  out <- native("node", store = resolved(store), path = path)$node$attributes
  if (length(given) || isTRUE(replace)) invisible(out) else out
}

#' @rdname zaro_attrs
#' @export
zaro_resize <- function(store, path = "", dim) {
  invisible(native("resize", store = resolved(as_store(store)), path = path, shape = as.numeric(dim)))
}

#' @rdname zaro_attrs
#' @export
zaro_consolidate <- function(store, path = "") {
  invisible(native("consolidate", store = resolved(as_store(store)), path = path))
}

#' @rdname zaro_attrs
#' @export
zaro_delete <- function(store, path = "") {
  invisible(native("delete", store = resolved(as_store(store)), path = path))
}

#' Copy a Zarr, or a part of it
#'
#' Copies groups and arrays from anywhere to anywhere, with other chunks, codecs or another
#' version if wanted. An interrupted copy goes on when it is called again.
#'
#' @param store What is copied: what [zaro()] returns, or an address.
#' @param to Where: an address, or a store.
#' @param path,to_path The node to copy, and its path in the copy.
#' @param chunks,shards,codecs,zarr_format As in [zaro_create()]; as in the original if not given.
#' @param variables Only these arrays, with their coordinates.
#' @param sel A list of values by dimension, as in [zaro_sel()]: only this part.
#' @param overwrite Whether to replace what is there.
#' @param verify Whether to read everything back and compare.
#' @return A list of how many `arrays`, `groups` and `bytes`, and how many arrays were copied
#'   `verbatim`, invisibly.
#' @examples
#' part <- tempfile(fileext = ".zarr")
#' zaro_copy(zaro_demo(), part, variables = "sst", sel = list(month = "2000-07"))
#' zaro_tree(part)
#' @export
zaro_copy <- function(store, to, path = "", to_path = "", chunks = NULL, shards = NULL, codecs = NULL,
                      zarr_format = NULL, variables = NULL, sel = NULL, overwrite = FALSE, verify = FALSE) {
  labels <- if (length(sel)) unname(mapply(function(name, v) paste0(name, "=", sel_text(v)), names(sel), sel))
  invisible(native("copy", store = resolved(as_store(store)), to = resolved(as_store(to)), path = path, to_path = to_path,
    chunks = chunks, shards = shards, codecs = codecs, zarr_format = zarr_format, variables = variables, labels = labels,
    overwrite = isTRUE(overwrite), verify = isTRUE(verify)))
}
