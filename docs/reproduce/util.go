package main

import "slices"

// slope is the least-squares slope of y over x.
func slope(x, y []float64) float64 {
	mx, my := 0.0, 0.0
	for i := range x {
		mx += x[i] / float64(len(x))
		my += y[i] / float64(len(x))
	}
	xx, xy := 0.0, 0.0
	for i := range x {
		xx += (x[i] - mx) * (x[i] - mx)
		xy += (x[i] - mx) * (y[i] - my)
	}
	return xy / xx
}

// auc is the probability that a row with y = 1 scores above one with y = 0, ties
// counting half.
func auc(y, score []float64) float64 {
	order := make([]int, len(y))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case score[a] < score[b]:
			return -1
		case score[a] > score[b]:
			return 1
		}
		return 0
	})
	ones, below, sum := 0.0, 0.0, 0.0
	for i := 0; i < len(order); {
		pos, neg := 0.0, 0.0
		j := i
		for ; j < len(order) && score[order[j]] == score[order[i]]; j++ {
			if y[order[j]] > 0 {
				pos++
			} else {
				neg++
			}
		}
		sum += pos * (below + neg/2)
		ones += pos
		below += neg
		i = j
	}
	return sum / (ones * below)
}

// ok is v; an error ends the program.
func ok[T any](v T, err error) T {
	must(err)
	return v
}

// must ends the program with an error.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
