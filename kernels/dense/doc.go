// Package dense is float64 dense linear algebra on row-major matrices: products, Gram
// matrices, Cholesky factors and triangular solves.
//
// Wrong shapes panic: they are bugs of the caller, not of the data.
package dense
