//go:build !purego

package dense

// peakOps does n rounds of the multiply-add loop and returns the operations done.
func peakOps(n int) float64 {
	switch used {
	case avx512:
		peak512(n)
		return float64(n) * 12 * 8 * 2
	case avx2:
		peak2(n)
		return float64(n) * 12 * 4 * 2
	}
	return 0
}
