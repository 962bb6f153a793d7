// Package arrowio converts belief tables and fits between bglm and Arrow or Parquet, without cgo.
//
// A belief table has the columns
//
//	feature     utf8
//	mean        float64
//	variance    float64
//	fit         utf8, NULL except in the first row of each fit
//
// with one row per weight, in belief order (the intercept, dense positions by number, names by
// bytes), and if some fit needs them
//
//	class       utf8, in front: for fits with classes, class by class
//	covariance  list of float64: the belief's row of a full or low-rank form
//
// The column fit is JSON: the FIT of SQL without its beliefs and the values of its covariance, with
// the fields of package fitlayout. Other columns in front are those of groups; the rows of a
// group's fit are adjacent. A fit without beliefs is one row with NULL in all columns except fit.
// Metadata of the Arrow schema or Parquet file:
//
//	bglm.schema   "3", the version of this format
//	bglm.job.*    what a writer stored beside the fit
//
// Versions 1 and 2, which had the rest of a single fit in the metadata, remain readable. A table
// without bglm.schema, from any other program, can be read too: then the caller describes the model
// of its beliefs (Options), and columns besides the three are ignored.
package arrowio
