package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/stop"
)

// Classifier is a fit of rows whose response is the number that Class gave to their label.
type Classifier struct {
	*kernels.Rows
	// numeric says that labels are numbers: classes are then in numeric order, else in byte order.
	numeric bool
	labels  kernels.Dict
}

// newClassifier returns a fit without rows. Model.Lik is not used. The classes of the fit that is
// continued are classes from the start.
func newClassifier(_ context.Context, m *kernels.Model) (Fitter, error) {
	r, err := kernels.NewLabelledRows(m)
	if err != nil {
		return nil, err
	}
	c := &Classifier{Rows: r, labels: kernels.Dict{Max: MaxClasses}}
	if m = r.Model; m.Start != nil {
		for _, name := range m.Start.Classes {
			if _, err := c.labels.AddRaw(name); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

// MaxClasses limits the labels of a fit: more of them are a mistake in y.
const MaxClasses = 1000

// Class is the number of a label; numeric says that all labels are numbers.
func (c *Classifier) Class(label string, numeric bool) (float64, error) {
	c.numeric = numeric
	return c.number(label)
}

func (c *Classifier) number(label string) (float64, error) {
	id, err := c.labels.AddRaw(label)
	if err != nil {
		return 0, fmt.Errorf("y has more than %d classes", MaxClasses)
	}
	return float64(id), nil
}

func (c *Classifier) Features() *kernels.Dict { return &c.Rows.Dict }
func (c *Classifier) Size() int64             { return c.Rows.Size() + c.labels.Size() }
func (c *Classifier) Clone() Fitter {
	return &Classifier{c.Rows.Clone(), c.numeric, c.labels.Clone()}
}

func (c *Classifier) Update(_ context.Context, b *kernels.Batch, skip bool) error {
	if b == nil {
		return kernels.ErrNoBatch
	}
	if err := roomForRows(c.Rows, b.Len()); err != nil {
		return err
	}
	return c.Rows.Update(b, skip)
}

func (c *Classifier) Merge(_ context.Context, src Fitter) error {
	o, ok := src.(*Classifier)
	if !ok {
		return errMixed
	}
	if err := roomToMerge(c.Rows, o.Rows); err != nil {
		return err
	}
	to := make([]float64, o.labels.Len())
	for y := range to {
		id, err := c.number(string(o.labels.Name(uint32(y))))
		if err != nil {
			return err
		}
		to[y] = id
	}
	c.numeric = c.numeric || o.numeric
	return c.Rows.Merge(o.Rows.Relabel(to))
}

// classes are the sorted labels of rows and of the fit continued, and the place of each by its
// number. A label whose rows were all left out is not a class.
func (c *Classifier) classes() (names []string, place []int) {
	used := make([]bool, c.labels.Len())
	if s := c.Model.Start; s != nil {
		for id := range s.Classes { // they were numbered first
			used[id] = true
		}
	}
	c.Responses(func(ys []float64) {
		for _, y := range ys {
			used[int(y)] = true
		}
	})
	var order []int
	name := func(id int) string { return string(c.labels.Name(uint32(id))) }
	for id, is := range used {
		if is {
			order = append(order, id)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		if c.numeric {
			x, errX := strconv.ParseFloat(name(a), 64)
			y, errY := strconv.ParseFloat(name(b), 64)
			if errX == nil && errY == nil && x != y {
				return cmp.Compare(x, y)
			}
		}
		return strings.Compare(name(a), name(b))
	})
	place = make([]int, len(used))
	for k, id := range order {
		place[id] = k
		names = append(names, name(id))
	}
	return names, place
}

func (c *Classifier) Fit(ctx context.Context) (*Result, error) {
	ctx, cancel := stop.WithLimit(ctx, c.Model.Options.TimeLimit)
	defer cancel()
	p, g, err := layOut(ctx, c.Rows)
	if err != nil {
		return nil, err
	}
	defer g.Release()
	names, place := c.classes()
	if len(names) == 0 { // no valid row
		f := p.Fit("softmax", p.Normal, 0)
		f.Family, f.Link, f.Beliefs, f.Covariance = kernels.Multinomial, "softmax", nil, kernels.Covariance{}
		f.AddStatus(kernels.SkippedNote(f.Skipped))
		return &Result{Fit: f}, nil
	}
	for i, y := range p.Y {
		p.Y[i] = float64(place[int(y)])
	}
	p, none := weightless(p)
	f, err := solveClasses(ctx, p, names)
	codes, residuals := "", ""
	if err == nil {
		err = noting(ctx, func(s *stop.Stop) {
			if codes = c.CodeNote(s, f); none == "" {
				residuals = p.Under(s).ClassResiduals(f, codes == "")
			}
		})
	}
	return checked(ctx, p.Model, f, err, func() {
		f.AddStatus(codes)
		f.AddStatus(none)
		f.AddStatus(p.ClassSeparation(f))
		f.AddStatus(residuals)
		if none == "" {
			f.AddStatus(p.ClassBaseNote(f))
		}
		if p.Options.Reference == "" && slices.ContainsFunc(p.Offset, func(x float64) bool { return x != 0 }) {
			f.AddStatus("the offset is the same for all classes, which does not change their probabilities: with reference it is that of all classes but one")
		}
		f.AddStatus(c.ScaleNote(f))
		f.KeepMissing(p.Model)
	})
}
