#' A lazy array
#'
#' An array that is read when it is indexed. `[` counts from 1, as everywhere in R,
#' with negative and logical indexes, and names along dimensions that have
#' coordinates; `dim()`, `dimnames()` (from coordinates), `length()`, `head()`,
#' `as.array()`, `as.data.frame()`, `str()`, `summary()` and `plot()` work as for
#' arrays. [zaro_sel()] selects by coordinate values, and stays lazy.
#'
#' @inheritParams zaro_read
#' @return A `zaro_array`, or for `zaro_open()` at a group a `zaro_group`: a list-like
#'   object with the names of its members, from which `[[` and `$` open them.
#' @examples
#' sst <- zaro_array(zaro_demo(), "sst")
#' sst
#' sst[1, 18, 1:5]
#' mean(sst[7, , ], na.rm = TRUE)
#' zaro_open(zaro_demo())$lat[1:3]
#' @export
zaro_array <- function(store, path = "", order = c("zarr", "reversed"), cf = TRUE,
                       int64 = c("double", "integer64", "character", "error"),
                       time = c("auto", "raw", "nanotime", "PCICt")) {
  order <- match.arg(order)
  int64 <- match.arg(int64)
  time <- match.arg(time)
  store <- as_store(store)
  meta <- array_meta(store, path)
  structure(
    list(
      store = store, path = sub("^/", "", path), shape = meta@shape, names = meta@dimension_names,
      data_type = meta@data_type, order = order, cf = isTRUE(cf), int64 = int64, time = time,
      # Per dimension of the Zarr: positions from 0 or NULL for all; and whether it was dropped.
      index = rep(list(NULL), length(meta@shape)), dropped = rep(FALSE, length(meta@shape))
    ),
    class = "zaro_array"
  )
}

#' @rdname zaro_array
#' @export
zaro_open <- function(store, path = "", ...) {
  store <- as_store(store)
  node <- native("node", store = resolved(store), path = path)$node
  if (node$node_type == "array") return(zaro_array(store, path, ...))
  below <- native("nodes", store = resolved(store), path = path, recursive = FALSE)
  prefix <- if (nzchar(node$path)) paste0(node$path, "/") else ""
  structure(
    list(store = store, path = node$path, members = substring(below$path, nchar(prefix) + 1), attributes = node$attributes),
    class = "zaro_group"
  )
}

# --- groups -----------------------------------------------------------------------------------------------

field <- function(x, name) .subset2(x, name)

#' @export
names.zaro_group <- function(x) field(x, "members")

#' @export
length.zaro_group <- function(x) length(field(x, "members"))

#' @export
`[[.zaro_group` <- function(x, i, ...) {
  if (is.numeric(i)) i <- field(x, "members")[[i]]
  base <- field(x, "path")
  zaro_open(field(x, "store"), if (nzchar(base)) paste0(base, "/", i) else i, ...)
}

#' @export
`$.zaro_group` <- function(x, name) if (name %in% c("store", "path")) field(x, name) else x[[name]]

#' @exportS3Method utils::.DollarNames
.DollarNames.zaro_group <- function(x, pattern = "") grep(pattern, names(x), value = TRUE)

#' @export
print.zaro_group <- function(x, ...) {
  cat("<zaro_group> ", field(x, "store")$uri, if (nzchar(field(x, "path"))) paste0("  /", field(x, "path")), "\n", sep = "")
  print_tree(field(x, "store"), field(x, "path"))
  invisible(x)
}

#' @exportS3Method utils::str
str.zaro_group <- function(object, ...) {
  cat(" zaro_group of ", length(object), ": ", paste(utils::head(names(object), 8), collapse = ", "), "\n", sep = "")
}

# --- shape ------------------------------------------------------------------------------------------------

# The dimensions that are left, as numbers of the Zarr's, in the order of the result.
kept <- function(x) {
  left <- which(!x$dropped)
  if (x$order == "reversed") rev(left) else left
}

extents <- function(x) {
  mapply(function(n, i) if (is.null(i)) n else length(i), as.numeric(x$shape), x$index)
}

#' @export
dim.zaro_array <- function(x) {
  at <- kept(x)
  if (!length(at)) return(NULL)
  n <- as.numeric(extents(x))[at]
  if (all(n <= .Machine$integer.max)) n <- as.integer(n)
  if (!is.null(x$names)) names(n) <- ifelse(is.na(x$names[at]), "", x$names[at])
  n
}

