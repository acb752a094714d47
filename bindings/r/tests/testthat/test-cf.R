test_that("packing and missing values", {
  raw <- zaro_read(zaro_demo(), "sst")
  x <- zaro_read(zaro_demo(), "sst", cf = TRUE)
  expect_identical(is.na(x), raw == -32768L)
  expect_equal(as.vector(x)[!is.na(x)], raw[raw != -32768L] * 0.001 + 10)
  # NA, not just NaN.
  expect_false(any(is.nan(x)))
  expect_identical(dim(x), dim(raw))
  y <- zaro_read(zaro_demo(), "sst", cf = TRUE, order = "reversed")
  expect_identical(aperm(unname(y)), x, ignore_attr = TRUE)
})

test_that("times of the usual calendars are POSIXct", {
  t <- zaro_read(zaro_demo(), "month", cf = TRUE)
  expect_s3_class(t, "POSIXct")
  expect_identical(format(t[1:2], "%Y-%m-%d"), c("2000-01-16", "2000-02-15"))
  expect_identical(as.vector(zaro_read(zaro_demo(), "month", cf = TRUE, time = "raw"))[1], 15L)
  old <- stored('"float64"', 2, le(c(0, NaN), 8), attributes = '{"units": "hours since 1582-10-15 12:30"}')
  x <- zaro_read(old, cf = TRUE)
  expect_identical(format(x[1], "%Y-%m-%d %H:%M", tz = "UTC"), "1582-10-15 12:30")
  expect_true(is.na(x[2]))
})

test_that("times of other calendars are text, or PCICt", {
  path <- stored('"int32"', 2, le(c(0L, 59L), 4), attributes = '{"units": "days since 2000-01-01", "calendar": "360_day"}')
  x <- zaro_read(path, cf = TRUE)
  expect_identical(as.vector(x), c("2000-01-01T00:00:00", "2000-02-30T00:00:00"), ignore_attr = TRUE)
  expect_identical(attr(x, "calendar"), "360_day")
  skip_if_not_installed("PCICt")
  p <- zaro_read(path, cf = TRUE, time = "PCICt")
  expect_s3_class(p, "PCICt")
  expect_identical(format(p[2], "%Y-%m-%d"), "2000-02-30")
})

test_that("what cannot be decoded is a warning", {
  path <- stored('"int32"', 1, le(1L, 4), attributes = '{"scale_factor": "much"}')
  expect_warning(zaro_read(path, cf = TRUE), class = "zaro_warning_cf")
})
