// Package arrowio moves belief tables and fits between bglm and Arrow or Parquet,
// without cgo.
//
// A belief table has the columns
//
//	feature   utf8, not null
//	mean      float64, not null
//	variance  float64, not null
//
// one row a weight, in belief order (the intercept, dense positions by number,
// names by bytes). What else a kernels.Fit holds is key-value metadata of the
// Arrow schema or Parquet file:
//
//	bglm.schema                          "1", the version of all of this
//	bglm.method .family .link .status    text
//	bglm.shape .time .hash_bits          left out where the fit has none
//	bglm.dispersion .log_evidence        numbers that read back bit for bit
//	bglm.prior_mean .prior_variance .prior_intercept_variance
//	bglm.intercept .converged            true or false
//	bglm.n .n_skipped .iterations        whole numbers
//	bglm.covariance                      "diagonal", the only kind
//
// A table without bglm.schema, from any other program, reads too: then the
// caller says what model its beliefs belong to (Options). Columns besides the
// three are ignored.
package arrowio