#' @export
length.zaro_array <- function(x) {
  n <- prod(as.numeric(extents(x))[kept(x)])
  if (n <= .Machine$integer.max) as.integer(n) else n
}

#' @export
dimnames.zaro_array <- function(x) {
  at <- kept(x)
  labels <- lapply(coordinates(x, at), label_text)
  if (all(vapply(labels, is.null, NA))) return(NULL)
  if (!is.null(x$names)) names(labels) <- ifelse(is.na(x$names[at]), "", x$names[at])
  labels
}

label_text <- function(v) {
  if (is.null(v)) return(NULL)
  if (inherits(v, c("POSIXct", "Date"))) {
    midnight <- all(as.numeric(v) %% 86400 == 0 | inherits(v, "Date"), na.rm = TRUE)
    return(format(v, if (inherits(v, "Date") || midnight) "%Y-%m-%d" else "%Y-%m-%dT%H:%M:%S"))
  }
  if (is.numeric(v)) vapply(v, function(n) format(n, digits = 7), "") else as.character(v)
}

# The coordinate values along dimensions of the Zarr; NULL where there are none.
coordinates <- function(x, at = kept(x)) {
  paths <- native("coordinates", store = resolved(x$store), path = x$path)
  lapply(at, function(d) {
    if (is.na(paths[d])) return(NULL)
    v <- read_index(x$store, paths[d], NULL, NULL, cf = TRUE, flat = TRUE)
    if (is.null(x$index[[d]])) v else v[x$index[[d]] + 1]
  })
}

# --- indexing ---------------------------------------------------------------------------------------------

#' @export
`[.zaro_array` <- function(x, ..., drop = TRUE) {
  at <- kept(x)
  # What is between the brackets, with empty places.
  given <- eval(substitute(alist(...)))
  if (length(given) == 1 && identical(given[[1]], quote(expr = )) && length(at) != 1) given <- list()
  if (length(given) && length(given) != length(at)) {
    fail("usage", "the array has ", length(at), " dimensions, and ", length(given), " were indexed; ",
         "as.array(x)[i] indexes elements")
  }
  for (k in seq_along(given)) {
    if (identical(given[[k]], quote(expr = ))) next
    x$index[[at[k]]] <- position(x, at[k], ...elt(k))
  }
  materialise(x, drop = isTRUE(drop))
}

# An index of R along dimension d to positions from 0.
position <- function(x, d, i) {
  now <- x$index[[d]]
  n <- if (is.null(now)) as.numeric(x$shape[d]) else length(now)
  if (is.character(i)) {
    labels <- label_text(coordinates(x, d)[[1]])
    if (is.null(labels)) fail("usage", "the dimension has no coordinate, and is not indexed by names")
    i <- match(i, labels)
  }
  if (is.factor(i)) i <- as.integer(i)
  if (is.logical(i) && length(i) > n) fail("usage", "(subscript) logical subscript too long")
  if (!is.numeric(i) && !is.logical(i) && !is.null(i)) fail("usage", "an index must be numeric, logical or character")
  i <- seq_len(n)[i]
  if (anyNA(i)) fail("usage", "subscript out of bounds: the dimension has ", format(n, scientific = FALSE))
  if (is.null(now)) i - 1 else now[i]
}

# Reads what is selected.
materialise <- function(x, drop = FALSE) {
  selected <- lapply(seq_along(x$index), function(d) {
    i <- x$index[[d]]
    one <- if (is.null(i)) x$shape[d] == 1 else length(i) == 1
    if (x$dropped[d] || (drop && one)) return(list("at", if (is.null(i)) 0 else i))
    if (is.null(i)) return(list("all", NULL))
    run <- length(i) > 0 && i[length(i)] - i[1] == length(i) - 1 && !is.unsorted(i, strictly = TRUE)
    if (run) list("span", c(i[1], length(i))) else list("list", as.numeric(i))
  })
  read_index(x$store, x$path, vapply(selected, `[[`, "", 1), lapply(selected, `[[`, 2), order = x$order, cf = x$cf,
             int64 = x$int64, time = x$time, flat = drop)
}

#' @export
as.array.zaro_array <- function(x, ..., dimnames = FALSE) {
  out <- materialise(x)
  if (isTRUE(dimnames)) dimnames(out) <- base::dimnames(x)
  out
}

#' @export
as.vector.zaro_array <- function(x, mode = "any") as.vector(materialise(x), mode)

#' @export
as.matrix.zaro_array <- function(x, ...) as.matrix(materialise(x, drop = TRUE))

