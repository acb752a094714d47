test_that("integers of every width are exact", {
  expect_identical(zaro_read(stored('"bool"', 3, as.raw(c(1, 0, 1)), "false")), array(c(TRUE, FALSE, TRUE), 3))
  expect_identical(zaro_read(stored('"int8"', 3, le(c(-128L, 0L, 127L), 1))), array(c(-128L, 0L, 127L), 3))
  expect_identical(zaro_read(stored('"uint8"', 2, as.raw(c(0, 255)))), array(c(0L, 255L), 2))
  expect_identical(zaro_read(stored('"int16"', 2, le(c(-32768L, 32767L), 2))), array(c(-32768L, 32767L), 2))
  expect_identical(zaro_read(stored('"uint16"', 2, as.raw(c(255, 255, 1, 0)))), array(c(65535L, 1L), 2))
  expect_identical(zaro_read(stored('"int32"', 2, le(c(-5L, 7L), 4))), array(c(-5L, 7L), 2))
  # -2^31 is R's NA among integers.
  x <- zaro_read(stored('"int32"', 2, as.raw(c(0, 0, 0, 128, 1, 0, 0, 0))))
  expect_identical(x, array(c(-2^31, 1), 2))
  expect_identical(zaro_read(stored('"uint32"', 2, as.raw(c(255, 255, 255, 255, 1, 0, 0, 0)))), array(c(2^32 - 1, 1), 2))
})

test_that("64-bit integers are exact, or say so", {
  small <- stored('"int64"', 2, as.raw(c(255, 255, 255, 255, 255, 255, 255, 255, 5, rep(0, 7))))
  expect_identical(zaro_read(small), array(c(-1, 5), 2))
  # 2^53 + 1
  big <- stored('"int64"', 1, as.raw(c(1, 0, 0, 0, 0, 0, 32, 0)))
  expect_warning(x <- zaro_read(big), class = "zaro_warning_precision")
  expect_identical(as.vector(x), 2^53)
  expect_error(zaro_read(big, int64 = "error"), class = "zaro_error_unsupported")
  expect_identical(as.vector(zaro_read(big, int64 = "character")), "9007199254740993")
  most <- stored('"uint64"', 1, as.raw(rep(255, 8)))
  expect_identical(as.vector(zaro_read(most, int64 = "character")), "18446744073709551615")
  skip_if_not_installed("bit64")
  x <- zaro_read(big, int64 = "integer64")
  expect_s3_class(x, "integer64")
  expect_identical(bit64::as.character.integer64(x), "9007199254740993")
  expect_error(zaro_read(most, int64 = "integer64"), class = "zaro_error_unsupported")
})

test_that("floats and complex numbers", {
  expect_identical(zaro_read(stored('"float32"', 3, le(c(1.5, -2, 0.25), 4))), array(c(1.5, -2, 0.25), 3))
  expect_identical(zaro_read(stored('"float64"', 2, le(c(pi, -Inf), 8))), array(c(pi, -Inf), 2))
  expect_identical(zaro_read(stored('"float16"', 3, as.raw(c(0, 60, 0, 192, 0, 124)))), array(c(1, -2, Inf), 3))
  expect_identical(zaro_read(stored('"bfloat16"', 1, as.raw(c(192, 63)))), array(1.5, 1))
  expect_identical(zaro_read(stored('"complex64"', 1, le(c(1, -2), 4), "[0, 0]")), array(1 - 2i, 1))
  expect_identical(zaro_read(stored('"complex128"', 1, le(c(1, -2), 8), "[0, 0]")), array(1 - 2i, 1))
  expect_identical(as.vector(zaro_read(stored('"float32"', 2, NULL, '"NaN"'))), c(NaN, NaN))
})

test_that("text, bytes and raw", {
  path <- tempfile(fileext = ".zarr")
  words <- c("", "a", "\u00e9t\u00e9", "\U1F41F")
  zaro_write(path, "s", words, create = TRUE)
  x <- zaro_read(path, "s")
  expect_identical(as.vector(x), words)
  expect_identical(Encoding(x[3]), "UTF-8")
  fixed <- stored('{"name": "null_terminated_bytes", "configuration": {"length_bytes": 3}}', 2,
                  as.raw(c(97, 98, 0, 99, 100, 101)), '""')
  expect_identical(as.vector(zaro_read(fixed)), c("ab", "cde"))
  wide <- stored('{"name": "fixed_length_utf32", "configuration": {"length_bytes": 8}}', 1,
                 as.raw(c(233, 0, 0, 0, 0, 0, 0, 0)), '""')
  expect_identical(as.vector(zaro_read(wide)), "\u00e9")
  zaro_write(path, "b", list(as.raw(1:3), raw()), create = TRUE)
  b <- zaro_read(path, "b")
  expect_identical(b[[1]], as.raw(1:3))
  expect_identical(b[[2]], raw())
  expect_identical(zaro_read(stored('"r8"', 2, as.raw(c(7, 8)), "[0]")), array(as.raw(7:8), 2))
  r16 <- zaro_read(stored('"r16"', 2, as.raw(1:4), "[0, 0]"))
  expect_identical(dim(r16), c(2L, 2L), ignore_attr = TRUE)
  expect_identical(as.vector(r16), as.raw(1:4))
})

