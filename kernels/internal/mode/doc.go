// Package mode holds what the searches for a posterior's mode share: X and its
// products, the square root of a prior covariance, Cholesky factors of whitened
// Hessians and the Gaussians they make, and low-rank Hessians.
package mode
