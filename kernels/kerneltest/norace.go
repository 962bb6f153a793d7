//go:build !race

package kerneltest

// Race says that the race detector watches: it allocates on its own account and makes
// everything ten times slower.
const Race = false
