// Package rules holds what the code of this module keeps to: which package may import
// which, and that packages and exported names are documented. Its tests read the
// source and need no compiler of C; `make lint` runs them.
package rules
