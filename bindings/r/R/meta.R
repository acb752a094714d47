#' Metadata of a node
#'
#' The slots are those of every Zarr, whatever its version: `zarr_format`,
#' `node_type`, `shape`, `data_type`, `chunk_shape`, `shard_shape`, `codecs`,
#' `fill_value`, `dimension_names`, `attributes`, `chunk_key_sep`, and `raw_meta`,
#' the document as it is stored.
#'
#' @slot zarr_format,node_type,shape,data_type,chunk_shape,shard_shape,codecs,fill_value,dimension_names,attributes,chunk_key_sep,raw_meta
#'   See above.
#' @name ZaroMeta-class
#' @exportClass ZaroMeta
methods::setClass("ZaroMeta", slots = c(
  zarr_format = "ANY", node_type = "character", shape = "ANY", data_type = "ANY", chunk_shape = "ANY",
  shard_shape = "ANY", codecs = "ANY", fill_value = "ANY", dimension_names = "ANY", attributes = "ANY",
  chunk_key_sep = "ANY", raw_meta = "ANY"
))

#' @rdname ZaroMeta-class
#' @param object A `ZaroMeta`.
#' @export
methods::setMethod("show", "ZaroMeta", function(object) {
  cat("<ZaroMeta> [", object@node_type, "]\n", sep = "")
  line <- function(name, text) cat(sprintf("  %-8s%s\n", paste0(name, ":"), text))
  size <- attr(object, "size_text")
  if (object@node_type == "array") {
    line("dtype", object@data_type)
    line("shape", bracketed(object@shape, " x "))
    line("chunks", bracketed(object@chunk_shape, " x "))
    if (!is.null(object@shard_shape)) line("shards", bracketed(object@shard_shape, " x "))
    if (!is.null(object@dimension_names)) line("dims", paste(object@dimension_names, collapse = ", "))
    line("codecs", paste(attr(object, "codec_names"), collapse = " -> "))
    line("fill", if (is.null(object@fill_value)) "null" else paste(format(object@fill_value), collapse = " "))
    if (!is.null(size)) line("size", size)
  } else {
    below <- attr(object, "consolidated")
    arrays <- Filter(function(m) m@node_type == "array", below)
    if (length(arrays)) {
      cat("  variables:\n")
      shapes <- vapply(arrays, function(m) bracketed(m@shape, ","), "")
      cat(paste0("    ", format(names(arrays)), "  ", format(shapes, justify = "right"), "\n"), sep = "")
    }
  }
  line("attrs", length(object@attributes))
})

bracketed <- function(x, sep) paste0("[", paste(format(x, scientific = FALSE, trim = TRUE), collapse = sep), "]")

new_meta <- function(x) {
  names <- x$dimension_names
  meta <- methods::new("ZaroMeta",
    zarr_format = x$zarr_format, node_type = x$node_type, shape = x$shape, data_type = x$data_type,
    chunk_shape = x$chunk_shape, shard_shape = x$shard_shape, codecs = x$codecs, fill_value = x$fill_value,
    dimension_names = names, attributes = x$attributes, chunk_key_sep = x$chunk_key_sep, raw_meta = x$raw_meta
  )
  attr(meta, "codec_names") <- x$codec_names
  attr(meta, "size_text") <- x$size_text
  attr(meta, "storage") <- x$storage
  meta
}

#' The metadata of a node
#'
#' @param store What [zaro()] returns, or an address.
#' @param path The path of the node; the root by default.
#' @param consolidated Whether a group also gets the metadata of all nodes below
#'   it, as the attribute `consolidated`, a list by path. They are read if they
#'   come with the root's, or if the store is on this machine.
#' @param verbose Whether to say what is done.
#' @return A [ZaroMeta-class].
#' @examples
#' meta <- zaro_meta(zaro_demo(), "sst")
#' meta
#' meta@shape
#' names(attr(zaro_meta(zaro_demo()), "consolidated"))
#' @export
zaro_meta <- function(store, path = "", consolidated = TRUE, verbose = getOption("zaro.verbose", interactive())) {
  store <- as_store(store)
  out <- native("node", store = resolved(store), path = path, below = isTRUE(consolidated), verbose = verbose)
  meta <- new_meta(out$node)
  if (meta@node_type == "group") {
    if (length(out$below)) attr(meta, "consolidated") <- lapply(out$below, new_meta)
    say(verbose, length(out$below), " nodes: ", paste(names(out$below), collapse = ", "))
  } else {
    say(verbose, "  dtype: ", meta@data_type, " | shape: ", bracketed(meta@shape, ", "), " | chunks: ",
        bracketed(meta@chunk_shape, ", "))
    say(verbose, "  codecs: ", paste(out$node$codec_names, collapse = " -> "))
    if (!is.null(meta@dimension_names)) say(verbose, "  dimensions: ", paste(meta@dimension_names, collapse = ", "))
  }
  meta
}

