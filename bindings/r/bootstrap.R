# Run by those who build source packages from a checkout (r-universe, pkgbuild): see tools/bundle.sh.
status <- system2("sh", c("tools/bundle.sh", "--vendor"))
if (status != 0) stop("tools/bundle.sh failed")
