// Package kernels is the numerical core of bglm: pure Go, no C, no driver.
//
// A generalized linear model has a linear predictor s = xᵀw + offset, a likelihood p(y | s)
// (package lik) and a Gaussian prior on the weights w. Every engine consumes Batches, the one
// columnar interface of the numerics, and keeps Gaussian beliefs (mean, variance) over weights,
// which a Dict numbers by feature name. Producers fill Batches from DuckDB vectors or Arrow arrays;
// engines do not know the source.
package kernels
