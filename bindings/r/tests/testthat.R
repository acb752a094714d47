library(testthat)
library(zaro)
test_check("zaro")
