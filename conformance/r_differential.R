# Reads what a list says, and leaves the values as bytes for r_differential.py: one process for all.
suppressWarnings(library(zaro))
options(zaro.verbose = FALSE, zaro.progress = FALSE)
args <- commandArgs(TRUE)
jobs <- utils::read.table(args[1], sep = "\t", quote = "", comment.char = "", stringsAsFactors = FALSE,
                          colClasses = "character", col.names = c("id", "store", "path", "order", "cf"))
out <- args[2]

put <- function(x, name) {
  con <- file(file.path(out, paste0(name, ".bin")), "wb")
  on.exit(close(con))
  type <- typeof(x)
  if (type == "list") {
    for (item in x) {
      writeBin(length(item), con)
      writeBin(as.raw(item), con)
    }
  } else {
    plain <- unclass(x)
    attributes(plain) <- NULL
    if (type == "character") {
      # A missing one differs from the text "NA".
      plain[is.na(plain)] <- "\001NA"
      plain <- enc2utf8(plain)
    }
    writeBin(plain, con, useBytes = TRUE)
  }
  paste(type, paste(dim(x), collapse = ","), paste(class(x), collapse = ","), paste(names(dim(x)), collapse = ","), sep = "\t")
}

lines <- vapply(seq_len(nrow(jobs)), function(i) {
  job <- jobs[i, ]
  tryCatch({
    x <- suppressWarnings(zaro_read(job$store, job$path, order = job$order, cf = job$cf == "1", int64 = "character"))
    if (is.data.frame(x) || (is.list(x) && !is.null(names(x)))) {
      fields <- vapply(seq_along(x), function(k) put(x[[k]], paste0(job$id, ".", k)), "")
      paste0(job$id, "\tstruct\t", paste(names(x), collapse = ","), "\t", paste(gsub("\t", ";", fields), collapse = "\t"))
    } else {
      paste0(job$id, "\t", put(x, job$id))
    }
  }, error = function(e) paste0(job$id, "\terror\t", gsub("[\t\n]", " ", conditionMessage(e))))
}, "")
writeLines(lines, file.path(out, "results"), useBytes = TRUE)
