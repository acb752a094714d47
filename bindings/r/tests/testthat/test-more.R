test_that("references are read, and are a table", {
  folder <- tempfile()
  dir.create(folder)
  bytes <- le(as.numeric(1:6), 8)
  writeBin(c(raw(100), bytes), file.path(folder, "data.bin"))
  document <- function(x) gsub("\"", "\\\"", x, fixed = TRUE)
  zarray <- '{"zarr_format": 2, "shape": [6], "chunks": [2], "dtype": "<f8", "compressor": null, "filters": null, "fill_value": 0, "order": "C"}'
  zattrs <- '{"_ARRAY_DIMENSIONS": ["t"]}'
  inline <- "base64:AAAAAAAA8D8AAAAAAAAAQA=="
  refs <- file.path(folder, "refs.json")
  writeLines(paste0(
    '{".zgroup": "', document('{"zarr_format": 2}'), '", "x/.zarray": "', document(zarray), '", "x/.zattrs": "', document(zattrs),
    '", "x/0": "', inline, '", "x/1": ["data.bin", 116, 16], "x/2": ["data.bin", 132, 16]}'
  ), refs)
  for (address in c(refs, paste0("reference+json://", refs))) {
    expect_identical(as.vector(zaro_read(address, "x")), as.numeric(1:6))
  }
  expect_identical(zaro_meta(refs, "x")@dimension_names, "t")
  table <- zaro_refs(refs, "x")
  expect_identical(table$key, c("x/0", "x/1", "x/2"))
  expect_identical(table$t, c(0, 1, 2))
  expect_identical(table$offset, c(NA, 116, 132) + 0)
  expect_identical(table$inline[[1]], le(c(1, 2), 8))
  # The bytes are gone: an error, not zeros.
  unlink(file.path(folder, "data.bin"))
  zaro_close()
  expect_error(zaro_read(refs, "x"), class = "zaro_error")
})

test_that("checksums and versions", {
  path <- tempfile(fileext = ".zarr")
  zaro_write(path, "x", 1:3, create = TRUE)
  sum <- zaro_checksum(path)
  expect_match(sum, "^[0-9a-f]{32}-[0-9]+--[0-9]+$")
  archive <- tempfile()
  dir.create(archive)
  m <- zaro_manifest(path, archive, zarr = "abc-def")
  expect_identical(m$checksum, sum)
  v <- zaro_versions(archive, zarr = "abc-def")
  expect_identical(v$version, sum)
  expect_identical(v$kind, "manifest")
  old <- zaro(archive, zarr = "abc-def", at = sum, objects = path)
  expect_identical(as.vector(zaro_read(old, "x")), 1:3)
  old <- zaro(archive, zarr = "abc-def", at = Sys.time() + 86400, objects = path)
  expect_identical(as.vector(zaro_read(old, "x")), 1:3)
  expect_error(zaro(archive, zarr = "abc-def", at = "1999-01-01", objects = path), class = "zaro_error_not_found")
  expect_error(zaro(path, at = "nonsense"), class = "zaro_error_not_found")
})

test_that("a Zarr is checked against the rules", {
  found <- zaro_validate(zaro_demo(), data = TRUE)
  expect_identical(nrow(found), 0L)
  expect_equal(attr(found, "nodes"), 6)
  bad <- stored('"int32"', 4, as.raw(1:3))
  found <- zaro_validate(bad, data = TRUE)
  expect_gt(nrow(found), 0)
  expect_identical(found$level[1], "error")
})

test_that("images are drawn", {
  path <- tempfile(fileext = ".zarr")
  zaro_create(path, zarr_format = 2, attributes = list(multiscales = list(list(
    version = "0.4", axes = list(list(name = "y", type = "space"), list(name = "x", type = "space")),
    datasets = list(list(path = "0", coordinateTransformations = list(list(type = "scale", scale = c(1, 1)))))
  ))))
  zaro_write(path, "0", matrix(0:255, 8, 32), create = TRUE, data_type = "uint8", zarr_format = 2)
  p <- zaro_image(path)
  expect_identical(dim(p), c(8L, 32L, 4L))
  expect_equal(p[1, 1, 1:3], c(0, 0, 0))
  expect_true(all(p[, , 4] == 1))
  # Brighter downwards and to the right, as stored.
  expect_true(all(diff(unclass(p)[8, , 1]) >= 0))
  expect_gt(p[8, 32, 1], 0.9)
  small <- zaro_image(path, size = 16)
  expect_identical(dim(small)[2], 16L)
  info <- zaro_image_info(path)
  expect_true(length(info) > 0)
  expect_output(print(p), "32 x 8")
})
