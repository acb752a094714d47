#' Open any Zarr, wherever it lives
#'
#' [zaro()] opens, [zaro_list()], [zaro_tree()] and [zaro_meta()] say what is there,
#' [zaro_read()] reads. [zaro_array()] is a lazy array with the indexing of R, and
#' [zaro_sel()] selects by coordinate values.
#'
#' Failures are conditions of the class `zaro_error` and one for their kind:
#' `zaro_error_usage`, `_not_found`, `_invalid`, `_unsupported`, `_io`, `_conflict`,
#' `_cancelled`, `_not_permitted` and `_panic`, with the fields `store`, `node`, `key`,
#' `field` and `hints`. Warnings are `zaro_warning`, with `_precision`, `_clamped`,
#' `_finding`, `_cf`, `_copy` or `_damaged`.
#'
#' Options: `zaro.verbose`, whether to say what is done (in interactive sessions);
#' `zaro.progress`, whether to show progress after a second (in interactive sessions, with
#' 'cli'), or a function of how much is done of how much; `zaro.progressr = TRUE` for
#' 'progressr' instead; `zaro.memory`, bytes that reads may use besides their results.
#'
#' @importFrom methods new
#' @keywords internal
"_PACKAGE"

.onLoad <- function(libname, pkgname) {
  threads <- suppressWarnings(as.numeric(Sys.getenv(c("ZARO_THREADS", "OMP_THREAD_LIMIT"))))
  threads <- threads[!is.na(threads) & threads >= 1][1]
  # A check allows two.
  if (nzchar(Sys.getenv("_R_CHECK_LIMIT_CORES_"))) threads <- 2
  memory <- getOption("zaro.memory")
  if (!is.na(threads) || !is.null(memory)) {
    native("config", threads = if (!is.na(threads)) threads, memory = memory)
  }
  if (isNamespaceLoaded("DelayedArray")) register_delayed()
  setHook(packageEvent("DelayedArray", "onLoad"), register_delayed)
}
