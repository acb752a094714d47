# Makes the pages in man/ of the comments in R/; run in the folder of the package. NAMESPACE is written by hand.
roxygen2::roxygenise(roclets = "rd", load_code = roxygen2::load_source)
