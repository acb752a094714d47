# Stores: an address and options. Plain data, so that they can be saved and sent; what is open lives in the library.

# Buckets that anybody may read, and that refuse signatures of strangers.
public_buckets <- c(
  "cmip6", "aodn-cloud-optimised", "mur-sst", "era5-pds", "noaa-goes16", "noaa-goes17", "noaa-gfs-bdp-pds",
  "noaa-ghcn-pds", "noaa-cdr-sea-ice-conc-monthly", "noaa-nexrad-level2", "pangeo-forge"
)

# Literal headers of this process, which no object holds.
secrets <- new.env(parent = emptyenv())

#' Open a Zarr
#'
#' Opens a Zarr of version 2 or 3, wherever it is. The result is plain data, an
#' address with options: it can be saved, and sent to other processes, which
#' open it again when they use it.
#'
#' @param source One address: a path, `s3://`, `gs://`, `az://`, `http(s)://`; a
#'   ZIP archive; references of Kerchunk (`reference+json://`, `reference+parquet://`,
#'   `virtualizarr://`, or just the file); an Icechunk repository; a manifest.
#' @param verbose Whether to say what is done, with every request. By default in
#'   interactive sessions; `options(zaro.verbose = FALSE)` turns it off.
#' @param ... Options of the store: `anonymous`, `region`, `endpoint` (or
#'   `endpoint_override`), `profile`, `request_payer`, `account`, `path_style`,
#'   `header` (`"Name: value"`, kept in this process only), `header_env` (a named
#'   vector: headers and the environment variables with their values),
#'   `read_timeout`, `connect_timeout`, `retries`, `concurrency`, `cache`,
#'   `allow_http`, `missing_403`; of references: `root`, `target`, `template`,
#'   `allow_local`; of Icechunk: `branch`, `tag`, `snapshot`; of manifests:
#'   `objects`, `zarr`; of reading: `strict`, `zarr_format`, `consolidated`.
#' @param options Options for addresses that begin with a prefix: a list like
#'   `list("s3://bucket/" = list(anonymous = TRUE))`.
#' @param at A version: a date or time (of a versioned bucket, or of an archive
#'   of manifests), a checksum, or a branch, tag or snapshot.
#' @param validate Whether to check all metadata, with a warning for each fault.
#' @return A `zaro_store`.
#' @examples
#' store <- zaro(zaro_demo(), verbose = FALSE)
#' store
#' zaro_list(store)
#' @export
zaro <- function(source, verbose = getOption("zaro.verbose", interactive()), ..., options = NULL, at = NULL,
                 validate = FALSE) {
  if (!is.character(source) || length(source) != 1 || is.na(source) || !nzchar(source)) {
    fail("usage", "'source' must be a non-empty character string")
  }
  store <- new_store(source, list(...), options, at)
  say(verbose, "opening ", store$uri)
  bucket <- sub("^(s3|gs)://([^/]+).*$", "\\2", store$uri)
  if (grepl("^(s3|gs)://", store$uri) && bucket %in% public_buckets && is.null(store$options$anonymous)) {
    say(verbose, "known public bucket '", bucket, "', using anonymous access")
    store$options$anonymous <- TRUE
  }
  info <- native("open", store = resolved(store), verbose = verbose)
  # A branch moves on; all who get this object read one state of it.
  if (!is.null(info$snapshot)) {
    store$options[c("branch", "tag", "at")] <- NULL
    store$options$snapshot <- info$snapshot
  }
  store$format <- info$format
  store$consolidated <- info$consolidated
  say(verbose, "Zarr V", or(info$format, "?"), if (isTRUE(info$consolidated)) ", consolidated metadata")
  if (isTRUE(validate)) {
    found <- zaro_validate(store)
    for (i in seq_len(nrow(found))) warn("finding", found$node[i], ": ", found$message[i])
  }
  store
}

new_store <- function(uri, given = list(), prefixed = NULL, at = NULL) {
  if (grepl("^[^:]*$|^file:", uri) || !grepl("://", uri)) uri <- path.expand(uri)
  if (nchar(uri) > 1) uri <- sub("(?<=[^/:])/+$", "", uri, perl = TRUE)
  if (!grepl("^([a-z0-9+]+:|/)", uri, ignore.case = TRUE) && !grepl("::", uri)) uri <- file.path(getwd(), uri)
  names(given)[names(given) == "endpoint_override"] <- "endpoint"
  if (length(given) && (is.null(names(given)) || any(!nzchar(names(given))))) {
    fail("usage", "all options must have names")
  }
  given <- given[!vapply(given, is.null, NA)]
  # Exactly this name: `$` would also find `header_env`.
  if (length(given[["header"]])) {
    given$header_id <- keep_secret(given[["header"]])
    given[["header"]] <- NULL
  }
  if (length(prefixed)) given$options <- prefix_options(prefixed)
  if (!is.null(at)) given <- c(given, version_options(at))
  structure(list(uri = uri, options = given), class = "zaro_store")
}

