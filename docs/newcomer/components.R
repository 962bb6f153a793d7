# Fits of lme4 to the data of the folder: data set, quantity, estimate.
folder <- commandArgs(TRUE)[1]
suppressMessages(library(lme4))
read <- function(name) read.csv(file.path(folder, paste0(name, ".csv")))
out <- data.frame()
say <- function(set, fit) {
  fixed <- fixef(fit)
  v <- as.data.frame(VarCorr(fit))
  sds <- v$sdcor
  names(sds) <- ifelse(v$grp == "Residual", "noise", ifelse(v$var1 %in% "(Intercept)", "sd(g)", paste0("sd(", v$var1, ":g)")))
  for (x in list(fixed, sds)) out <<- rbind(out, data.frame(set = set, quantity = names(x), estimate = x))
}
say("rats", lmer(y ~ x1 + (1 | g) + (0 + x1 | g), read("rats")))
say("radon", lmer(y ~ x1 + (1 | g), read("radon")))
say("surgical", glmer(cbind(y, n - y) ~ 1 + (1 | g), read("surgical"), family = binomial, nAGQ = 25))
say("seeds", glmer(cbind(y, n - y) ~ x1 + x2 + x3 + (1 | g), read("seeds"), family = binomial, nAGQ = 25))
out$version <- as.character(packageVersion("lme4"))
write.csv(out, file.path(folder, "lme4.csv"), row.names = FALSE)
