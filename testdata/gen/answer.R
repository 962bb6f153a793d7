# What R says of a few small fits: stacking weights (loo), robust covariances (sandwich),
# marginal means and their contrasts (emmeans), average comparisons and slopes (by the delta
# method, written out: marginaleffects' definition). Debian's r-cran-loo, r-cran-sandwich,
# r-cran-emmeans.
#
#   Rscript testdata/gen/answer.R testdata/answer
#
# rows.csv has the rows, facts.csv what was found: model, what, key, value.
suppressMessages({library(loo); library(sandwich); library(emmeans)})
out <- commandArgs(TRUE)[1]
set.seed(11)
n <- 120
g <- sample(c("a", "b", "c"), n, TRUE)
h <- sample(c("u", "v"), n, TRUE)
cl <- paste0("k", sample(1:15, n, TRUE))
x <- round(rnorm(n), 4)
z <- round(runif(n, 0, 3), 4)
u <- rnorm(15, 0, 0.6)[as.integer(sub("k", "", cl))]
eta <- 0.3 + 0.8 * x - 0.5 * z + c(a = 0, b = 0.7, c = -0.4)[g] + 0.3 * (h == "v") + u
d <- data.frame(i = 1:n, cl, g, h, x, z,
  bin = rbinom(n, 1, plogis(eta)), cnt = rpois(n, exp(0.6 * eta + 0.5)),
  num = round(eta + rnorm(n) * (0.5 + 0.5 * abs(x)), 4),
  pos = round(exp(0.4 * eta) * rgamma(n, 3) / 3 + 0.001, 4))
write.csv(d, file.path(out, "rows.csv"), row.names = FALSE, quote = FALSE)
facts <- data.frame()
say <- function(model, what, key, value) facts <<- rbind(facts, data.frame(model, what, key, value = sprintf("%.15g", value)))
name <- function(k) { k <- sub("^g", "g=", k); k <- sub("^h", "h=", k); ifelse(k == "(Intercept)", k, k) }
models <- list(
  logit = glm(bin ~ x + z + g + h, binomial, d, epsilon = 1e-14),
  probit = glm(bin ~ x + z + g + h, binomial("probit"), d, epsilon = 1e-14),
  cloglog = glm(bin ~ x + z + g + h, binomial("cloglog"), d, epsilon = 1e-14),
  poisson = glm(cnt ~ x + z + g + h, poisson, d, epsilon = 1e-14),
  gaussian = lm(num ~ x + z + g + h, d),
  interaction = glm(bin ~ x + z + x:z + h, binomial, d, epsilon = 1e-14),
  offset = glm(cnt ~ x + g + offset(log(z + 1)), poisson, d, epsilon = 1e-14),
  plain = lm(num ~ x + z, d),
  levels = glm(bin ~ g + h, binomial, d, epsilon = 1e-14),
  small = glm(cnt ~ g + x, poisson, d, epsilon = 1e-14))
