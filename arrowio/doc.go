// Package arrowio moves belief tables and fits between bglm and Arrow or Parquet,
// without cgo.
//
// A belief table has the columns
//
//	feature     utf8
//	mean        float64
//	variance    float64
//	fit         utf8, NULL but in the first row of each fit
//
// one row a weight, in belief order (the intercept, dense positions by number,
// names by bytes), and where some fit needs them
//
//	class       utf8, in front: of a fit with classes, class by class
//	covariance  list of float64: the belief's row of a full or low-rank form
//
// The column fit is JSON: the FIT of SQL without its beliefs and the values of its
// covariance, as package fitlayout lists its fields. Other columns in front are those of
// groups; the rows of a group's fit lie together. A fit without beliefs is one row with
// NULL in all but fit. Metadata of the Arrow schema or Parquet file:
//
//	bglm.schema   "3", the version of all of this
//	bglm.job.*    what a writer kept beside the fit
//
// Versions 1 and 2, which kept the rest of a single fit in the metadata, are read for
// ever. A table without bglm.schema, from any other program, reads too: then the caller
// says what model its beliefs belong to (Options), and columns besides the three are
// ignored.
package arrowio