#' What is in a Zarr
#'
#' @param store What [zaro()] returns, or an address.
#' @param path The group, or the prefix of keys.
#' @param ... Not used.
#' @param what `"nodes"`: the paths of groups and arrays; `"keys"`: the keys of the
#'   store, that is its files.
#' @param recursive Whether to list everything below; by default nodes, but not keys.
#' @return A character vector of paths from the root.
#' @examples
#' zaro_list(zaro_demo())
#' zaro_list(zaro_demo(), what = "keys")
#' @export
zaro_list <- function(store, path = "", ..., what = c("nodes", "keys"), recursive = NULL) {
  what <- match.arg(what)
  store <- as_store(store)
  recursive <- or(recursive, what == "nodes")
  out <- native(if (what == "nodes") "nodes" else "keys", store = resolved(store), path = path, recursive = recursive)
  if (what == "nodes") out$path else as.character(out)
}

#' The hierarchy as a tree
#'
#' Prints groups and arrays with types, shapes, and the ranges and units of
#' coordinates.
#'
#' @inheritParams zaro_list
#' @return A data frame of the nodes, invisibly.
#' @examples
#' zaro_tree(zaro_demo())
#' @export
zaro_tree <- function(store, path = "") {
  store <- as_store(store)
  cat(store$uri, "\n", sep = "")
  print_tree(store, path)
  nodes <- native("nodes", store = resolved(store), path = path, recursive = TRUE)
  invisible(data.frame(path = nodes$path, kind = nodes$kind, data_type = nodes$data_type, shape = nodes$dims,
                       bytes = nodes$size))
}

print_tree <- function(store, path) {
  all <- native("overview", store = resolved(store), path = path)
  cat("Zarr V", all$zarr_format, " ", all$kind, "\n", sep = "")
  if (length(all$dimensions)) {
    cat("dimensions:  ", paste0(names(all$dimensions), ": ", unlist(all$dimensions), collapse = ", "), "\n", sep = "")
  }
  one <- function(node) {
    text <- if (node$kind == "group") "group" else paste0(type_text(node$data_type), " ", shape_text(node))
    range <- if (!is.null(node$first)) {
      paste0("  ", node$first, if (!identical(node$first, node$last)) paste0(" ... ", node$last))
    }
    units <- if (!is.null(node$units)) paste0("  ", node$units)
    paste0("  ", node$path, "  ", text, range, units)
  }
  nodes <- all$nodes
  if (is.null(nodes)) nodes <- list(all)
  for (node in nodes) cat(one(node), "\n", sep = "")
  for (name in utils::head(names(all$attributes), 20)) {
    cat("  :", name, " = ", one_line(all$attributes[[name]]), "\n", sep = "")
  }
}

type_text <- function(x) if (is.list(x)) x$name else x

shape_text <- function(node) {
  names <- node$dimension_names
  extents <- format(as.numeric(unlist(node$shape)), scientific = FALSE, trim = TRUE)
  if (!length(unlist(node$shape))) return("scalar")
  names <- vapply(names, function(n) if (is.null(n)) "" else as.character(n), "")
  paste0("(", paste0(if (length(names)) ifelse(nzchar(names), paste0(names, ": "), ""), extents, collapse = ", "), ")")
}

one_line <- function(x) {
  text <- if (is.list(x)) paste0("list of ", length(x)) else paste(format(x, digits = 10), collapse = " ")
  text <- gsub("[[:cntrl:]]+", " ", text)
  if (nchar(text) > 70) paste0(substr(text, 1, 67), "...") else text
}

# The bytes of one key; NULL if it does not exist.
store_get <- function(store, key) native("get", store = resolved(as_store(store)), key = key)