keep_secret <- function(header) {
  id <- paste0(Sys.getpid(), "-", length(ls(secrets)) + 1)
  assign(id, as.character(header), envir = secrets)
  id
}

prefix_options <- function(x) {
  if (is.character(x)) return(x)
  unlist(lapply(names(x), function(prefix) {
    each <- x[[prefix]]
    value <- function(v) if (is.logical(v)) tolower(as.character(v)) else as.character(v)
    paste0(prefix, ":", names(each), "=", vapply(each, value, ""))
  }))
}

version_options <- function(at) {
  if (inherits(at, "POSIXt")) return(list(at_time = format(at, "%Y-%m-%dT%H:%M:%S+00:00", tz = "UTC")))
  if (inherits(at, "Date")) at <- format(at)
  if (!is.character(at) || length(at) != 1) fail("usage", "'at' must be one date, time or name")
  # A day is over at its end.
  if (grepl("^\\d{4}-\\d{2}-\\d{2}$", at)) return(list(at_time = paste0(at, "T23:59:59+00:00")))
  if (grepl("^\\d{4}-\\d{2}-\\d{2}[T ]", at)) return(list(at_time = sub("Z?$", "", at)))
  list(at = at)
}

# The store as the library takes it: with the headers that no object holds.
resolved <- function(store) {
  options <- store$options
  header <- character()
  if (!is.null(options$header_id)) {
    if (!exists(options$header_id, envir = secrets, inherits = FALSE)) {
      fail(
        "not_permitted", "the headers of this store were given in another process, and are not part of the object; ",
        "use header_env = c(Authorization = \"NAME_OF_A_VARIABLE\")"
      )
    }
    header <- get(options$header_id, envir = secrets)
  }
  for (name in names(options$header_env)) {
    value <- Sys.getenv(options$header_env[[name]], NA)
    if (is.na(value)) fail("not_permitted", "the environment variable ", options$header_env[[name]], " is not set")
    header <- c(header, paste0(name, ": ", value))
  }
  options$header_id <- options$header_env <- NULL
  if (length(header)) options$header <- header
  list(uri = store$uri, options = options)
}

# A store of what the user has: a store, an address, or anything opened from one.
as_store <- function(x) {
  if (inherits(x, "zaro_store")) return(x)
  if (inherits(x, c("zaro_array", "zaro_group"))) return(x$store)
  if (is.character(x) && length(x) == 1 && !is.na(x) && nzchar(x)) return(new_store(x))
  fail("usage", "'store' must be what zaro() returns, or an address")
}

#' @export
format.zaro_store <- function(x, ...) paste0("<zaro_store> ", x$uri)

#' @export
print.zaro_store <- function(x, ...) {
  cat("<zaro_store> ", x$uri, "\n", sep = "")
  shown <- x$options
  shown$header_id <- NULL
  for (name in names(shown)) cat("  ", name, ": ", paste(format(shown[[name]]), collapse = ", "), "\n", sep = "")
  if (!is.null(x$options$header_id)) cat("  header: ***\n")
  tryCatch(print_tree(x, ""), zaro_error = function(e) cat("  (", conditionMessage(e), ")\n", sep = ""))
  invisible(x)
}

#' An address as zaro reads it
#'
#' Takes an address as it is found in viewers and documentation, and gives the
#' one to open: suffixes of viewers and trailing slashes are cut, and addresses
#' of the large object stores are mapped to theirs.
#'
#' @param url One address.
#' @return A character string; the attribute `region` names the region of S3 if
#'   the address had one.
#' @examples
#' zaro_uri("https://storage.googleapis.com/cmip6/CMIP6/zarr/")
#' zaro_uri("https://bucket.s3.us-west-2.amazonaws.com/a/b.zarr")
#' @export
zaro_uri <- function(url) {
  url <- sub("::.*$", "", url)
  url <- sub("[?#].*$", "", url)
  url <- sub("(?<=[^/:])/+$", "", url, perl = TRUE)
  region <- NULL
  google <- "^https?://storage\\.(googleapis|cloud\\.google)\\.com/"
  path_style <- "^https?://s3(?:[.-]([a-z0-9-]+))?\\.amazonaws\\.com/(.*)$"
  host_style <- "^https?://([^/]+)\\.s3(?:[.-]([a-z0-9-]+))?\\.amazonaws\\.com(/.*)?$"
  if (grepl(google, url)) {
    url <- sub(google, "gs://", url)
  } else if (grepl(path_style, url, perl = TRUE)) {
    region <- sub(path_style, "\\1", url, perl = TRUE)
    url <- sub(path_style, "s3://\\2", url, perl = TRUE)
  } else if (grepl(host_style, url, perl = TRUE)) {
    region <- sub(host_style, "\\2", url, perl = TRUE)
    url <- sub(host_style, "s3://\\1\\3", url, perl = TRUE)
  }
  if (!is.null(region) && nzchar(region)) attr(url, "region") <- region
  url
}

