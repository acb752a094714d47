options(zaro.verbose = FALSE, zaro.progress = FALSE)

# A Zarr of one array as some other program would have written it: a document and one uncompressed chunk.
stored <- function(type, shape, bytes, fill = 0, names = NULL, attributes = "{}", codecs = NULL, chunks = shape) {
  path <- tempfile(fileext = ".zarr")
  dir.create(path)
  list_text <- function(x) paste0("[", paste(x, collapse = ","), "]")
  codecs <- if (is.null(codecs)) '[{"name": "bytes", "configuration": {"endian": "little"}}]' else codecs
  writeLines(paste0(
    '{"zarr_format": 3, "node_type": "array", "shape": ', list_text(shape), ', "data_type": ', type,
    ', "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": ', list_text(pmax(chunks, 1)), '}}',
    ', "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "fill_value": ', fill,
    ', "codecs": ', codecs, if (!is.null(names)) paste0(', "dimension_names": ', list_text(paste0('"', names, '"'))),
    ', "attributes": ', attributes, "}"
  ), file.path(path, "zarr.json"))
  if (!is.null(bytes)) {
    key <- file.path(path, paste(c("c", rep("0", length(shape))), collapse = "/"))
    dir.create(dirname(key), recursive = TRUE, showWarnings = FALSE)
    writeBin(bytes, key)
  }
  path
}

# Numbers as bytes.
le <- function(x, size) writeBin(x, raw(), size = size, endian = "little")
