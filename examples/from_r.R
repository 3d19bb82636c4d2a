# Which columns differ between two hospitals, from R: the command line and JSON.
# install.packages("jsonlite") once; fedwad is a Python package: pip install .
library(jsonlite)

fedwad <- function(...) {
  out <- suppressWarnings(system2("fedwad", shQuote(c(..., "--json")), stdout = TRUE, stderr = FALSE))
  status <- attr(out, "status")
  if (is.null(status)) status <- 0
  if (status == 2) stop("fedwad refused; run the command without stderr = FALSE to read why")
  answer <- fromJSON(paste(out, collapse = ""))
  answer$code <- status # 0: no evidence of a difference, 3: different, 4: too few rows to tell
  answer
}

set.seed(1)
hospital <- function(n, age) {
  data.frame(age = rnorm(n, age, 9), sex = sample(c("f", "m"), n, TRUE), crp = rexp(n))
}
dir.create("sites", showWarnings = FALSE)
write.csv(hospital(300, 58), "sites/oslo.csv", row.names = FALSE)
write.csv(hospital(250, 63), "sites/paris.csv", row.names = FALSE)

answer <- fedwad("distance", "sites/oslo.csv", "sites/paris.csv")
cat(answer$sentence, "\n")
print(answer$columns[c("name", "share", "pvalue", "smd")]) # a data frame, most important first