#' Open a Zarr in an S3 bucket
#'
#' @param bucket,key The bucket and the key of the Zarr in it.
#' @param endpoint The server, if it is not Amazon's.
#' @param region The region; found by itself if not given.
#' @param anonymous Whether requests are not signed.
#' @param ... More options of [zaro()].
#' @return A `zaro_store`.
#' @examples
#' \dontrun{
#' zaro_s3("mybucket", "data.zarr", endpoint = "https://s3.example.org", anonymous = TRUE)
#' }
#' @export
zaro_s3 <- function(bucket, key = "", endpoint = NULL, region = NULL, anonymous = NULL, ...) {
  zaro(paste0("s3://", bucket, "/", key), endpoint = endpoint, region = region, anonymous = anonymous, ...)
}

#' Threads and memory
#'
#' Sets how many threads decode and encode, and how much memory reads may use
#' besides their results. Everything is closed, and opened again when it is used.
#'
#' The number of threads is that given here, or that of the environment variables
#' `ZARO_THREADS` or `OMP_THREAD_LIMIT`, or one for each core.
#'
#' @param threads How many threads.
#' @param memory Bytes; 256 MiB by default.
#' @return A list: `threads`, `memory`, and `open`, how many Zarrs are open.
#' @examples
#' zaro_config()
#' @export
zaro_config <- function(threads = NULL, memory = NULL) {
  native("config", threads = threads, memory = memory)
}

#' Close what is open
#'
#' Forgets a Zarr, so that it is opened anew when it is next used; for one that
#' another program has changed. Nothing has to be closed: the least recently used
#' one of 32 is closed by itself.
#'
#' @param store What [zaro()] returns; `NULL` for everything.
#' @return `NULL`, invisibly.
#' @examples
#' zaro_close()
#' @export
zaro_close <- function(store = NULL) {
  invisible(native("close", uri = if (!is.null(store)) as_store(store)$uri))
}

#' A small data set to try things with
#'
#' Writes an ocean data set of twelve months into a temporary folder, once in a
#' session: the temperature `sst`, packed, with gaps, its coordinates, and an
#' ice mask.
#'
#' @param path Where; a folder that does not exist yet.
#' @return The path.
#' @examples
#' zaro_tree(zaro_demo())
#' @export
zaro_demo <- function(path = file.path(tempdir(), "zaro-demo.zarr")) {
  if (file.exists(path)) return(path)
  lat <- seq(-87.5, 87.5, 5)
  lon <- seq(2.5, 357.5, 5)
  month <- 0:11
  zaro_create(path, attributes = list(title = "A made-up ocean", Conventions = "CF-1.8"))
  put <- function(name, x, type, names, attributes, ...) {
    zaro_create(path, name, dim = or(dim(x), length(x)), data_type = type, dimension_names = names,
                attributes = attributes, ...)
    zaro_write(path, name, x)
  }
  put("lat", lat, "float32", "lat", list(units = "degrees_north", standard_name = "latitude"))
  put("lon", lon, "float32", "lon", list(units = "degrees_east", standard_name = "longitude"))
  put("month", as.integer(cumsum(c(15, 30, 30, 30, 31, 30, 31, 31, 30, 31, 30, 31))), "int32", "month",
      list(units = "days since 2000-01-01", calendar = "standard", standard_name = "time"))
  grid <- expand.grid(month = month, lat = lat, lon = lon)
  warm <- 28 * cos(grid$lat * pi / 180)^2 - 1 + 3 * sin(grid$lon * pi / 90) * cos(grid$lat * pi / 180)
  sst <- warm - 4 * sin(grid$lat * pi / 180) * cos((grid$month - 1) * pi / 6)
  land <- (grid$lon > 20 & grid$lon < 45 & abs(grid$lat) < 30) | (grid$lon > 290 & grid$lon < 320 & abs(grid$lat) < 40)
  packed <- ifelse(land, -32768, round(sst / 0.001 - 10000))
  packed <- pmin(pmax(packed, -32768), 32767)
  shape <- c(12L, length(lat), length(lon))
  put("sst", array(as.integer(packed), shape), "int16", c("month", "lat", "lon"),
      list(long_name = "sea surface temperature", units = "degC", scale_factor = 0.001, add_offset = 10,
           `_FillValue` = -32768L),
      chunks = c(3L, 18L, 36L), codecs = "zstd:5", fill_value = -32768L)
  put("ice", array(sst < -1.5 & !land, shape), "bool", c("month", "lat", "lon"), list(long_name = "sea ice"),
      chunks = c(3L, 18L, 36L))
  zaro_consolidate(path)
  path
}
