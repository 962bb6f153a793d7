// Package gp implements Gaussian process regression with the likelihoods of kernels/lik, by
// Laplace's approximation.
//
//	f ~ GP(mean, k),  η_i = f(x_i) + offset_i,  y_i ~ p(y | η_i)
//
// The posterior of f at the rows is approximated by a Gaussian around its mode f̂, with the
// curvatures W_i = -∂² log p(y_i | η_i)/∂η² there. Everything is expressed in
//
//	f̂ = mean + Kα,   α = ∇ log p(y | f̂),   B = I + W½ K W½
//
// so that neither K nor W is ever inverted: the eigenvalues of B are at least 1, even if rows
// are duplicated. With a Gaussian likelihood it is exact Gaussian process regression.
//
// # Prediction
//
// With k = k(x*, X) the latent value at x* is Gaussian with
//
//	mean*     = mean + kᵀα
//	variance* = k(x*, x*) - kᵀ(K + W⁻¹)⁻¹k = k(x*, x*) - |T k|²,  T = L⁻¹ W½,  B = L Lᵀ
//
// A Posterior keeps the rows of X, α and the triangle T, n(n+1)/2 numbers: a prediction is one
// product with T, and nothing is factored or solved.
//
// # Likelihoods that are not log-concave
//
// Student-t and gaussian with the log link have rows with W_i < 0 where a response disagrees with
// its neighbours. These rows are ordered last, and with J = diag(±1) the signs of W
//
//	J + |W|½ K |W|½ = L J Lᵀ,  variance* = k(x*, x*) - (T k)ᵀ J (T k),  T = L⁻¹ |W|½
//
// is a Cholesky factorisation in two blocks that exists if f̂ is a true maximum. Where it fails
// W is floored at 0, on the way to the mode and, if need be, at the end, in which case the
// status counts the rows.
//
// There may be several modes. If the first one gives up rows, others are searched for with
// likelihoods that are initially so wide that only one mode is left, and then narrow; the one
// of highest evidence wins, and the status says so.
//
// # Evidence
//
//	log q(y) = Σ log p(y_i | η̂_i) - ½ αᵀ(f̂ - mean) - Σ log L_ii
//
// Sources: Rasmussen and Williams (2006), sections 2.2, 3.4 and 5.5.1; Hennig (2020),
// lecture 14.
package gp
