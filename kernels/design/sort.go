package design

import "sort"

// SortEntries sorts the entries of a row by column; no column occurs twice.
func SortEntries(cols []uint32, vals []float64) {
	if len(cols) <= 32 {
		for k := 1; k < len(cols); k++ {
			c, v := cols[k], vals[k]
			j := k
			for ; j > 0 && cols[j-1] > c; j-- {
				cols[j], vals[j] = cols[j-1], vals[j-1]
			}
			cols[j], vals[j] = c, v
		}
		return
	}
	sort.Sort(byColumn{cols, vals})
}

type byColumn struct {
	cols []uint32
	vals []float64
}

func (s byColumn) Len() int           { return len(s.cols) }
func (s byColumn) Less(i, j int) bool { return s.cols[i] < s.cols[j] }
func (s byColumn) Swap(i, j int) {
	s.cols[i], s.cols[j] = s.cols[j], s.cols[i]
	s.vals[i], s.vals[j] = s.vals[j], s.vals[i]
}
