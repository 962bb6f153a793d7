// Package mode contains what searches for a posterior mode share: Newton's method, Cholesky
// factors of whitened Hessians and the Gaussians made from them, low-rank Hessians, and the
// maximisation of the evidence of prior variances and integration over it.
package mode
