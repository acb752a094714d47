#' Read a part of an array
#'
#' Values are as stored, unless `cf = TRUE`: packed integers stay integers, and the
#' fill value of a Zarr, which is what chunks that nobody wrote are read as, is
#' not `NA`. A failing server is an error, never a fill value.
#'
#' @param store What [zaro()] returns, or an address.
#' @param path The path of the array; `"."` or `""` is the root.
#' @param start Per dimension, the first element, from 0; `NULL` for 0.
#' @param count Per dimension, how many; `NA` for all the rest, `NULL` for everything.
#'   More than there are is cut, with a warning.
#' @param meta Not needed; accepted from older code.
#' @param parallel Not needed: reading uses all cores.
#' @param verbose Whether to say what is done.
#' @param assemble `FALSE` for a list of chunks, each with its index `cidx` and its
#'   `values` in stored order, `NULL` if nobody wrote it.
#' @param ... Not used.
#' @param order `"zarr"`: dimensions as in the Zarr, such as (time, lat, lon).
#'   `"reversed"`: (lon, lat, time), which R's graphics, 'stars' and 'ncdf4' use, and
#'   which costs nothing.
#' @param cf Whether to decode by the CF conventions: unpack, make declared missing
#'   values `NA`, and make times of them.
#' @param int64 What 64-bit integers become: `"double"`, with a warning if some are
#'   beyond 2^53; `"integer64"` (package 'bit64'); `"character"`; or `"error"`, doubles
#'   and an error instead of the warning.
#' @param time What times become: `"auto"`, `POSIXct` in UTC or `Date`, and text in
#'   calendars that these do not have; `"raw"`, numbers; `"nanotime"`; `"PCICt"`, for
#'   the calendars of models.
#' @return An array with `names(dim())`, or a vector for a scalar. A data frame for
#'   elements with fields along one dimension, else a list of arrays. Bytes are a list
#'   of raw vectors.
#' @examples
#' x <- zaro_read(zaro_demo(), "sst", start = c(0, 0, 0), count = c(1, NA, NA))
#' dim(x)
#' range(zaro_read(zaro_demo(), "sst", cf = TRUE), na.rm = TRUE)
#' @export
zaro_read <- function(store, path = "", start = NULL, count = NULL, meta = NULL, parallel = FALSE,
                      verbose = getOption("zaro.verbose", interactive()), assemble = TRUE, ...,
                      order = c("zarr", "reversed"), cf = FALSE,
                      int64 = c("double", "integer64", "character", "error"),
                      time = c("auto", "raw", "nanotime", "PCICt")) {
  order <- match.arg(order)
  int64 <- match.arg(int64)
  time <- match.arg(time)
  if (...length()) fail("usage", "unknown argument: ", paste(names(list(...)), collapse = ", "))
  store <- as_store(store)
  if (!isFALSE(parallel)) say(verbose, "'parallel' is not needed: reading uses all cores")
  if (!isTRUE(assemble)) return(read_chunks(store, path, start, count, verbose))
  index <- kinds <- NULL
  if (!is.null(start) || !is.null(count)) {
    shape <- array_meta(store, path)@shape
    span <- span_of(shape, start, count)
    kinds <- rep("span", length(shape))
    index <- Map(function(s, n) c(s, n), span$start, span$count)
  }
  read_index(store, path, kinds, unname(index), order = order, cf = cf, int64 = int64, time = time, verbose = verbose)
}

# The metadata of an array, without those of the nodes below it.
array_meta <- function(store, path) {
  meta <- new_meta(native("node", store = resolved(store), path = path)$node)
  if (meta@node_type != "array") fail("usage", "path '", path, "' is a group, not an array", arrays_in(store, path))
  meta
}

arrays_in <- function(store, path) {
  nodes <- tryCatch(native("nodes", store = resolved(store), path = path, recursive = TRUE), zaro_error = function(e) NULL)
  arrays <- nodes$path[nodes$kind == "array"]
  if (length(arrays)) paste0("; its arrays: ", paste(utils::head(arrays, 12), collapse = ", "))
}

span_of <- function(shape, start, count) {
  n <- length(shape)
  start <- if (is.null(start)) rep(0, n) else as.numeric(start)
  count <- if (is.null(count)) rep(NA_real_, n) else as.numeric(count)
  if (length(start) != n || length(count) != n) fail("usage", "start and count must have length ", n)
  if (anyNA(start) || any(start < 0) || any(count < 0, na.rm = TRUE)) {
    fail("usage", "start and count must not be negative, nor start NA")
  }
  if (any(start > shape)) {
    fail("usage", "start is beyond the array on dimension(s) ", paste(which(start > shape), collapse = ", "))
  }
  count[is.na(count)] <- (shape - start)[is.na(count)]
  over <- start + count > shape
  if (any(over)) {
    warn("clamped", "request exceeds array extent on dimension(s) ", paste(which(over), collapse = ", "), "; clamping")
    count[over] <- (shape - start)[over]
  }
  list(start = start, count = count)
}