test_that("numpy's times", {
  time <- function(unit, name = "numpy.datetime64") {
    paste0('{"name": "', name, '", "configuration": {"unit": "', unit, '", "scale_factor": 1}}')
  }
  nat <- as.raw(c(rep(0, 7), 128))
  one <- as.raw(c(1, rep(0, 7)))
  x <- zaro_read(stored(time("s"), 2, c(one, nat), '"NaT"'))
  expect_s3_class(x, "POSIXct")
  expect_identical(as.numeric(x), c(1, NA))
  expect_identical(attr(x, "tzone"), "UTC")
  expect_identical(as.numeric(zaro_read(stored(time("ms"), 1, one, '"NaT"'))), 0.001)
  d <- zaro_read(stored(time("D"), 2, c(one, nat), '"NaT"'))
  expect_s3_class(d, "Date")
  expect_identical(format(d[1]), "1970-01-02")
  m <- zaro_read(stored(time("M"), 2, c(as.raw(c(26, rep(0, 7))), as.raw(rep(255, 8))), '"NaT"'))
  expect_identical(format(m), c("1972-03-01", "1969-12-01"), ignore_attr = TRUE)
  y <- zaro_read(stored(time("Y"), 1, one, '"NaT"'))
  expect_identical(format(y), "1971-01-01", ignore_attr = TRUE)
  h <- zaro_read(stored(time("h", "numpy.timedelta64"), 1, one, '"NaT"'))
  expect_s3_class(h, "difftime")
  expect_equal(as.numeric(h, units = "mins"), 60)
  expect_identical(as.vector(zaro_read(stored(time("s"), 1, one, '"NaT"'), time = "raw")), 1)
  skip_if_not_installed("nanotime")
  n <- zaro_read(stored(time("ns"), 1, one, '"NaT"'), time = "nanotime")
  expect_s4_class(n, "nanotime")
})

test_that("elements with fields are a table", {
  struct <- '{"name": "struct", "configuration": {"fields": [{"name": "a", "data_type": "int16"}, {"name": "b", "data_type": "float64"}]}}'
  path <- stored(struct, 2, c(le(1L, 2), le(0.5, 8), le(2L, 2), le(1.5, 8)), '{"a": 0, "b": 0}')
  x <- zaro_read(path)
  expect_identical(x, data.frame(a = 1:2, b = c(0.5, 1.5)))
})

test_that("scalars and empty arrays keep their type", {
  expect_identical(zaro_read(stored('"float64"', integer(), le(42, 8))), 42)
  empty <- zaro_read(stored('"int16"', c(0, 3), NULL, names = c("t", "x")))
  expect_identical(empty, array(integer(), c(t = 0L, x = 3L)))
  expect_type(zaro_read(stored('"string"', 0, NULL, '""', codecs = '[{"name": "vlen-utf8"}]')), "character")
})

test_that("a fill value is not NA", {
  path <- stored('"int32"', 4, le(c(0L, 1L, 0L, 2L), 4), 0)
  expect_identical(as.vector(zaro_read(path)), c(0L, 1L, 0L, 2L))
  expect_identical(as.vector(zaro_read(path, cf = TRUE)), c(0L, 1L, 0L, 2L))
})

test_that("attributes become R's values", {
  path <- stored('"int8"', 1, NULL, attributes = paste0(
    '{"i": 5, "x": [1, 2.5], "n": [1, 2], "t": ["a", "b"], "b": true, "o": {"k": null}, "e": {}, "l": [], ',
    '"big": 9007199254740993, "mixed": [1, "a"]}'
  ))
  a <- zaro_attrs(path)
  expect_identical(a$i, 5L)
  expect_identical(a$x, c(1, 2.5))
  expect_identical(a$n, 1:2)
  expect_identical(a$t, c("a", "b"))
  expect_identical(a$b, TRUE)
  expect_identical(a$o, list(k = NULL))
  expect_identical(a$big, "9007199254740993")
  expect_identical(a$mixed, list(1L, "a"))
  expect_identical(a$l, list())
})
