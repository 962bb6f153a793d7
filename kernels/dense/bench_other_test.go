//go:build !amd64 || purego

package dense

// peakOps is zero: there is no loop to measure the peak with.
func peakOps(int) float64 { return 0 }
