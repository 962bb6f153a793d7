// Package export writes a fit as text that scores rows without bglm: SQL for databases without its
// functions, and PMML for other programs.
package export
