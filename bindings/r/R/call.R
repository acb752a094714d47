# The way to the native library: one call, conditions of our own classes, progress, and the log of requests.

# What base R has only since 4.4.
or <- function(x, y) if (is.null(x)) y else x

native <- function(op, ..., verbose = FALSE) {
  args <- list(...)
  bar <- progress_bar()
  args$progress <- bar$show
  if (isTRUE(verbose)) args$log <- show_requests
  out <- tryCatch(.Call(zaro_call, op, args), finally = bar$done())
  if (!is.null(out$error)) stop(error_condition(out$error))
  for (w in out$warnings) {
    warning(condition("warning", w$class, w$message))
  }
  out$value
}

condition <- function(type, kind, message, fields = list()) {
  kind <- gsub("-", "_", kind, fixed = TRUE)
  structure(
    class = c(paste0("zaro_", type, "_", kind), paste0("zaro_", type), type, "condition"),
    c(list(message = message, call = NULL, kind = kind), fields)
  )
}

error_condition <- function(e) {
  fields <- e[c("store", "node", "key", "field", "hints")]
  names(fields) <- c("store", "node", "key", "field", "hints")
  condition("error", e$kind, e$message, fields)
}

fail <- function(kind, ...) stop(condition("error", kind, paste0(...)))
warn <- function(kind, ...) warning(condition("warning", kind, paste0(...)))

say <- function(verbose, ...) if (isTRUE(verbose)) message("[zaro] ", ...)

show_requests <- function(lines, unused) for (line in lines) message("[zaro] ", line)

is_verbose <- function() getOption("zaro.verbose", interactive())

# After a second, Rust calls `show` with how much is done of how much, ten times a second or more.
progress_bar <- function() {
  how <- getOption("zaro.progress", interactive())
  nothing <- list(show = NULL, done = function() invisible())
  if (is.function(how)) return(list(show = function(done, total) how(done, total), done = nothing$done))
  if (!isTRUE(how)) return(nothing)
  if (requireNamespace("progressr", quietly = TRUE) && length(progressr::handlers()) > 0 &&
      isTRUE(getOption("zaro.progressr", FALSE))) {
    step <- progressr::progressor(steps = 100)
    seen <- 0
    return(list(
      show = function(done, total) {
        now <- if (total > 0) floor(100 * done / total) else seen
        if (now > seen) step(amount = now - seen)
        seen <<- now
      },
      done = nothing$done
    ))
  }
  if (!requireNamespace("cli", quietly = TRUE)) return(nothing)
  bar <- NULL
  list(
    show = function(done, total) {
      if (is.null(bar)) {
        bar <<- cli::cli_progress_bar("zaro", total = if (total > 0) total else NA, .auto_close = FALSE)
      }
      cli::cli_progress_update(id = bar, set = done)
    },
    done = function() if (!is.null(bar)) cli::cli_progress_done(id = bar)
  )
}