read_index <- function(store, path, kinds, index, order = "zarr", cf = FALSE, int64 = "double", time = "auto",
                       verbose = FALSE, flat = FALSE) {
  if (int64 == "integer64" && !requireNamespace("bit64", quietly = TRUE)) {
    fail("unsupported", "int64 = \"integer64\" needs the package 'bit64'")
  }
  nano <- time == "nanotime"
  if (nano && !requireNamespace("nanotime", quietly = TRUE)) {
    fail("unsupported", "time = \"nanotime\" needs the package 'nanotime'")
  }
  x <- native("read", store = resolved(store), path = path, kinds = kinds, index = index, order = order,
              cf = isTRUE(cf), int64 = if (nano) "integer64" else int64,
              time = if (time == "raw" || (nano && !isTRUE(cf))) "raw" else "auto", flat = flat, verbose = verbose)
  if (inherits(x, "zaro_struct")) return(struct_of(x))
  if (nano) x <- nanotime_of(x, store, path)
  if (time == "PCICt" && !is.null(attr(x, "calendar"))) x <- pcict_of(x)
  x
}

# Elements with fields: rows of a table along one dimension.
struct_of <- function(x) {
  x <- unclass(x)
  if (all(vapply(x, function(f) length(dim(f)) == 1, NA))) {
    columns <- lapply(x, function(f) {
      n <- length(f)
      dim(f) <- NULL
      if (is.list(f)) I(f) else f[seq_len(n)]
    })
    return(structure(columns, class = "data.frame", row.names = .set_row_names(length(columns[[1]]))))
  }
  x
}

# Ticks of numpy to nanoseconds.
nanotime_of <- function(x, store, path) {
  if (inherits(x, "POSIXct")) return(nanotime::as.nanotime(x))
  if (!inherits(x, "integer64")) return(x)
  type <- array_meta(store, path)@data_type
  unit <- sub("^datetime64\\[(?:[0-9]*)(.*)\\]$", "\\1", type, perl = TRUE)
  factor <- switch(unit, ns = 1, us = 1e3, ms = 1e6, s = 1e9, m = 6e10, h = 36e11, D = 864e11, NA)
  if (is.na(factor)) fail("unsupported", "elements of type ", type, " are not times of nanotime")
  extents <- dim(x)
  dim(x) <- NULL
  out <- nanotime::as.nanotime(x * bit64::as.integer64(factor))
  if (length(extents) > 1) attr(out, "zaro_dim") <- extents
  out
}

pcict_of <- function(x) {
  if (!requireNamespace("PCICt", quietly = TRUE)) fail("unsupported", "time = \"PCICt\" needs the package 'PCICt'")
  calendar <- switch(attr(x, "calendar"), `360_day` = "360", noleap = "365", NULL)
  if (is.null(calendar)) fail("unsupported", "PCICt has no calendar '", attr(x, "calendar"), "'")
  text <- as.vector(x)
  short <- !is.na(text) & nchar(text) == 10
  text[short] <- paste0(text[short], "T00:00:00")
  out <- PCICt::as.PCICt(substr(text, 1, 19), cal = calendar, format = "%Y-%m-%dT%H:%M:%S")
  dim(out) <- dim(x)
  out
}

# --- chunks -----------------------------------------------------------------------------------------------

#' Chunks of an array
#'
#' The unit of storage: `zaro_chunk()` reads one, `zaro_chunks()` several, and
#' `zaro_chunk_apply()` calls a function with each, one after the other, so that only
#' one is in memory.
#'
#' @inheritParams zaro_read
#' @param chunk_idx The index of a chunk, from 0 in each dimension.
#' @param ranges Per dimension, indexes from 0, or `NULL` for all.
#' @param shaped Whether `values` is an array; else a vector in stored order.
#' @param fun A function of one chunk.
#' @return `zaro_chunk_info()`: a list of `grid` (how many chunks in each dimension),
#'   `chunk_shape`, `array_shape`, `n_chunks`, `dimension_names` and `meta`.
#'   `zaro_chunk()`: a list of `cidx`, `values`, `start` and `shape`, cut at the edge of
#'   the array, or `NULL` if nobody wrote it. The others: a list of these, or of what
#'   `fun` returned, without `NULL`s.
#' @examples
#' info <- zaro_chunk_info(zaro_demo(), "sst")
#' info$grid
#' str(zaro_chunk(zaro_demo(), "sst", c(0, 0, 0)))
#' unlist(zaro_chunk_apply(zaro_demo(), "sst", function(chunk) max(chunk$values)))
#' @export
zaro_chunk_info <- function(store, path, meta = NULL, verbose = getOption("zaro.verbose", interactive())) {
  meta <- array_meta(as_store(store), path)
  grid <- ceiling(meta@shape / pmax(meta@chunk_shape, 1))
  list(
    grid = grid, chunk_shape = meta@chunk_shape, array_shape = meta@shape, n_chunks = prod(grid),
    dimension_names = meta@dimension_names, meta = meta
  )
}