# Links that are not canonical have another observed than expected information. R takes the
# expected one; the posterior's curvature, and what a robust covariance of an estimate of
# maximum likelihood asks for, is the observed one: both are written out here.
observed <- function(m) {
  X <- model.matrix(m); f <- m$family; y <- m$y; b <- coef(m); k <- length(b)
  score <- function(b) { e <- drop(X %*% b); mu <- f$linkinv(e); colSums(X * ((y - mu) * f$mu.eta(e) / f$variance(mu))) }
  A <- sapply(1:k, function(j) { h <- 1e-5; p <- b; q <- b; p[j] <- p[j] + h; q[j] <- q[j] - h; -(score(p) - score(q)) / (2 * h) })
  solve((A + t(A)) / 2)
}
canonical <- function(m) !inherits(m, "glm") || m$family$link %in% c("logit", "log")
V0 <- function(m) if (canonical(m)) vcov(m) else observed(m)
# average comparison or slope with its error by the delta method, at given weights
effect <- function(m, lo, hi, per = 1) {
  X <- function(data) model.matrix(delete.response(terms(m)), data, xlev = m$xlevels)
  inv <- if (inherits(m, "glm")) m$family$linkinv else identity
  o <- if (is.null(m$offset)) 0 else m$offset
  f <- function(b) mean(inv(X(hi) %*% b + o) - inv(X(lo) %*% b + o)) / per
  b <- coef(m)
  grad <- sapply(seq_along(b), function(j) { e <- 1e-5; p <- b; q <- b; p[j] <- p[j] + e; q[j] <- q[j] - e; (f(p) - f(q)) / (2 * e) })
  c(f(b), sqrt(drop(grad %*% V0(m) %*% grad)))
}
for (k in names(models)) {
  m <- models[[k]]
  if (k == "interaction") nm <- sub(":", "_by_", names(coef(m))) else nm <- names(coef(m))
  nm <- name(nm)
  V <- list(vcov = vcov(m), HC0 = vcovHC(m, "HC0"), HC1 = vcovHC(m, "HC1"), HC2 = vcovHC(m, "HC2"), HC3 = vcovHC(m, "HC3"),
            CL0 = vcovCL(m, d$cl, "HC0"), CL1 = vcovCL(m, d$cl, "HC1"))
  if (!canonical(m)) {
    A <- observed(m)
    S <- function(meat) sandwich(m, bread. = A * n, meat. = meat)
    V <- list(vcov = A, HC0 = S(meatHC(m, type = "HC0")), HC1 = S(meatHC(m, type = "HC1")), CL0 = S(meatCL(m, d$cl, "HC0")), CL1 = S(meatCL(m, d$cl, "HC1")))
  }
  for (j in seq_along(nm)) {
    say(k, "coef", nm[j], coef(m)[j])
    for (v in names(V)) say(k, v, nm[j], sqrt(V[[v]][j, j]))
  }
  if (!inherits(m, "glm")) say(k, "sigma2", "", summary(m)$sigma^2)
  vars <- intersect(c("x", "z", "g", "h"), all.vars(formula(m)))
  for (v in vars) {
    if (v %in% c("g", "h")) {
      for (l in sort(unique(d[[v]]))[-1]) {
        lo <- d; hi <- d; lo[[v]] <- sort(unique(d[[v]]))[1]; hi[[v]] <- l
        e <- effect(m, lo, hi); key <- paste0(v, ":mean(", l, ") - mean(", sort(unique(d[[v]]))[1], ")")
        say(k, "effect", key, e[1]); say(k, "effect_sd", key, e[2])
      }
    } else {
      if (k == "offset" && v == "z") next
      lo <- d; hi <- d; lo[[v]] <- d[[v]] - 1e-4; hi[[v]] <- d[[v]] + 1e-4
      e <- effect(m, lo, hi, 2e-4); say(k, "effect", paste0(v, ":dY/dX"), e[1]); say(k, "effect_sd", paste0(v, ":dY/dX"), e[2])
      lo <- d; hi <- d; hi[[v]] <- d[[v]] + 2
      e <- effect(m, lo, hi); say(k, "effect", paste0(v, ":+2"), e[1]); say(k, "effect_sd", paste0(v, ":+2"), e[2])
    }
  }
  if ("g" %in% vars && k != "interaction") {
    p <- as.data.frame(summary(pairs(emmeans(m, "g", data = d, vcov. = V0(m))), infer = c(TRUE, FALSE), adjust = "none", df = Inf))
    for (r in seq_len(nrow(p))) { say(k, "pair", as.character(p$contrast[r]), p$estimate[r]); say(k, "pair_sd", as.character(p$contrast[r]), p$SE[r]) }
  }
}
pt <- matrix(round(c(rnorm(30, -1, 0.7), rnorm(30, -1, 0.8), rnorm(30, -1.4, 0.9)), 4), 30)
for (i in 1:30) for (j in 1:3) say("stacking", "point", paste(i, j), pt[i, j])
w <- stacking_weights(pt, optim_control = list(reltol = 1e-15))
for (j in 1:3) {
  say("stacking", "weight", paste(j), as.numeric(w)[j])
  say("stacking", "elpd", paste(j), sum(pt[, j])); say("stacking", "se", paste(j), sqrt(30 * var(pt[, j])))
  b <- which.max(colSums(pt)); say("stacking", "diff", paste(j), sum(pt[, j] - pt[, b])); say("stacking", "se_diff", paste(j), sqrt(30 * var(pt[, j] - pt[, b])))
}
write.csv(facts, file.path(out, "facts.csv"), row.names = FALSE, quote = TRUE)
