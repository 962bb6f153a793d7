// Package dense is float64 dense linear algebra on row-major matrices: products, Gram matrices Xᵀ
// diag(w) X of tall X, Cholesky factors and triangular solves, on all processors, with AVX-512 or
// AVX2 if available.
//
// # How a product is computed
//
// The core is block: at most 8 x 24 sums of C stay in registers while k outer products of a column
// of A and a row of B are added to them. A row of 24 numbers is three AVX-512 vectors; with 8 rows
// that makes 24 sums, enough to keep two multiply-add units of latency 4 busy, and leaves 8 of 32
// registers for B and for the number of A that is broadcast to a vector. Each step loads 3 vectors
// and 8 numbers for 24 multiply-adds, within the machine's two loads per cycle. With AVX2 the same
// block is computed in quarters of 4 x 12 for its 16 registers. There is one kernel for each number
// of rows and vectors, so that the edges of C, the diagonal of a symmetric C, and X with few
// columns cost little more than necessary.
//
// Around it, in the manner of Goto and van de Geijn (Anatomy of high-performance matrix
// multiplication, ACM TOMS 34, 2008):
//
//   - Sums are split into blocks of depth terms. Eight rows of A and a panel of 24 columns of
//     B, depth long, fit in the first level cache.
//   - C is split into tiles, one task each. A task packs its panels of B, times alpha and the
//     weights, in the order of use; they stay in the second level cache while the rows of A
//     stream past. Rows of A are read in place: eight streams are no burden. Columns of A, as
//     in Xᵀ, are copied if they lie far apart.
//   - Sums are computed in a scratch tile, with whole vectors at its edges, and copied to dst.
//     So the kernels need not handle edges or beta, and none of them needs aligned data.
//   - While a block is computed the next rows of B are prefetched, a cache line for each step.
//
// For a symmetric C only blocks that reach the diagonal are computed and the other triangle is
// copied. Half of a diagonal of 8 x 8 blocks is wasted: for p columns a Gram matrix takes about 1 +
// 7/p times the necessary operations.
//
// A tall narrow X has too few tiles for several processors. There the sum is split into segments
// with a C each, which are added at the end.
//
// Cholesky, triangular solves and the inverse halve their matrix until it is small, which leaves
// nearly all work to products; the rest is done in packed panels by the same block.
//
// # Reproducibility
//
// Results do not depend on GOMAXPROCS, on the alignment of slices or on timing. A number of C is a
// sum of blocks of depth terms, each added in order; the division into blocks and segments depends
// only on the shapes of the matrices, and segments are added in order. Tiles do depend on the
// number of processors, but no sum crosses from one to another. AVX-512 and AVX2 give the same bits
// as well: they fuse the same multiply-adds in the same order. The portable code does not.
//
// The division also makes errors smaller than those of a plain loop: a sum of k products has an
// error of at most about (depth + k/depth) units in the last place of Σ|a||b|, not k.
//
// # Conventions
//
// NaN and infinities propagate as in the formulas: no zero is skipped, so 0 times NaN is NaN, with
// the exceptions that BLAS makes for alpha = 0 and beta = 0. Wrong shapes panic: they are bugs in
// the caller, not in the data. Destinations must not overlap operands unless a comment says so.
//
// The build tag purego leaves the assembly out.
package dense