#' @exportS3Method utils::head
head.zaro_array <- function(x, n = 6L, ...) {
  at <- kept(x)
  if (!length(at)) return(materialise(x))
  d <- at[1]
  x$index[[d]] <- position(x, d, seq_len(min(n, dim(x)[1])))
  materialise(x)
}

#' Select by coordinate values
#'
#' The part of an array at values of its coordinates. One value selects what equals it
#' and drops the dimension, two select everything between them, both included, and more
#' select each. A year or a month (`"2000-07"`) is everything within it, and keeps the
#' dimension. Nothing is read but coordinates.
#'
#' @param x A [zaro_array()].
#' @param ... Values by dimension: `lat = c(-50, -40)`, `time = as.Date("2000-07-01")`,
#'   `time = "2000-07"`. Values in `I()` are taken one by one even if there are two.
#' @param method What is taken if no value is equal: `"exact"` (nothing: an error),
#'   `"nearest"`, `"pad"` (the previous) or `"backfill"` (the next).
#' @param tolerance How far away it may be.
#' @return A `zaro_array`.
#' @examples
#' sst <- zaro_array(zaro_demo(), "sst")
#' tropics <- zaro_sel(sst, lat = c(-20, 20), month = "2000-07")
#' dim(tropics)
#' zaro_sel(sst, lat = 1, lon = 150, method = "nearest")[]
#' @export
zaro_sel <- function(x, ..., method = c("exact", "nearest", "pad", "backfill"), tolerance = NULL) {
  if (!inherits(x, "zaro_array")) fail("usage", "'x' must be a zaro_array")
  method <- match.arg(method)
  given <- list(...)
  if (!length(given)) return(x)
  if (is.null(names(given)) || any(!nzchar(names(given)))) fail("usage", "values must be named by dimensions")
  labels <- mapply(function(name, v) paste0(name, "=", sel_text(v)), names(given), given)
  found <- native("select", store = resolved(x$store), path = x$path, labels = unname(labels), method = method,
                  tolerance = if (!is.null(tolerance)) as.character(tolerance))
  for (d in seq_along(found$kinds)) {
    kind <- found$kinds[d]
    if (kind == "all") next
    i <- found$index[[d]]
    if (kind == "span") i <- i[1] + seq_len(i[2]) - 1
    now <- x$index[[d]]
    if (!is.null(now)) i <- if (all(i %in% now)) i else now[now %in% i]
    x$index[d] <- list(i)
    x$dropped[d] <- x$dropped[d] || kind == "at"
  }
  x
}

sel_text <- function(v) {
  each <- inherits(v, "AsIs")
  class(v) <- setdiff(class(v), "AsIs")
  text <- if (inherits(v, "POSIXt")) {
    format(v, "%Y-%m-%dT%H:%M:%S", tz = "UTC")
  } else if (inherits(v, "Date")) {
    format(v, "%Y-%m-%d")
  } else if (is.numeric(v)) {
    vapply(v, function(n) format(n, digits = 15, scientific = FALSE, trim = TRUE), "")
  } else {
    as.character(v)
  }
  if (length(text) == 1) return(text)
  quoted <- if (is.numeric(v)) text else paste0("\"", text, "\"")
  if (length(text) == 2 && !each) paste(quoted, collapse = ":") else paste0("[", paste(quoted, collapse = ","), "]")
}

# --- what it looks like -----------------------------------------------------------------------------------

variable <- function(x) if (nzchar(x$path)) basename(x$path) else "value"

dims_text <- function(x) {
  n <- dim(x)
  if (is.null(n)) return("scalar")
  text <- format(as.numeric(n), scientific = FALSE, trim = TRUE)
  paste0("(", paste0(if (!is.null(names(n))) ifelse(nzchar(names(n)), paste0(names(n), ": "), ""), text, collapse = ", "), ")")
}

#' @export
format.zaro_array <- function(x, ...) paste0("<zaro_array> ", x$data_type, " ", variable(x), dims_text(x))

#' @export
print.zaro_array <- function(x, ...) {
  cat(x$data_type, " ", variable(x), dims_text(x), "\n", sep = "")
  cat("  store   ", x$store$uri, "  /", x$path, "\n", sep = "")
  meta <- tryCatch(array_meta(x$store, x$path), zaro_error = function(e) NULL)
  if (is.null(meta)) return(invisible(x))
  cat("  chunks  ", bracketed(meta@chunk_shape, " x "), sep = "")
  if (!is.null(meta@shard_shape)) cat(" in shards ", bracketed(meta@shard_shape, " x "), sep = "")
  cat(", ", paste(attr(meta, "codec_names"), collapse = " -> "), "\n", sep = "")
  cat("  size    ", attr(meta, "size_text"), if (x$cf) ", decoded by CF", "\n", sep = "")
  for (name in utils::head(names(meta@attributes), 12)) {
    cat("  :", name, " = ", one_line(meta@attributes[[name]]), "\n", sep = "")
  }
  more <- length(meta@attributes) - 12
  if (more > 0) cat("  and ", more, " more attributes\n", sep = "")
  invisible(x)
}

