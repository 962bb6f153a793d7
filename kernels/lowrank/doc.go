// Package lowrank implements LR-GLM: Bayesian generalized linear models whose likelihood sees
// a row only through the M leading right singular vectors of the design,
//
//	s = xᵀw + offset ≈ xᵀμ0 + xᵀU Uᵀ(w - μ0) + offset,   X ≈ V diag(λ) Uᵀ,
//
// so that an n x p problem becomes one of n x M. There are three steps, each useful alone:
//
//   - SVD: randomised truncated singular value decomposition of a sparse or dense
//     design, O(nnz M) operations;
//   - Reduce: the problem in k = M + 1 coordinates with prior u ~ N(0, I), whose posterior
//     any engine may find, and Lift, which maps a Gaussian over u back to the weights;
//   - Fit: Laplace's approximation over u, which is exact for the gaussian family with
//     identity link (the conjugate model of the paper).
//
// The intercept stays outside the decomposition and is treated exactly. The part of the
// predictor that the prior's mean explains is kept whole, so that a fit that continues
// another forgets nothing; for the prior mean 0 of the paper this is the paper's x → U Uᵀx.
// The decomposition is that of the plain X, as in the paper, for any prior and any weights of
// rows. Directions outside U keep their prior.
//
// Source: Trippe, Huggins, Agrawal and Broderick (2019), [trippe2019]; the randomised
// decomposition: Halko, Martinsson and Tropp (2011), [halko2011].
package lowrank
