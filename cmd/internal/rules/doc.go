// Package rules has rules that the code of this module obeys: which package may import which, and
// that packages and exported names are documented. Its tests read the source and need no C
// compiler; `make lint` runs them.
package rules
