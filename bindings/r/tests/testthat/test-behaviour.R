test_that("failures are conditions with classes and fields", {
  e <- expect_error(zaro(tempfile()), class = "zaro_error_not_found")
  expect_s3_class(e, "zaro_error")
  e <- expect_error(zaro_read(zaro_demo(), "nothing"), class = "zaro_error_not_found")
  expect_match(e$node, "nothing")
  path <- stored('"int32"', 4, as.raw(1:3))
  e <- expect_error(zaro_read(path), class = "zaro_error")
  expect_match(e$key, "c/0")
})

test_that("no message and no panic ends the session", {
  text <- "https://h/a%20b%s%n%d %"
  e <- expect_error(zaro:::native("trial", what = "error", text = text), class = "zaro_error_io")
  expect_identical(conditionMessage(e), text)
  e <- expect_error(zaro:::native("trial", what = "panic", text = text), class = "zaro_error_panic")
  expect_match(conditionMessage(e), "bug")
  expect_error(zaro:::native("nonsense"), class = "zaro_error_usage")
  expect_identical(zaro_read(zaro_demo(), "lat")[1], -87.5)
})

test_that("an R error in a callback keeps its class, and stops the work", {
  hurry <- function(done, total) stop(structure(class = c("my_error", "error", "condition"), list(message = "mine", call = NULL)))
  old <- options(zaro.progress = hurry)
  on.exit(options(old))
  took <- system.time(expect_error(zaro:::native("trial", what = "wait", seconds = 20), class = "my_error"))
  expect_lt(took[["elapsed"]], 5)
})

test_that("progress is told after a second, and not before", {
  seen <- 0
  old <- options(zaro.progress = function(done, total) seen <<- seen + 1)
  on.exit(options(old))
  zaro:::native("trial", what = "wait", seconds = 0.3)
  expect_identical(seen, 0)
  zaro:::native("trial", what = "wait", seconds = 1.6)
  expect_gt(seen, 2)
})

test_that("a callback may call zaro", {
  seen <- NULL
  old <- options(zaro.progress = function(done, total) seen <<- zaro_read(zaro_demo(), "lat", 0, 1))
  on.exit(options(old))
  zaro:::native("trial", what = "wait", seconds = 1.2)
  expect_identical(as.vector(seen), -87.5)
})

test_that("Ctrl-C stops work within 0.3 s, and the session goes on", {
  skip_on_os("windows")
  skip_if_not_installed("callr")
  code <- function(ready) {
    options(zaro.verbose = FALSE)
    writeLines(as.character(Sys.getpid()), ready)
    began <- Sys.time()
    stopped <- tryCatch({
      zaro:::native("trial", what = "wait", seconds = 20)
      "finished"
    }, interrupt = function(i) "interrupted")
    list(stopped = stopped, at = as.numeric(Sys.time()), still = zaro::zaro_read(zaro::zaro_demo(), "lat")[1])
  }
  ready <- tempfile()
  p <- callr::r_bg(code, list(ready = ready))
  on.exit(p$kill())
  while (!file.exists(ready) && p$is_alive()) Sys.sleep(0.05)
  Sys.sleep(0.7)
  sent <- as.numeric(Sys.time())
  p$interrupt()
  p$wait(15000)
  out <- p$get_result()
  expect_identical(out$stopped, "interrupted")
  expect_lt(out$at - sent, 0.3)
  expect_identical(out$still, -87.5)
})

test_that("forked children read what the parent opened", {
  skip_on_os("windows")
  store <- zaro(zaro_demo())
  here <- zaro_read(store, "sst")
  x <- zaro_array(store, "sst", cf = FALSE)
  out <- parallel::mclapply(1:3, function(i) zaro_read(store, "sst"), mc.cores = 2)
  for (o in out) expect_identical(o, here)
  out <- parallel::mclapply(1:4, function(i) x[i, , ], mc.cores = 2)
  expect_identical(out[[3]], x[3, , ])
})

test_that("objects are small plain data, and open again where they arrive", {
  store <- zaro(zaro_demo())
  x <- zaro_array(store, "sst", cf = FALSE)
  expect_lt(length(serialize(store, NULL)), 1000)
  expect_lt(length(serialize(x, NULL)), 1500)
  file <- tempfile()
  saveRDS(x, file)
  zaro_close()
  expect_identical(readRDS(file)[1, 1, ], x[1, 1, ])
  skip_if_not_installed("callr")
  there <- callr::r(function(file) {
    loadNamespace("zaro")
    readRDS(file)[1, , ]
  }, list(file))
  expect_identical(there, x[1, , ])
})

test_that("workers give the same answers", {
  skip_if_not_installed("future")
  skip_if_not_installed("future.apply")
  skip_on_cran()
  old <- options(future.globals.onReference = "error")
  on.exit(options(old))
  x <- zaro_array(zaro_demo(), "sst", cf = FALSE)
  future::plan(future::multisession, workers = 2)
  on.exit(future::plan(future::sequential), add = TRUE)
  out <- future.apply::future_lapply(1:3, function(i) x[i, , ], future.packages = "zaro")
  expect_identical(out[[2]], x[2, , ])
})

test_that("literal headers stay in their process", {
  store <- zaro:::new_store("https://example.org/x", list(header = "Authorization: secret"))
  expect_false(grepl("secret", paste(utils::capture.output(dput(unclass(store))), collapse = "")))
  expect_identical(zaro:::resolved(store)$options$header, "Authorization: secret")
  other <- store
  other$options$header_id <- "1-1000"
  expect_error(zaro:::resolved(other), class = "zaro_error_not_permitted")
  env <- zaro:::new_store("https://example.org/x", list(header_env = c(Authorization = "ZARO_TEST_TOKEN")))
  expect_error(zaro:::resolved(env), class = "zaro_error_not_permitted")
  Sys.setenv(ZARO_TEST_TOKEN = "t")
  on.exit(Sys.unsetenv("ZARO_TEST_TOKEN"))
  expect_identical(zaro:::resolved(env)$options$header, "Authorization: t")
})

test_that("what is open is bounded, and can be closed", {
  zaro_close()
  expect_equal(zaro_config()$open, 0)
  for (i in 1:40) zaro_read(stored('"int8"', 1, as.raw(i)))
  expect_equal(zaro_config()$open, 32)
  zaro_close()
  expect_equal(zaro_config()$open, 0)
  before <- zaro_config()
  expect_equal(zaro_config(threads = 1)$threads, 1)
  zaro_config(threads = before$threads, memory = before$memory)
})

test_that("a damaged chunk is an error, never numbers", {
  path <- tempfile(fileext = ".zarr")
  zaro_write(path, "x", as.numeric(1:100), create = TRUE, codecs = "zstd:3+crc32c")
  writeBin(as.raw(1:20), file.path(path, "x/c/0"))
  expect_error(zaro_read(path, "x"), class = "zaro_error")
})
