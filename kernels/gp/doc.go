// Package gp is Gaussian process regression with the likelihoods of kernels/lik, by
// Laplace's approximation.
//
//	f ~ GP(mean, k),  η_i = f(x_i) + offset_i,  y_i ~ p(y | η_i)
//
// The posterior of f at the rows is taken as Gaussian around its mode f̂, with the
// curvatures W_i = -∂² log p(y_i | η_i)/∂η² there. Everything is written in
//
//	f̂ = mean + Kα,   α = ∇ log p(y | f̂),   B = I + W½ K W½
//
// so that neither K nor W is ever inverted: the eigenvalues of B are 1 and more,
// whatever duplicates the rows have. With a Gaussian likelihood it is exact
// Gaussian process regression.
//
// # Prediction
//
// With k = k(x*, X) the latent value at x* is Gaussian with
//
//	mean*     = mean + kᵀα
//	variance* = k(x*, x*) - kᵀ(K + W⁻¹)⁻¹k = k(x*, x*) - |T k|²,  T = L⁻¹ W½,  B = L Lᵀ
//
// A Posterior keeps the rows of X, α and the triangle T, n(n+1)/2 numbers: one
// prediction is a product with T, and nothing is factored or solved.
//
// # Likelihoods that are not log-concave
//
// Student-t and gaussian with the log link have rows with W_i < 0 where the datum
// disagrees with its neighbours. These rows are ordered last, and with J = diag(±1) the
// signs of W
//
//	J + |W|½ K |W|½ = L J Lᵀ,  variance* = k(x*, x*) - (T k)ᵀ J (T k),  T = L⁻¹ |W|½
//
// is a Cholesky factorisation in two blocks that exists wherever f̂ is a true maximum.
// Newton's method floors W at 0 on the way to it; should the factor fail at the end, so
// does the posterior, and the status counts the rows.
//
// There may be several modes. Where the first one gives up rows, others are searched by
// likelihoods that are at first so wide that one mode is left, then narrow; the one of
// most evidence wins, and the status says so.
//
// # Evidence
//
//	log q(y) = Σ log p(y_i | η̂_i) - ½ αᵀ(f̂ - mean) - Σ log L_ii
//
// Sources: Rasmussen and Williams (2006), sections 2.2, 3.4 and 5.5.1; Hennig (2020),
// lecture 14.
package gp