#' @rdname zaro_chunk_info
#' @export
zaro_chunk <- function(store, path, chunk_idx, meta = NULL, shaped = TRUE,
                       verbose = getOption("zaro.verbose", interactive())) {
  store <- as_store(store)
  one_chunk(store, path, zaro_chunk_info(store, path, verbose = verbose), chunk_idx, shaped)
}

one_chunk <- function(store, path, info, idx, shaped) {
  idx <- as.numeric(idx)
  if (length(idx) != length(info$grid) || anyNA(idx) || any(idx < 0 | idx >= info$grid)) {
    fail("usage", "there is no chunk (", paste(idx, collapse = ", "), "); the grid is ", bracketed(info$grid, " x "))
  }
  start <- idx * info$chunk_shape
  if (!native("present", store = resolved(store), path = path, chunk = start)) return(NULL)
  shape <- pmin(info$chunk_shape, info$array_shape - start)
  kinds <- rep("span", length(start))
  index <- Map(function(s, n) c(s, n), start, shape)
  values <- read_index(store, path, kinds, unname(index), order = if (shaped) "zarr" else "reversed")
  if (!shaped && is.atomic(values)) values <- as.vector(values)
  list(cidx = idx, values = values, start = start, shape = shape)
}

chunk_table <- function(info, ranges) {
  each <- lapply(seq_along(info$grid), function(d) or(ranges[[d]], seq_len(info$grid[d]) - 1))
  if (!length(each)) return(matrix(numeric(), 1, 0))
  unname(as.matrix(expand.grid(each)))
}

#' @rdname zaro_chunk_info
#' @export
zaro_chunks <- function(store, path, ranges = NULL, meta = NULL, shaped = TRUE, parallel = FALSE,
                        verbose = getOption("zaro.verbose", interactive())) {
  zaro_chunk_apply(store, path, identity, ranges, meta, shaped, parallel, verbose)
}

#' @rdname zaro_chunk_info
#' @export
zaro_chunk_apply <- function(store, path, fun, ranges = NULL, meta = NULL, shaped = TRUE, parallel = FALSE,
                             verbose = getOption("zaro.verbose", interactive())) {
  store <- as_store(store)
  info <- zaro_chunk_info(store, path, verbose = verbose)
  if (length(ranges) > length(info$grid)) fail("usage", "'ranges' must have an entry for each dimension")
  if (length(ranges)) length(ranges) <- length(info$grid)
  table <- chunk_table(info, ranges)
  out <- lapply(seq_len(nrow(table)), function(i) {
    chunk <- one_chunk(store, path, info, table[i, ], shaped)
    if (!is.null(chunk)) fun(chunk)
  })
  Filter(Negate(is.null), out)
}

read_chunks <- function(store, path, start, count, verbose) {
  info <- zaro_chunk_info(store, path, verbose = verbose)
  span <- span_of(info$array_shape, start, count)
  first <- floor(span$start / info$chunk_shape)
  last <- floor((span$start + pmax(span$count, 1) - 1) / info$chunk_shape)
  table <- chunk_table(info, Map(seq, first, last))
  say(verbose, "reading ", nrow(table), " chunk(s) for path '", path, "'")
  lapply(seq_len(nrow(table)), function(i) {
    chunk <- one_chunk(store, path, info, table[i, ], FALSE)
    list(cidx = as.numeric(table[i, ]), values = chunk$values)
  })
}

#' Units of work for parallel programs
#'
#' Cuts an array, or a part of it, at the borders of its chunks or shards. Workers that
#' write one block each need no locks.
#'
#' @param x A [zaro_array()], or a store.
#' @param path The path of the array, if `x` is a store.
#' @param by `"chunk"` or `"shard"`; a shard is the unit of storage if there are any.
#' @return A data frame: per block and dimension, `start` (from 0) and `count`, as
#'   matrices that fit [zaro_read()].
#' @examples
#' blocks <- zaro_blocks(zaro_demo(), "sst")
#' zaro_read(zaro_demo(), "sst", blocks$start[1, ], blocks$count[1, ])[1:3]
#' @export
zaro_blocks <- function(x, path = "", by = c("shard", "chunk")) {
  by <- match.arg(by)
  store <- as_store(x)
  if (inherits(x, "zaro_array")) path <- x$path
  info <- zaro_chunk_info(store, path)
  size <- if (by == "shard") or(info$meta@shard_shape, info$chunk_shape) else info$chunk_shape
  grid <- ceiling(info$array_shape / pmax(size, 1))
  table <- chunk_table(list(grid = grid), NULL)
  start <- sweep(table, 2, size, `*`)
  count <- pmin(matrix(size, nrow(start), length(size), byrow = TRUE),
                matrix(info$array_shape, nrow(start), length(size), byrow = TRUE) - start)
  dim(count) <- dim(start)
  out <- data.frame(block = seq_len(nrow(start)))
  out$start <- start
  out$count <- count
  out
}
