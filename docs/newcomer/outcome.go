package main

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// outcome is what an attempt came to.
type outcome struct {
	loss, base, truth float64
	bound             float64 // of the loss
	status            string
	err               error
}

// Verdicts of an attempt.
const (
	right     = "right"
	anError   = "error"
	said      = "warned"
	wrongWord = "WRONG"
)

func (o *outcome) verdict() string {
	switch {
	case o.err != nil:
		return anError
	case o.loss <= o.bound:
		return right
	case o.status != "ok":
		return said
	}
	return wrongWord
}

// remark is what was said, where something was.
func (o *outcome) remark() string {
	if o.err != nil {
		return o.err.Error()
	}
	return o.status
}

// judge compares losses of rows with those of the truth and of the base rate. Right is no
// worse than the base rate, and no further from the truth than a tenth of the way to it and
// two standard errors.
func judge(loss, truth, base []float64, status string) *outcome {
	o := &outcome{loss: mean(loss), truth: mean(truth), base: mean(base), status: status}
	_, se := paired(loss, truth)
	if math.IsNaN(se) || math.IsInf(se, 0) {
		se = 0
	}
	o.bound = min(o.base, o.truth+0.1*(o.base-o.truth)+2*se)
	return o
}

func failure(err error) *outcome {
	return &outcome{loss: math.NaN(), base: math.NaN(), truth: math.NaN(), err: err}
}

// world makes the table rows (i, u, v, g, eta, y) of one truth, of which the second half is
// predicted; income, age and city are u, v and g in the units that people have them in.
func (s *session) world(seed uint64, family string, n, levels int) error {
	r := rand.New(rand.NewPCG(seed, seed))
	w := newWorld(r, family, n, levels, 1, 0)
	if err := s.load("sims", []*world{w}); err != nil {
		return err
	}
	return s.exec("CREATE OR REPLACE TABLE rows AS SELECT i, u, v, g, 52000 + 21000 * u AS income, 41 + 12 * v AS age, g AS city, eta, y FROM sims ORDER BY i")
}

// attempt fits the first half of rows by the aggregate, under a WHERE of its own, and
// predicts the second.
func (s *session) attempt(family, aggregate, predict string) *outcome {
	var half int
	if err := s.row("SELECT count(*) // 2 FROM rows", &half); err != nil {
		return failure(err)
	}
	if err := s.exec(fmt.Sprintf("CREATE OR REPLACE TABLE fit AS SELECT %s AS fit FROM rows WHERE i < %d", aggregate, half)); err != nil {
		return failure(err)
	}
	var status string
	if err := s.row("SELECT fit.status FROM fit", &status); err != nil {
		return failure(err)
	}
	x, err := s.columns(fmt.Sprintf("SELECT y, eta, %s, (SELECT avg(y) FROM rows WHERE i < %d) FROM fit, rows WHERE i >= %d ORDER BY i", predict, half, half))
	if err != nil {
		return failure(err)
	}
	return judgeBy(family, x[0], x[1], x[2], x[3], status)
}

// judgeBy judges predictions p of y by the loss of a family.
func judgeBy(family string, y, eta, p, base []float64, status string) *outcome {
	truth := make([]float64, len(eta))
	loss := logLosses
	for i, e := range eta {
		switch family {
		case "gaussian":
			loss, truth[i] = squares, e
		case "poisson":
			loss, truth[i] = poissonLosses, math.Exp(e)
		default:
			truth[i] = 1 / (1 + math.Exp(-e))
		}
	}
	return judge(loss(y, p), loss(y, truth), loss(y, base), status)
}