#' @exportS3Method utils::str
str.zaro_array <- function(object, ...) cat(" ", format(object), "\n", sep = "")

#' @export
summary.zaro_array <- function(object, ...) {
  structure(list(array = object, stat = native("stat", store = resolved(object$store), path = object$path)),
            class = "summary.zaro_array")
}

#' @export
print.summary.zaro_array <- function(x, ...) {
  print(x$array)
  plain <- Filter(function(v) is.atomic(v) && length(v) == 1, x$stat)
  numbers <- Filter(function(v) is.atomic(v) && length(v) == 1, or(x$stat$numbers, list()))
  all <- c(plain, numbers)
  for (name in names(all)) cat(sprintf("  %-10s %s\n", name, format(all[[name]])))
  invisible(x)
}

#' Plot a lazy array
#'
#' One dimension is a line, two are a map: against their coordinates, with their units.
#' Of more dimensions, the first element along the leading ones is shown, with a message.
#'
#' @param x A [zaro_array()].
#' @param ... More arguments for [graphics::plot()] or [graphics::image()].
#' @return `x`, invisibly.
#' @examples
#' sst <- zaro_array(zaro_demo(), "sst")
#' plot(zaro_sel(sst, month = "2000-07"))
#' plot(zaro_sel(sst, lat = 2.5, lon = 152.5))
#' @export
plot.zaro_array <- function(x, ...) {
  many <- which(!x$dropped & extents(x) > 1)
  if (length(many) > 2) {
    shown <- many[seq_len(length(many) - 2)]
    message("showing the first element along ", paste(or(x$names, paste0("dim", seq_along(x$shape)))[shown], collapse = ", "))
    for (d in shown) x$index[[d]] <- or(x$index[[d]], 0)[1]
    many <- setdiff(many, shown)
  }
  if (!length(many)) fail("usage", "there is nothing to plot: the array has one element")
  x$order <- "zarr"
  values <- materialise(x, drop = TRUE)
  meta <- array_meta(x$store, x$path)
  axis <- lapply(many, function(d) {
    v <- coordinates(x, d)[[1]]
    list(v = if (is.null(v) || is.character(v)) seq_len(extents(x)[d]) - 1 else v, label = axis_label(x, d))
  })
  name <- or(meta@attributes$long_name, variable(x))
  unit <- meta@attributes$units
  title <- paste0(name, if (!is.null(unit) && !grepl(" since ", unit)) paste0(" [", unit, "]"))
  defaults <- list(...)
  if (length(many) == 1) {
    args <- list(x = axis[[1]]$v, y = values, type = "l", xlab = axis[[1]]$label, ylab = title)
    do.call(graphics::plot, utils::modifyList(args, defaults))
    return(invisible(x))
  }
  # The last dimension runs to the right, the one before it upwards.
  across <- axis[[2]]
  up <- axis[[1]]
  z <- t(values)
  if (is.logical(z)) storage.mode(z) <- "integer"
  over <- order(as.numeric(across$v))
  above <- order(as.numeric(up$v))
  args <- list(x = as.numeric(across$v)[over], y = as.numeric(up$v)[above], z = z[over, above], xlab = across$label,
               ylab = up$label, main = title, col = grDevices::hcl.colors(64, "viridis"), useRaster = is_regular(across$v) && is_regular(up$v))
  do.call(graphics::image, utils::modifyList(args, defaults))
  invisible(x)
}

is_regular <- function(v) {
  step <- diff(as.numeric(v))
  length(step) > 0 && all(abs(step - step[1]) <= 1e-4 * abs(step[1]))
}

axis_label <- function(x, d) {
  name <- if (is.null(x$names) || is.na(x$names[d])) paste0("dim", d - 1) else x$names[d]
  path <- native("coordinates", store = resolved(x$store), path = x$path)[d]
  unit <- if (!is.na(path)) array_meta(x$store, path)@attributes$units
  if (is.null(unit) || grepl(" since ", unit)) name else paste0(name, " [", unit, "]")
}
